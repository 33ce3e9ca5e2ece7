package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Left returns the Value that the decisions have, and the tokens that accrue between them.
func TestLeftIsTheValueOfDecisions(t *testing.T) {
	for name, p := range map[string]runtime.Policy{
		"bucket":  {Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 60},
		"shards":  {Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 60, Shards: 4},
		"window":  {Kind: runtime.FixedWindow, Rate: 60, Period: time.Minute, Capacity: 60, Start: runtime.StartOffset(0)},
		"precise": {Kind: runtime.SlidingWindow, Rate: 60, Period: time.Minute, Capacity: 60, Precise: true},
	} {
		t.Run(name, func(t *testing.T) {
			p.Name = "send"
			r := NewReplay(fileOf(limitOf(p, "string")))
			in := trace.NewReader(strings.NewReader(`{"at": "2030-01-01T00:00:00Z", "limit": "send", "key": "a", "count": 40}` + "\n"))
			require.NoError(t, in.Replay(func(l *trace.Line) error {
				_, ok := r.Left("send", "a", l.At)
				assert.False(t, ok, "the key has no requests yet")
				a, err := r.Decide(l)
				require.NoError(t, err)
				for range 2 { // the first changes nothing
					left, ok := r.Left("send", a.Key, l.At)
					require.True(t, ok)
					assert.InDelta(t, a.Value, left, 1e-9)
				}
				later, _ := r.Left("send", a.Key, l.At+int64(10*time.Second))
				assert.InDelta(t, map[string]float64{"bucket": 30, "shards": 30, "window": 20, "precise": 20}[name], later, 1e-9)
				_, ok = r.Left("other", a.Key, l.At)
				assert.False(t, ok)
				return nil
			}, func(f *trace.Fault) error { return f }))
		})
	}
}
