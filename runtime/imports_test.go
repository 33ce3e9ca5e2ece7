package runtime_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/ratelimitgen/ratelimitgen"

// forbidden are standard packages that this package must not import, with the reason.
var forbidden = map[string]string{
	"net/http": "a limit is not only for HTTP",
	"os":       "package runtime reads no files and no environment",
	"log":      "package runtime returns decisions and errors; the caller logs",
	"log/slog": "package runtime returns decisions and errors; the caller logs",
	"testing":  "test code does not belong in a program",
}

func TestRuntimeImportsOnlyTheStandardLibrary(t *testing.T) {
	for _, path := range goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}") {
		require.Equal(t, module+"/runtime", path,
			"package runtime is compiled into every program with a limit: it must not import other modules")
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
