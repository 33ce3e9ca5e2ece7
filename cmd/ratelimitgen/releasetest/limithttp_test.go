package releasetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The first program of the page of limithttp, with its commands pasted into a shell, except that another port is used if
// 8080 is taken.
func TestFirstProgramOfLimithttp(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "runtime", "limithttp", "README.md"))
	require.NoError(t, err)
	first := func(pattern string) string { return part(t, string(text), "From an empty module to a 429", pattern) }
	port, dir := freePort(t), t.TempDir()
	environment := append(os.Environ(), publish(t)...)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "limits"), 0o755))
	for name, text := range map[string]string{
		"limits/limits.yaml": first("(?s)```yaml\n(.*?)```"),
		"main.go":            strings.Replace(first("(?s)```go\n(.*?)```"), ":8080", port, 1),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	// The server outlives the shell, and keeps its output open.
	printed, err := os.Create(filepath.Join(dir, "printed"))
	require.NoError(t, err)
	defer printed.Close()
	command := exec.Command("sh", "-ec", strings.ReplaceAll(first("(?s)```\n(go mod init .*?)```"), ":8080", port))
	command.Dir, command.Env, command.Stdout, command.Stderr = dir, environment, printed, printed
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = command.Run()
	syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
	out, readErr := os.ReadFile(printed.Name())
	require.NoError(t, readErr)
	require.NoError(t, err, "%s", out)
	assert.Equal(t, 2, strings.Count(string(out), "HTTP/1.1 200 OK\r\n"), "%s", out)
	for line := range strings.Lines(first("(?s)The third response:\n\n```\n(.*?)```")) {
		assert.Contains(t, strings.ReplaceAll(string(out), "\r\n", "\n"), strings.TrimSuffix(line, "\n"))
	}
}
