package frameworks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadmeHasTheSource compares each snippet of ../README.md with the file that the other tests run.
func TestReadmeHasTheSource(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, frameworks, ok := strings.Cut(string(readme), "\n## Frameworks\n")
	require.True(t, ok)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	snippets := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "doc.go" {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		_, body, ok := strings.Cut(string(source), "\n)\n")
		require.True(t, ok, "%s has imports", file)
		require.Contains(t, frameworks, "```go\n"+strings.TrimSpace(body)+"\n```\n", "copy %s to ../README.md", file)
		snippets++
	}
	require.Equal(t, snippets, strings.Count(frameworks, "```go\n"), "each snippet is a file")
}
