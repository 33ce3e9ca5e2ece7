package runtime_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/ratelimitgen/ratelimitgen"

// layers are the packages that generated code is compiled with, from the bottom up.
var layers = []string{"/internal/ability", "/internal/once", "/internal/trait", "/internal/arith", "/internal/receipt", "/internal/words", "/internal/recent", "", "/internal/meter", "/internal/batch", "/internal/override", "/limiter"}

// forbidden are standard packages that these must not import, with the reason.
var forbidden = map[string]string{
	"net/http": "a limit is not only for HTTP",
	"os":       "the runtime reads no files and no environment",
	"log":      "the runtime returns decisions and errors; the caller logs",
	"log/slog": "the runtime returns decisions and errors; the caller logs",
	"testing":  "test code does not belong in a program",
}

func TestLayersImportWhatIsBelow(t *testing.T) {
	for floor, layer := range layers {
		for _, path := range goList(t, layer, `{{join .Imports "\n"}}`) {
			require.NotContains(t, forbidden, path, forbidden[path])
			if below, ours := strings.CutPrefix(path, module+"/runtime"); ours {
				require.Contains(t, layers[:floor], below, "runtime%s imports what is above it", layer)
			} else {
				require.NotContains(t, path, ".", "runtime%s is compiled into every program with a limit: it must not import other modules", layer)
			}
		}
	}
}

func TestLimiterNeedsNothingElse(t *testing.T) {
	for _, path := range goList(t, "/limiter", `{{join .Deps "\n"}}`) {
		require.NotEqual(t, "net/http", path, forbidden["net/http"])
		if ours, ok := strings.CutPrefix(path, module+"/runtime"); ok {
			require.True(t, slices.Contains(layers, ours), "%s is not among the layers", path)
		}
	}
}

// TestOnlyFoldedKeysNeedNormalization: the tables of Unicode are in a program if its file has a folded key.
func TestOnlyFoldedKeysNeedNormalization(t *testing.T) {
	for _, layer := range []string{"/limithttp", "/memstore", "/operate", "/console", "/observe", "/sqlstore/sqlite", "/../testdata/gen/basic"} {
		for _, path := range goList(t, layer, `{{join .Deps "\n"}}`) {
			require.False(t, strings.HasPrefix(path, "golang.org/x/text"), "runtime%s imports %s", layer, path)
		}
	}
	require.Contains(t, goList(t, "/../testdata/gen/keys", `{{join .Deps "\n"}}`), "golang.org/x/text/unicode/norm")
}

// goList returns the lines that go list prints about a package under runtime, without its tests.
func goList(t *testing.T, layer, format string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", format, "."+layer).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}
