package spec

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// made are values that random limits are made of: usual ones, the edges of what is accepted, and some beyond.
var made = map[string][]string{
	"kind":        {"token bucket", "fixed window", "sliding window"},
	"rate":        {"1", "2", "10", "1024", "40_000", "1_000_000_000_000_000", "0", "1_000_000_000_000_001"},
	"period":      {"1ns", "1m", "1h30m", "2w", "3650d", "3650d1ns", "0s"},
	"capacity":    {"", "0", "1", "10", "1_000_000_000_000_000", "1_000_000_000_000_001"},
	"maxReserved": {"", "0", "1", "5", "1_000_000_000_000_000", "1_000_000_000_000_001"},
	"shards":      {"", "1", "2", "10", "1024", "1025"},
	"start":       {"", "", "0s", "8h", "2026-01-01T00:00:00Z", "first use", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "3650d"},
	"timeout":     {"", "50ms", "1ns", "3650d", "3651d"},
	"onError":     {"", "open", "closed"},
	"denyCache":   {"", "1s", "3650d", "1ns"},
	"lease":       {"", "", "{tokens: 1, for: 1ns}", "{tokens: 10, for: 200ms}", "{tokens: 2, for: 3650d}", "{tokens: 0, for: 1s}"},
	"durability":  {"", "relaxed", "full"},
}

// randomLimit returns a file with one limit.
func randomLimit(d *rand.Rand) string {
	name := "limit" + strings.Repeat("x", d.IntN(2)*(245+d.IntN(10)))
	fields := ""
	for _, f := range limitFields {
		if values := made[f.name]; values != nil {
			if v := values[d.IntN(len(values))]; v != "" {
				fields += fmt.Sprintf("    %s: %s\n", f.name, v)
			}
		}
	}
	return "version: 1\nlimits:\n  " + name + ":\n" + fields
}

// TestWhatIsAcceptedIsValid parses random limits. What has no diagnostic must be a policy that the runtime accepts: if
// not, every call of the generated code returns an error.
func TestWhatIsAcceptedIsValid(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	d := rand.New(rand.NewPCG(seed, 1))
	accepted := 0
	for range 20_000 {
		src := randomLimit(d)
		file, ds := Parse("limits.yaml", []byte(src))
		if len(ds) > 0 {
			continue
		}
		accepted++
		for _, limit := range file.Limits {
			require.NoError(t, limit.Policy.Validate(), "seed %d:\n%s", seed, src)
		}
	}
	require.Greater(t, accepted, 200)
}
