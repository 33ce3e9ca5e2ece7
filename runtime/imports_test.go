package runtime_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/ratelimitgen/ratelimitgen"

// forbidden are standard packages that every user of a limit would have to carry, and why they must not.
var forbidden = map[string]string{
	"net/http": "a limit is not only for HTTP",
	"os":       "the core reads no files and no environment",
	"log":      "the core answers; who asked may log",
	"log/slog": "the core answers; who asked may log",
	"testing":  "test code does not belong into a program",
}

func TestRuntimeImportsOnlyTheStandardLibrary(t *testing.T) {
	for _, path := range goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}") {
		require.Equal(t, module+"/runtime", path,
			"package runtime is compiled into every program with a limit: it must not bring anything else along")
	}
}

func TestRuntimeImportsNothingItDoesNotNeed(t *testing.T) {
	for _, path := range goList(t, "-f", `{{join .Imports "\n"}}`) {
		require.NotContains(t, forbidden, path, forbidden[path])
	}
	for _, path := range goList(t, "-deps") {
		require.NotEqual(t, "net/http", path, forbidden["net/http"])
	}
}

// goList returns the lines that go list prints about package runtime without its tests.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, append(args, ".")...)...).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}
