package runtime_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// epoch is the instant at which most tests begin: the start of a day in UTC.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func take(n int64) runtime.Request   { return runtime.Request{Op: runtime.Take, Count: n} }
func check(n int64) runtime.Request  { return runtime.Request{Op: runtime.Check, Count: n} }
func refund(n int64) runtime.Request { return runtime.Request{Op: runtime.Refund, Count: n} }
func charge(n int64) runtime.Request { return runtime.Request{Op: runtime.Charge, Count: n} }
func reserve(n int64) runtime.Request {
	return runtime.Request{Op: runtime.Take, Count: n, Reserve: true}
}
func upTo(n int64) runtime.Request { return runtime.Request{Op: runtime.TakeUpTo, Count: n} }
func peek() runtime.Request        { return runtime.Request{Op: runtime.Peek} }
func reset() runtime.Request       { return runtime.Request{Op: runtime.Reset} }

// within returns q with a MaxDelay.
func within(d time.Duration, q runtime.Request) runtime.Request {
	q.MaxDelay = d
	return q
}

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

// dice generates policies, requests and clocks, the same ones for the same seed.
type dice struct{ *rand.Rand }

func roll(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 1))} }

func pick[T any](d dice, choices ...T) T { return choices[d.IntN(len(choices))] }

// policy returns a valid policy of one row, with small and ordinary numbers.
func (d dice) policy(t testing.TB, kinds ...runtime.Kind) runtime.Policy {
	return d.policyOf(t, pick[int64](d, 1, 2, 3, 7, 10, 97, 100, 1000, 40_000), kinds...)
}

// hugePolicy is like policy, with numbers up to the largest valid ones.
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
	if p.Kind.Linear() {
		p.Capacity = min(runtime.MaxTokens, pick(d, 0, (rate+1)/2, rate, rate, 2*rate, 3*rate))
		p.MaxReserved = min(runtime.MaxTokens, pick(d, 0, 1, rate, 2*rate+1, runtime.Unbounded))
	}
	if p.Capacity == 0 {
		p.MaxReserved = max(p.MaxReserved, 1)
	}
	switch {
	case p.Kind == runtime.FixedWindow:
		p.Start = pick(d, runtime.Start{}, d.aligned(), runtime.StartFirstUse())
	case p.Kind.Windowed():
		p.Start = pick(d, runtime.Start{}, d.aligned())
	}
	if p.Kind == runtime.FixedWindow && d.IntN(4) == 0 {
		p = d.withCalendar(p)
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

// patience returns how long a denied caller waits: sometimes until the tokens are due.
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

// request returns any request that is not an error.
func (d dice) request(p runtime.Policy) runtime.Request {
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

// FuzzStep executes any request on any row, such as damaged ones, at any instant.
func FuzzStep(f *testing.F) {
	for kind := range uint8(len(runtime.Kinds())) {
		f.Add(kind, int64(10), int64(time.Minute), int64(20), int64(5), 3.5, epoch.UnixNano(), 2.0, epoch.UnixNano()+1, int64(1), uint8(1))
		f.Add(kind, int64(1), int64(1), int64(1), int64(0), math.NaN(), int64(math.MaxInt64), math.NaN(), int64(math.MinInt64), int64(1), uint8(0))
		f.Add(kind, int64(runtime.MaxTokens), int64(runtime.MaxPeriod), int64(0), int64(runtime.Unbounded), math.Inf(-1), int64(math.MinInt64), math.Inf(1), int64(math.MaxInt64), int64(math.MaxInt64), uint8(7))
		f.Add(kind, int64(3), int64(7), int64(3), int64(1), math.Inf(1), int64(0), math.Inf(-1), int64(-1), int64(3), uint8(3))
	}
	f.Fuzz(func(t *testing.T, kind uint8, rate, period, capacity, debt int64, value float64, ts int64, prev float64, now, count int64, flags uint8) {
		p := runtime.Policy{Name: "limit", Kind: runtime.Kinds()[int(kind)%len(runtime.Kinds())], Rate: rate, Period: time.Duration(period), Capacity: capacity, MaxReserved: debt}
		if p.Kind == runtime.FixedWindow && flags&2 != 0 {
			p.Start = runtime.StartFirstUse()
		}
		if !p.Kind.Linear() {
			p.Capacity, p.MaxReserved = rate, 0
		}
		if p.Validate() != nil {
			t.Skip()
		}
		s := runtime.State{Value: value, TS: ts, Prev: prev, Exists: true}
		q := runtime.Request{Op: runtime.Op(flags >> 2 % 7), Count: count, Reserve: flags&1 != 0}
		requireSafe(t, p, s, now, q)
	})
}

// requireSafe checks the properties that every decision and every next state must have.
func requireSafe(t *testing.T, p runtime.Policy, s runtime.State, now int64, q runtime.Request) {
	t.Helper()
	rule := meter.RuleOf(&p, "key")
	next, d, err := rule.Step(s, now, q)
	require.GreaterOrEqual(t, d.RetryAfter, time.Duration(0))
	require.GreaterOrEqual(t, d.Delay, time.Duration(0))
	require.GreaterOrEqual(t, d.FullAfter, time.Duration(0))
	require.GreaterOrEqual(t, d.Remaining, int64(0))
	require.Equal(t, err == nil && !d.Allowed, d.RetryAfter > 0, "a denial, and only a denial, has a RetryAfter")
	if next.Exists && q.Op != runtime.Reset {
		require.GreaterOrEqual(t, next.TS, s.TS, "ts never moves back")
	}
	switch {
	case err != nil || !d.Allowed || q.Op == runtime.Check || q.Op == runtime.Peek || q.Count == 0 && q.Op != runtime.Reset:
		require.Equal(t, bits(s), bits(next))
	case q.Op == runtime.Take:
		_, was, err := rule.Step(s, now, peek())
		require.NoError(t, err)
		debt := 0.0
		if q.Reserve {
			debt = rule.Debt
		}
		require.LessOrEqual(t, float64(q.Count)-debt, was.Value+1e-6, "allowed tokens were available")
		require.LessOrEqual(t, was.Value, float64(p.Capacity))
	}
}

// withoutReceipt returns a decision without what only refunds need.
func withoutReceipt(d runtime.Decision) runtime.Decision {
	d.Receipt = runtime.Receipt{}
	return d
}
