package gen

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the directory of this module.
func root(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("..")
	require.NoError(t, err)
	return path
}

// module writes a module of its own that uses this one, and returns its directory.
func module(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	ours, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(root(t), "go.sum"))
	require.NoError(t, err)
	files["go.sum"] = string(sums)
	files["go.mod"] = strings.Replace(string(ours), "module "+modulePath, "module example.com/app", 1) +
		"\nrequire " + modulePath + " v0.0.0\n\nreplace " + modulePath + " => " + root(t) + "\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

// goTool runs the go command without a network, and returns what it printed.
func goTool(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	return tool(t, dir, "go", args...)
}

func tool(t testing.TB, dir, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	out, err := command.CombinedOutput()
	return string(out), err
}
