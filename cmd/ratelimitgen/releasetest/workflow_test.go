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

// The workflow that users copy is one that GitHub accepts.
func TestWorkflowIsValid(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "cmd", "ratelimitgen", "README.md"))
	require.NoError(t, err)
	workflow := part(t, string(text), "CI", "(?s)```yml\n(.*?)```")
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	require.NoError(t, err)
	found, err := linter.Lint("limits.yml", []byte(workflow), nil)
	require.NoError(t, err)
	for _, problem := range found {
		assert.Fail(t, "the workflow in the README", problem.Error())
	}
}
