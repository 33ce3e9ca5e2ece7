package releasetest

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rhysd/actionlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The workflow that users copy, and that of this repository, are ones that GitHub accepts.
func TestWorkflowsAreValid(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "cmd", "ratelimitgen", "README.md"))
	require.NoError(t, err)
	workflow := part(t, string(text), "CI", "(?s)```yml\n(.*?)```")
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	require.NoError(t, err)
	ours, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "ci.yml"))
	require.NoError(t, err)
	for name, text := range map[string]string{"the workflow in the README": workflow, "ci.yml": string(ours)} {
		found, err := linter.Lint("limits.yml", []byte(text), nil)
		require.NoError(t, err)
		for _, problem := range found {
			assert.Fail(t, name, problem.Error())
		}
	}
}
