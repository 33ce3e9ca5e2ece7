package runtime_test

import (
	"math"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/stretchr/testify/require"
)

// FuzzStep asks anything of anything: of rows that no store of ours wrote, at instants that no clock shows.
func FuzzStep(f *testing.F) {
	for kind := range uint8(3) {
		f.Add(kind, int64(10), int64(time.Minute), int64(20), int64(5), 3.5, epoch.UnixNano(), 2.0, epoch.UnixNano()+1, int64(1), uint8(1))
		f.Add(kind, int64(1), int64(1), int64(1), int64(0), math.NaN(), int64(math.MaxInt64), math.NaN(), int64(math.MinInt64), int64(1), uint8(0))
		f.Add(kind, int64(runtime.MaxTokens), int64(runtime.MaxPeriod), int64(0), int64(runtime.Unbounded), math.Inf(-1), int64(math.MinInt64), math.Inf(1), int64(math.MaxInt64), int64(math.MaxInt64), uint8(7))
		f.Add(kind, int64(3), int64(7), int64(3), int64(1), math.Inf(1), int64(0), math.Inf(-1), int64(-1), int64(3), uint8(3))
	}
	f.Fuzz(func(t *testing.T, kind uint8, rate, period, capacity, debt int64, value float64, ts int64, prev float64, now, count int64, flags uint8) {
		p := runtime.Policy{Name: "limit", Kind: runtime.Kinds()[kind%3], Rate: rate, Period: time.Duration(period), Capacity: capacity, MaxReserved: debt}
		if p.Kind == runtime.FixedWindow && flags&2 != 0 {
			p.Start = runtime.StartFirstUse()
		}
		if p.Kind == runtime.SlidingWindow {
			p.Capacity, p.MaxReserved = rate, 0
		}
		if p.Validate() != nil {
			t.Skip()
		}
		s := runtime.State{Value: value, TS: ts, Prev: prev, Exists: true}
		q := runtime.Request{Op: runtime.Op(flags >> 2 % 6), Count: count, Reserve: flags&1 != 0}
		requireSafe(t, p, s, now, q)
	})
}

// requireSafe holds the answer to a question to what must be true of any answer.
func requireSafe(t *testing.T, p runtime.Policy, s runtime.State, now int64, q runtime.Request) {
	t.Helper()
	rule := p.Rule("key")
	next, d, err := rule.Step(s, now, q)
	require.GreaterOrEqual(t, d.RetryAfter, time.Duration(0))
	require.GreaterOrEqual(t, d.Delay, time.Duration(0))
	require.GreaterOrEqual(t, d.FullAfter, time.Duration(0))
	require.GreaterOrEqual(t, d.Remaining, int64(0))
	require.Equal(t, err == nil && !d.Allowed, d.RetryAfter > 0, "who is denied, and only that one, is told to wait")
	if next.Exists && q.Op != runtime.Reset {
		require.GreaterOrEqual(t, next.TS, s.TS, "ts never moves back")
	}
	switch {
	case err != nil || !d.Allowed || q.Op == runtime.Check || q.Op == runtime.Peek:
		require.Equal(t, bits(s), bits(next))
	case q.Op == runtime.Take:
		_, was, err := rule.Step(s, now, peek())
		require.NoError(t, err)
		debt := 0.0
		if q.Reserve {
			debt = rule.Debt
		}
		require.LessOrEqual(t, float64(q.Count)-debt, was.Value+1e-6, "what was allowed was there")
		require.LessOrEqual(t, was.Value, float64(p.Capacity))
	}
}
