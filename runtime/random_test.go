package runtime_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/stretchr/testify/require"
)

var long = flag.Bool("long", false, "take a million random steps, not some ten thousand")

// randomSteps is how many steps a random test takes.
func randomSteps() int {
	if *long {
		return 1_000_000
	}
	return 20_000
}

// traceSteps is how many steps a trace of one key has.
const traceSteps = 50

// dice makes up policies, questions and clocks. The same seed makes up the same.
type dice struct{ *rand.Rand }

func roll(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 1))} }

func pick[T any](d dice, choices ...T) T { return choices[d.IntN(len(choices))] }

// policy returns a valid policy of one row, with small and ordinary numbers.
func (d dice) policy(t testing.TB, kinds ...runtime.Kind) runtime.Policy {
	return d.policyOf(t, pick[int64](d, 1, 2, 3, 7, 10, 97, 100, 1000, 40_000), kinds...)
}

// hugePolicy is like policy, with numbers up to the largest that there can be.
func (d dice) hugePolicy(t testing.TB) runtime.Policy {
	return d.policyOf(t, pick[int64](d, 1e9, 1e12, 999_999_999_999_989, runtime.MaxTokens))
}

func (d dice) policyOf(t testing.TB, rate int64, kinds ...runtime.Kind) runtime.Policy {
	if len(kinds) == 0 {
		kinds = runtime.Kinds()
	}
	p := runtime.Policy{
		Name:     "limit",
		Kind:     pick(d, kinds...),
		Rate:     rate,
		Period:   d.period(),
		Capacity: rate,
	}
	if p.Kind != runtime.SlidingWindow {
		p.Capacity = min(runtime.MaxTokens, pick(d, 0, (rate+1)/2, rate, rate, 2*rate, 3*rate))
		p.MaxReserved = min(runtime.MaxTokens, pick(d, 0, 1, rate, 2*rate+1, runtime.Unbounded))
	}
	if p.Capacity == 0 {
		p.MaxReserved = max(p.MaxReserved, 1)
	}
	switch {
	case p.Kind == runtime.FixedWindow:
		p.Start = pick(d, runtime.Start{}, d.aligned(), runtime.StartFirstUse())
	case p.Kind == runtime.SlidingWindow:
		p.Start = pick(d, runtime.Start{}, d.aligned())
	}
	require.NoError(t, p.Validate())
	return p
}

func (d dice) period() time.Duration {
	const day = 24 * time.Hour
	return pick(d, 1, 7*time.Nanosecond, time.Microsecond, time.Millisecond, time.Second, 2500*time.Millisecond,
		time.Minute, 90*time.Second, time.Hour, day, 7*day, runtime.MaxPeriod)
}

func (d dice) aligned() runtime.Start {
	return pick(d, runtime.StartOffset(0), runtime.StartOffset(90*time.Minute), runtime.StartAt(epoch.Add(time.Hour)))
}

// jump returns a step of a clock: none, a nanosecond, a part of a period, some periods; sometimes back.
func (d dice) jump(p runtime.Policy) time.Duration {
	period := p.Period
	step := pick(d, 0, 0, 1, period/time.Duration(p.Rate), d.upTo(period/4), d.upTo(period), period, d.upTo(5*period))
	if d.IntN(10) == 0 {
		return -step
	}
	return step
}

// patience returns for how long one who was denied waits: sometimes until the tokens are due.
func (d dice) patience(retryAfter time.Duration) int64 {
	if d.IntN(2) == 0 || retryAfter > runtime.MaxPeriod {
		return 0
	}
	return int64(retryAfter)
}

func (d dice) upTo(n time.Duration) time.Duration { return time.Duration(d.Int64N(int64(n) + 1)) }

// count returns a count up to most: 1, a part of it, or all of it.
func (d dice) count(most int64) int64 {
	most = max(1, most)
	return pick(d, 1, 1, 1+d.Int64N(most), 1+d.Int64N(max(1, most/10)), most)
}

// take returns a plain or a reserving Take or Check that does not exceed the capacity of p.
func (d dice) take(p runtime.Policy) runtime.Request {
	q := runtime.Request{Op: pick(d, runtime.Take, runtime.Take, runtime.Take, runtime.Check)}
	q.Reserve = p.MaxReserved > 0 && (p.Capacity == 0 || d.IntN(2) == 0)
	most := p.Capacity
	if q.Reserve {
		most = pick(d, most, most+min(p.MaxReserved, 3*p.Rate))
	}
	q.Count = min(d.count(most), p.Capacity+p.MaxReserved)
	return q
}

// ask returns any question that is no error.
func (d dice) ask(p runtime.Policy) runtime.Request {
	switch d.IntN(20) {
	case 0:
		return reset()
	case 1:
		return peek()
	case 2:
		return charge(d.count(p.Rate))
	case 3, 4:
		return refund(d.count(p.Rate))
	}
	return d.take(p)
}
