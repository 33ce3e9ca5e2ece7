package sim_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The limiter is replayed, not its file or its store: whoever has policies can simulate them.
func TestSimImportsOnlyTheRuntime(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	require.NoError(t, err)
	const module = "github.com/ratelimitgen/ratelimitgen/"
	require.ElementsMatch(t, []string{module + "runtime", module + "gen/internal/cells", module + "gen/printable", module + "gen/sim"}, strings.Fields(string(out)))
}
