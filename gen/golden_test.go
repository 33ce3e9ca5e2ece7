package gen

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var update = flag.Bool("update", false, "rewrite the golden files, once their code has compiled and behaved")

const testdata = "../testdata/gen"

// goldens are the directories of testdata with a limits.yaml and the want.go generated from it.
var goldens = []string{"basic", "kinds", "names", "groups", "plans", "numbers", "keys", "prices"}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testdata, name, "limits.yaml"))
	require.NoError(t, err)
	return generated(t, string(text))
}

// policiesOf returns the policies of a golden file as the program of [behaves] prints those of the generated code.
func policiesOf(t testing.TB, name string) string {
	t.Helper()
	var out strings.Builder
	for _, l := range limitsOf(t, name) {
		for _, of := range l.Each() {
			text, err := json.Marshal(withDefaults(of.Policy))
			require.NoError(t, err)
			fmt.Fprintf(&out, "%s\n", text)
		}
	}
	return out.String()
}

// withDefaults returns a policy without values that generated code leaves out.
func withDefaults(p runtime.Policy) runtime.Policy {
	if p.Shards == 1 {
		p.Shards = 0
	}
	return p
}

func limitsOf(t testing.TB, name string) []*spec.Limit {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testdata, name, "limits.yaml"))
	require.NoError(t, err)
	file, diagnostics := fields.Parse("limits.yaml", text)
	require.Empty(t, diagnostics)
	return file.Limits
}

func generated(t testing.TB, text string) []byte {
	t.Helper()
	file, diagnostics := fields.Parse("limits.yaml", []byte(text))
	require.NoError(t, diagnostics.WriteText(t.Output(), false))
	require.Empty(t, diagnostics)
	code, err := Generate(file, Options{})
	require.NoError(t, err)
	return code
}

// The first of three questions: is the code what we meant?
func TestGolden(t *testing.T) {
	if *update {
		behaves(t)
	}
	for _, name := range goldens {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(testdata, name, "want.go")
			got := golden(t, name)
			if *update {
				require.NoError(t, os.WriteFile(path, got, 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got), "if the change is intended: go test ./gen -run Golden -update")
		})
	}
}

// The second question: does the code compile and behave?
func TestGeneratedCodeBehaves(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	behaves(t)
}

// behaves builds a program of every golden package, and runs it.
func behaves(t *testing.T) {
	files := map[string]string{}
	var imports, calls strings.Builder
	for _, name := range goldens {
		files[name+"/limits.gen.go"] = string(golden(t, name))
		fmt.Fprintf(&imports, "import %s \"example.com/app/%s\"\n", name, name)
		files[name+"/usage.go"] = usageProgram(t, files[name+"/limits.gen.go"])
		fmt.Fprintf(&calls, "\t%s.Usage(new(memstore.Store), part)\n", name)
		fmt.Fprintf(&calls, "\texercise(%s.New(new(memstore.Store)), %s.Policies(), %q)\n", name, name, policiesOf(t, name))
	}
	files["all.go"] = "package main\n\nimport \"" + runtimePath + "/memstore\"\n" + imports.String() + "\nfunc init() {\n" + calls.String() + "}\n"
	for _, name := range []string{"main.go", "exercise.go", "keys.go"} {
		text, err := os.ReadFile(filepath.Join(testdata, "app", name))
		require.NoError(t, err)
		files[name] = string(text)
	}
	got, err := goTool(t, module(t, files), "run", ".")
	require.NoError(t, err, got)
	want, err := os.ReadFile(filepath.Join(testdata, "app", "want.txt"))
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// The third question: does the guard against an older runtime fire?
func TestStaleRuntimeDoesNotCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	dir := t.TempDir()
	older := filepath.Join(dir, "doc.go") // without the constant
	require.NoError(t, os.WriteFile(older, []byte("package runtime\n"), 0o644))
	overlay := filepath.Join(dir, "overlay.json")
	text := fmt.Sprintf(`{"Replace": {%q: %q}}`, filepath.Join(root(t), "runtime", "doc.go"), older)
	require.NoError(t, os.WriteFile(overlay, []byte(text), 0o644))
	out, err := goTool(t, root(t), "build", "-overlay", overlay, "./testdata/gen/basic")
	require.Error(t, err)
	assert.Contains(t, out, "undefined: runtime.GeneratedCodeVersion1")
}

func TestGeneratedCodeIsClean(t *testing.T) {
	if testing.Short() {
		t.Skip("runs analyzers")
	}
	var packages []string
	for _, name := range goldens {
		packages = append(packages, "./testdata/gen/"+name)
	}
	out, err := goTool(t, root(t), append([]string{"vet"}, packages...)...)
	assert.NoError(t, err, out)
	if _, err := exec.LookPath("staticcheck"); err != nil {
		require.Empty(t, os.Getenv("CI"), "install staticcheck: CI must run all tests")
		t.Skip("staticcheck is not installed")
	}
	// Without its header, because staticcheck skips some checks for generated code.
	files := map[string]string{}
	for i, name := range goldens {
		code := strings.Replace(string(golden(t, name)), "// Code generated", "// Code written", 1)
		files[name+"/limits.go"] = code
		packages[i] = "./" + name
	}
	out, err = tool(t, module(t, files), "staticcheck", append([]string{"-checks", "all"}, packages...)...)
	assert.NoError(t, err, out)
}

func TestNamesWithAMeaningInGoCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	files := map[string]string{"main.go": "package main\n\nfunc main() {}\n"}
	for _, name := range []string{"main", "runtime", "context", "time", "netip", "string"} {
		directory := name
		if name == "main" {
			directory = "."
		}
		files[directory+"/limits.gen.go"] = string(generated(t, "version: 1\npackage: "+name+"\n"+limitsWithAMeaning))
	}
	out, err := goTool(t, module(t, files), "vet", "./...")
	assert.NoError(t, err, out)
}

const limitsWithAMeaning = `limits:
  is: {kind: token bucket, rate: 1, period: 1m}
  as: {kind: token bucket, rate: 1, period: 1m}
  unwrap: {kind: token bucket, rate: 1, period: 1m}
  error: {kind: token bucket, rate: 1, period: 1m}
  string: {kind: token bucket, rate: 1, period: 1m, key: {verb: int64}}
  scan: {kind: token bucket, rate: 1, period: 1m}
  format: {kind: token bucket, rate: 1, period: 1m, key: {f: string, verb: int64}}
  writeTo: {kind: token bucket, rate: 1, period: 1m, key: {w: int64}}
  readFrom: {kind: token bucket, rate: 1, period: 1m}
  a: {kind: fixed window, rate: 1, period: 1m, start: 1h, key: {runtime: string, context: int, time: int64, netip: netip.Addr, len: bool, nil: int}}
  b: {kind: token bucket, rate: 1, period: 1m, key: {any: string, error: int, policyB: int64, l: bool, at: net/netip.Prefix}}
`
