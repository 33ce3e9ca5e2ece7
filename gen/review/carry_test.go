package review

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// dice makes up policies and traces. The same seed makes up the same.
type dice struct{ *rand.Rand }

func roll(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 1))} }

func choose[T any](d dice, choices ...T) T { return choices[d.IntN(len(choices))] }

// policy returns a policy with ordinary numbers. None falls short of a token by just the allowance in a
// nanosecond, as 1000 a second does: such a sum is rounded either way.
func (d dice) policy() runtime.Policy {
	rate := choose[int64](d, 1, 2, 3, 10, 60, 100, 500)
	p := runtime.Policy{
		Name: "limit", Kind: choose(d, runtime.Kinds()...), Rate: rate, Capacity: rate,
		Period: choose(d, time.Second, 30*time.Second, time.Minute, 90*time.Second, time.Hour, 24*time.Hour),
	}
	if p.Kind != runtime.SlidingWindow {
		p.Capacity = choose(d, rate, rate, 2*rate, 3*rate+1, (rate+1)/2)
		p.MaxReserved = choose[int64](d, 0, 0, 1, rate, 2*rate+1, runtime.Unbounded)
	}
	switch {
	case p.Kind == runtime.FixedWindow:
		p.Start = choose(d, runtime.Start{}, runtime.StartOffset(0), runtime.StartOffset(7*time.Second), runtime.StartFirstUse())
	case p.Kind == runtime.SlidingWindow:
		p.Start = choose(d, runtime.Start{}, runtime.StartOffset(0), runtime.StartOffset(7*time.Second))
	}
	if d.IntN(2) == 0 && !p.Start.FirstUse() {
		p.Lease.Tokens = choose(d, 1, p.Capacity, 1+d.Int64N(p.Capacity))
		p.Lease.For = choose(d, 1, 200*time.Millisecond, p.Period/3, p.Period, 2*p.Period+70*time.Millisecond)
	}
	return p
}

// jump returns a step of the clock: none, up to when a token is due, a part of a period, a few periods.
func (d dice) jump(p runtime.Policy, due time.Duration) int64 {
	return choose(d, 0, int64(due), max(0, int64(due)-1), d.Int64N(int64(p.Period)/4+1), d.Int64N(int64(p.Period)), d.Int64N(3*int64(p.Period)))
}

// keyParts are those of some key.
var keyParts = []spec.KeyPart{{Name: "userID", Type: "string"}}

func TestNobodyIsCarriedPastTheNumber(t *testing.T) {
	d := roll(1)
	for range 800 {
		old, new := d.policy(), d.policy()
		if d.IntN(2) == 0 {
			new.Period, new.Rate = old.Period, old.Rate
			if new.Kind == runtime.SlidingWindow {
				new.Capacity = new.Rate
			}
		}
		if new.Validate() != nil {
			continue
		}
		most := Carried(&spec.Limit{Policy: old, Key: keyParts}, &spec.Limit{Policy: new, Key: keyParts})
		require.LessOrEqual(t, most, new.Capacity)
		for range 20 {
			name := choose(d, "a", "b", "c", "d", "e")
			before, after := old.Rule(name), new.Rule(name)
			state, now := runtime.State{}, before.Phase+d.Int64N(int64(old.Period))+4*int64(old.Period)
			for range 30 {
				count := choose(d, 1, old.Capacity, 1+d.Int64N(old.Capacity))
				next, decision, err := before.Step(state, now, runtime.Request{Count: count})
				require.NoError(t, err)
				state = next
				_, left, err := before.Step(state, now, runtime.Request{Op: runtime.Peek})
				require.NoError(t, err)
				if left.Remaining == 0 {
					_, carried, err := after.Step(state, now, runtime.Request{Op: runtime.Peek})
					require.NoError(t, err)
					require.LessOrEqual(t, carried.Remaining, most, "%+v\nat %d of %+v\nto %+v", state, now, old, new)
				}
				_, one, err := before.Step(state, now, runtime.Request{Op: runtime.Check, Count: 1})
				require.NoError(t, err)
				now += d.jump(old, max(decision.RetryAfter, one.RetryAfter))
			}
		}
	}
}
