package judge

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// long makes the random tests try more pairs of limits.
var long = flag.Bool("long", false, "try 2,500 pairs of limits instead of 50 or 100")

// pairs returns how many pairs of limits a test tries.
func pairs() int {
	if *long {
		return 2500
	}
	return 100
}

// fewPairs returns how many pairs a test tries that replays many requests for each.
func fewPairs() int {
	if *long {
		return pairs()
	}
	return 50
}

// dice makes random policies and traces, the same ones for the same seed.
type dice struct{ *rand.Rand }

func roll(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 1))} }

func choose[T any](d dice, choices ...T) T { return choices[d.IntN(len(choices))] }

// policy returns a policy with ordinary numbers. It avoids rates such as 1,000 a second, where rounding to nanoseconds
// decides whether a token is due.
func (d dice) policy() runtime.Policy {
	rate := choose[int64](d, 1, 2, 3, 10, 60, 100, 500)
	p := runtime.Policy{
		Name: "limit", Kind: choose(d, runtime.Kinds()...), Rate: rate, Capacity: rate,
		Period: choose(d, time.Second, 30*time.Second, time.Minute, 90*time.Second, time.Hour, 24*time.Hour),
	}
	if p.Kind == runtime.InFlight {
		return slotted(p)
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
	if p.Kind == runtime.SlidingWindow && (rate == 3 || rate == 60 || rate == 500) {
		p.Precise, p.Start, p.Lease = true, runtime.Start{}, runtime.Lease{}
	}
	return p
}

// slotted gives a limit in flight slots and a hold in place of a rate and a period.
func slotted(p runtime.Policy) runtime.Policy {
	if p.Kind == runtime.InFlight && p.Rate == p.Capacity {
		p.Slots, p.Hold, p.Rate, p.Capacity, p.Period = p.Rate, p.Period, 0, 0, 0
	}
	return p
}

// paced gives a limit in flight a rate and a period beside its slots and its hold, for schedules that are the same for all
// kinds.
func paced(p *runtime.Policy) *runtime.Policy {
	if p.Kind != runtime.InFlight {
		return p
	}
	of := *p
	of.Rate, of.Capacity, of.Period = p.Slots, p.Slots, p.Hold
	return &of
}

// unpaced is the reverse of paced.
func unpaced(p runtime.Policy) runtime.Policy {
	p.Slots, p.Hold = 0, 0
	return slotted(p)
}

// bounded returns a random policy without unbounded reservations, sometimes with shards.
func (d dice) bounded() runtime.Policy {
	for {
		p := d.policy()
		if p.MaxReserved == runtime.Unbounded {
			p.MaxReserved = choose(d, 1, p.Rate/2+1, 3*p.Rate)
		}
		if p.MaxReserved > 0 && d.IntN(5) == 0 && p.Kind != runtime.SlidingWindow {
			p.Capacity, p.Lease = 0, runtime.Lease{}
		}
		if d.IntN(4) == 0 {
			p.Shards = choose(d, 2, 3, 4, 7)
		}
		if p.Validate() == nil {
			return p
		}
	}
}

// edited changes one to three fields of a policy, or all.
func (d dice) edited(p runtime.Policy) runtime.Policy {
	for {
		bounded := d.bounded()
		new, other := *paced(&p), *paced(&bounded)
		for range 1 + d.IntN(3) {
			switch d.IntN(8) {
			case 0:
				new.Rate = other.Rate
			case 1:
				new.Period = choose(d, other.Period, 24*new.Period, max(time.Second, new.Period/4))
			case 2:
				new.Capacity = other.Capacity
			case 3:
				new.MaxReserved = other.MaxReserved
			case 4:
				new.Kind, new.Start, new.Precise = other.Kind, other.Start, other.Precise
			case 5:
				new.Start = other.Start
			case 6:
				new.Shards, new.Lease = other.Shards, other.Lease
			case 7:
				new = other
			}
		}
		if new.Kind == runtime.SlidingWindow {
			new.Capacity, new.MaxReserved = new.Rate, 0
		}
		if new = unpaced(new); new.Validate() == nil && new != p {
			return new
		}
	}
}

// jump returns a step of the clock: none, until a token is due, part of a period, or a few periods.
func (d dice) jump(p runtime.Policy, due time.Duration) int64 {
	period := int64(paced(&p).Period)
	return choose(d, 0, int64(due), max(0, int64(due)-1), d.Int64N(period/4+1), d.Int64N(period), d.Int64N(3*period))
}

var keyParts = []spec.KeyPart{{Name: "userID", Type: "string"}}

func limitOf(p runtime.Policy, keyed bool) *spec.Limit {
	l, err := spec.NewLimit(p, spec.Limit{})
	if err != nil {
		panic(err)
	}
	l.GoName = "Limit"
	if keyed {
		l.Key = keyParts
	}
	return l
}

// wander takes and reserves random counts, and passes each decision to look.
func wander(t *testing.T, d dice, p *runtime.Policy, look func(now int64, q runtime.Request, after runtime.State, decision runtime.Decision)) {
	t.Helper()
	p = paced(p)
	rule, state := meter.RuleOf(p, "key"), runtime.State{}
	now := rule.Phase + 3*int64(p.Period) + d.Int64N(int64(p.Period))
	for range 200 {
		q := runtime.Request{Count: choose(d, 1, 1, p.Capacity, 1+d.Int64N(p.Capacity))}
		if p.Reserves() && d.IntN(2) == 0 {
			q = runtime.Request{Count: choose(d, 1, 1+d.Int64N(p.Capacity+min(p.MaxReserved, 1000)), min(p.MaxReserved, 1000)), Reserve: true}
		}
		next, decision, err := rule.Step(state, now, q)
		require.NoError(t, err)
		if state = next; decision.Allowed {
			look(now, q, state, decision)
		}
		if d.IntN(3) > 0 {
			now += d.jump(*p, min(decision.RetryAfter, 2*p.Period))
		}
	}
}

// parse returns the file with a text, which must be valid.
func parse(t testing.TB, name, text string) *spec.File {
	t.Helper()
	file, wrong := fields.Parse(name, []byte(text))
	require.Empty(t, wrong, text)
	return file
}
