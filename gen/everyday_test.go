package gen

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The first wishes of users, from the file to the response: exemptions, other limits in other environments, a warning before
// a limit is used up, limits of 0, and counts for bills. The program prints the responses.
func TestEverydayWishes(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	dir := filepath.Join(testdata, "everyday")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	got, err := goTool(t, module(t, map[string]string{
		"limits/limits.gen.go": string(generated(t, read("limits.yaml"))), "main.go": read("main.go"),
	}), "run", ".")
	require.NoError(t, err, got)
	assert.Equal(t, read("want.txt"), got)
}
