package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
)

// A batch job that asks 50 times a second denies no interactive request of a limit with priorities, which come once in two
// seconds and in a burst of 20 each minute: less than the rate, and than the 30 tokens that the batch leaves. Without
// priorities it denies most.
func TestABatchDoesNotStarveInteractiveRequests(t *testing.T) {
	const seconds = 600
	denied := func(priorities string) (interactive, batch, asked, allowed int) {
		file, diagnostics := fields.Parse("limits.yaml", []byte("version: 1\nlimits:\n"+
			"  completions: {kind: token bucket, rate: 60, period: 1m, capacity: 100"+priorities+"}\n"))
		require.Empty(t, diagnostics)
		var lines strings.Builder
		add := func(ms int, class string, n int) {
			for range n {
				fmt.Fprintf(&lines, `{"at": "2030-01-01T00:%02d:%02d.%03dZ", "limit": "completions", "priority": %q}`+"\n", ms/60_000, ms/1000%60, ms%1000, class)
			}
		}
		for ms := 0; ms < seconds*1000; ms += 20 {
			add(ms, "batch", 1)
			if ms%2000 == 1000 {
				add(ms, "interactive", 1)
			}
			if ms%60_000 == 30_000 {
				add(ms, "interactive", 20)
			}
		}
		r := NewReplay(file)
		require.NoError(t, trace.NewReader(strings.NewReader(lines.String())).Replay(func(l *trace.Line) error {
			a, err := r.Decide(l)
			switch of := l.Priority == "interactive"; {
			case of && !a.Allowed:
				interactive++
				fallthrough
			case of:
				asked++
			case a.Allowed:
				allowed++
			default:
				batch++
			}
			return err
		}, func(f *trace.Fault) error { return f }))
		return interactive, batch, asked, allowed
	}
	interactive, batch, asked, allowed := denied(", priorities: {interactive: 0%, batch: 30%}")
	t.Logf("with priorities, %d of %d interactive requests were denied, and %d of the batch allowed, %d denied", interactive, asked, allowed, batch)
	assert.Zero(t, interactive)
	assert.Equal(t, 500, asked)
	assert.InDelta(t, 100-30+seconds-asked, allowed, 20, "the batch gets the rest, but for what the last burst has taken of its part")
	interactive, batch, asked, allowed = denied("")
	t.Logf("without, %d of %d interactive requests were denied, and %d of the batch allowed, %d denied", interactive, asked, allowed, batch)
	assert.Greater(t, interactive, asked/2)
}
