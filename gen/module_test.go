package gen

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root returns the directory of this module.
func root(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("..")
	require.NoError(t, err)
	return path
}

// module writes a new module that requires this one, and returns its directory.
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

// goTool runs the go command without a network, and returns its output. Without the paths of temporary directories in
// packages, the build cache has them for the next run.
func goTool(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	return tool(t, dir, "go", args...)
}

func tool(t testing.TB, dir, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=-trimpath")
	out, err := command.CombinedOutput()
	return string(out), err
}

// Each dependency of the generator becomes a requirement of every app that adds the tool.
func TestGenImportsLittle(t *testing.T) {
	out, err := goTool(t, root(t), "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./gen", "./cmd/...")
	require.NoError(t, err, out)
	allowed := []string{modulePath, "github.com/dave/jennifer/jen", "gopkg.in/yaml.v3", "golang.org/x/text"}
	for path := range strings.FieldsSeq(out) {
		assert.True(t, path == allowed[1] || path == allowed[2] || strings.HasPrefix(path, allowed[0]+"/") || strings.HasPrefix(path, allowed[3]+"/"),
			"%s: apps that add the tool would have to require it", path)
		assert.NotEqual(t, modulePath+"/runtime/sqlstore/sqlite", path, "the tool prints the SQL of dialects, and must not depend on a driver")
	}
}

// CONTRIBUTING.md names all modules that the root module requires, in one sentence.
func TestRequirementsAreDocumented(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root(t), ".github", "CONTRIBUTING.md"))
	require.NoError(t, err)
	_, sentence, ok := strings.Cut(string(page), "requires nothing but ")
	require.True(t, ok)
	sentence, _, _ = strings.Cut(sentence, "\n")
	for line := range strings.Lines(string(mod)) {
		if module, ok := strings.CutPrefix(line, "\t"); ok && !strings.Contains(module, "// indirect") {
			name, _, _ := strings.Cut(path.Base(module), " ")
			assert.Contains(t, strings.ToLower(sentence), name)
		}
	}
}

func TestOnlyGenImportsThePrinter(t *testing.T) {
	out, err := goTool(t, root(t), "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	require.NoError(t, err, out)
	for line := range strings.Lines(out) {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path != modulePath+"/gen" {
			assert.NotContains(t, imports, "dave/jennifer", "%s must leave printing to package gen", path)
		}
	}
}
