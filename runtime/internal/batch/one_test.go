package batch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
)

func TestOneDecidesAsABatch(t *testing.T) {
	d := runtimetest.Roll(42)
	denied, failed := 0, 0
	for range runtimetest.Steps() / runtimetest.TraceSteps {
		p := d.PolicyOf(t, 1+d.Int64N(runtime.MaxSlots), runtime.Kinds()...)
		length := p.Period + p.Hold
		if p.MaxReserved == 0 && d.IntN(3) == 0 {
			p.Penalty = runtime.PenaltyOf(0, length/2+1, length)
		}
		var one, all runtime.State
		fence, now := int64(1), epoch.UnixNano()
		for range runtimetest.TraceSteps {
			var q runtime.Request
			if p.Kind == runtime.InFlight {
				q = runtime.Request{Op: runtimetest.Pick(d, runtime.Ops()...), Count: d.Int64N(p.Slots + 2), Fence: fence}
			} else {
				q = d.Request(p)
			}
			q.Policy, q.Key = &p, "k"
			q.Zone, q.Anniversary = time.UTC, runtime.Date{Year: 2024, Month: time.January, Day: 31}
			calls := []runtime.Call{call(q)}
			row, ok := batch.One(calls)
			require.True(t, ok)
			require.Equal(t, runtime.Row{Name: p.Name, Key: "k"}, row)
			// With a call beside it, it is not the only one.
			beside := call(runtime.Request{Policy: &p, Key: "z", Op: runtime.Peek, Zone: q.Zone, Anniversary: q.Anniversary})
			b := batch.New([]runtime.Call{calls[0], beside})
			require.True(t, b.Run(now, []runtime.State{all, {}}))
			for _, change := range b.Changes() {
				all = change.State
			}
			var answers []runtime.Answer
			one, answers = batch.DecideOne(new(meter.Rule), calls, now, one)
			require.Equal(t, b.Answers()[:1], answers)
			require.Equal(t, all, one)
			if answers[0].Err != nil {
				failed++
			} else if got := answers[0].Decisions[0]; !got.Allowed {
				denied++
			} else if got.Fence != 0 {
				fence = got.Fence
			}
			now += int64(d.UpTo(min(length, 24*time.Hour)))
		}
	}
	require.Greater(t, denied, 1000)
	require.Greater(t, failed, 100)
}

func TestOneRefusesOtherBatches(t *testing.T) {
	p := bucket("limit", 10)
	with := func(change func(p *runtime.Policy)) []runtime.Call {
		of := *p
		change(&of)
		return []runtime.Call{call(runtime.Request{Policy: &of, Count: 1})}
	}
	for name, calls := range map[string][]runtime.Call{
		"no call":     {},
		"two calls":   {call(of(p, take(1))), call(of(p, take(1)))},
		"no request":  {call()},
		"two":         {call(of(p, take(1)), of(p, take(1)))},
		"no policy":   {call(of(nil, take(1)))},
		"invalid key": {call(runtime.Request{Policy: p, Key: "\x00", Count: 1})},
		"invalid":     with(func(p *runtime.Policy) { p.Rate = 0 }),
		"shards":      with(func(p *runtime.Policy) { p.Shards = 2 }),
		"off":         with(func(p *runtime.Policy) { p.Mode = runtime.ModeOff }),
		"overrides":   with(func(p *runtime.Policy) { p.Overrides = runtime.OverrideBounds{Rate: 20, Capacity: 20} }),
	} {
		_, ok := batch.One(calls)
		require.False(t, ok, name)
	}
}
