package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/ratelimitgen/ratelimitgen"

// Another module gets the tool, writes the directive, and has a package that compiles.
func TestGoGenerateInAnotherModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tool")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	ours, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	write("go.sum", string(sums))
	write("go.mod", strings.Replace(string(ours), "module "+modulePath, "module example.com/app", 1)+
		"\ntool "+modulePath+"/cmd/ratelimitgen\n\nrequire "+modulePath+" v0.0.0\n\nreplace "+modulePath+" => "+root+"\n")
	write("limits.yaml", starter)
	write("quotas/quotas.go", "package quotas\n\n//go:generate go tool ratelimitgen generate ../limits.yaml\n")
	write("main.go", `package main

import (
	"context"
	"fmt"

	"example.com/app/quotas"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func main() { fmt.Println(quotas.New(new(runtime.MemStore)).SendMessage(7).Allow(context.Background())) }
`)

	run := func(args ...string) (string, error) {
		command := exec.Command("go", args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
		out, err := command.CombinedOutput()
		return string(out), err
	}
	out, err := run("generate", "./...")
	require.NoError(t, err, out)
	assert.Empty(t, out)
	out, err = run("run", ".")
	require.NoError(t, err, out)
	assert.Equal(t, "allowed, 19 left <nil>\n", out)
	out, err = run("tool", "ratelimitgen", "generate", "-check", "-o", "quotas/limits.gen.go")
	require.NoError(t, err, out)

	write("limits.yaml", strings.Replace(starter, "rate: 10", "rate: 20", 1))
	out, err = run("tool", "ratelimitgen", "generate", "-check", "-o", "quotas/limits.gen.go")
	exit := new(exec.ExitError)
	require.ErrorAs(t, err, &exit, out)
	assert.Equal(t, exitNo, exit.ExitCode())
	assert.Contains(t, out, "quotas/limits.gen.go is not what limits.yaml says; run: go tool ratelimitgen generate -o quotas/limits.gen.go limits.yaml")
}
