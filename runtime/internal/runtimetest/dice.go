package runtimetest

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var long = flag.Bool("long", false, "take a million random steps, not some ten thousand")

// Steps is how many steps a random test takes.
func Steps() int {
	if *long {
		return 1_000_000
	}
	return 20_000
}

// Long reports whether all cases are searched, and not a sample.
func Long() bool { return *long }

// LastInstant is where random traces end: in the year 2128, many periods before the last nanosecond of an int64.
const LastInstant = 5_000_000_000_000_000_000

// TraceSteps is how many steps a trace of one key has.
const TraceSteps = 50

// Dice generates policies, requests and clocks, the same ones for the same seed.
type Dice struct{ *rand.Rand }

// Roll returns the dice of a seed.
func Roll(seed uint64) Dice { return Dice{rand.New(rand.NewPCG(seed, 1))} }

// Pick returns one of the choices.
func Pick[T any](d Dice, choices ...T) T { return choices[d.IntN(len(choices))] }

// Policy returns a valid policy of one row, with small and ordinary numbers.
func (d Dice) Policy(t testing.TB, kinds ...runtime.Kind) runtime.Policy {
	return d.PolicyOf(t, Pick[int64](d, 1, 2, 3, 7, 10, 97, 100, 1000, 40_000), kinds...)
}

// HugePolicy is like Policy, with numbers up to the largest valid ones.
func (d Dice) HugePolicy(t testing.TB) runtime.Policy {
	return d.PolicyOf(t, Pick[int64](d, 1e9, 1e12, 999_999_999_999_989, runtime.MaxTokens))
}

// PolicyOf returns a valid policy of one row with a rate, or with as many slots.
func (d Dice) PolicyOf(t testing.TB, rate int64, kinds ...runtime.Kind) runtime.Policy {
	if len(kinds) == 0 {
		kinds = TokenKinds()
	}
	p := runtime.Policy{
		Name:     "limit",
		Kind:     Pick(d, kinds...),
		Rate:     rate,
		Period:   d.period(),
		Capacity: rate,
	}
	if p.Kind == runtime.InFlight {
		return runtime.Policy{Name: p.Name, Kind: p.Kind, Slots: rate, Hold: p.Period}
	}
	if p.Kind.Linear() {
		p.Capacity = min(runtime.MaxTokens, Pick(d, 0, (rate+1)/2, rate, rate, 2*rate, 3*rate))
		p.MaxReserved = min(runtime.MaxTokens, Pick(d, 0, 1, rate, 2*rate+1, runtime.Unbounded))
	}
	if p.Capacity == 0 {
		p.MaxReserved = max(p.MaxReserved, 1)
	}
	switch {
	case p.Kind == runtime.FixedWindow:
		p.Start = Pick(d, runtime.Start{}, d.aligned(), runtime.StartFirstUse())
	case p.Kind.Windowed():
		p.Start = Pick(d, runtime.Start{}, d.aligned())
	}
	if p.Kind == runtime.FixedWindow && d.IntN(4) == 0 {
		p = d.WithCalendar(p)
	}
	require.NoError(t, p.Validate())
	return p
}

func (d Dice) period() time.Duration {
	const day = 24 * time.Hour
	return Pick(d, 1, 7*time.Nanosecond, time.Microsecond, time.Millisecond, time.Second, 2500*time.Millisecond,
		time.Minute, 90*time.Second, time.Hour, day, 7*day, runtime.MaxPeriod)
}

func (d Dice) aligned() runtime.Start {
	return Pick(d, runtime.StartOffset(0), runtime.StartOffset(90*time.Minute), runtime.StartAt(Epoch.Add(time.Hour)))
}

// WithCalendar returns p with a random calendar.
func (d Dice) WithCalendar(p runtime.Policy) runtime.Policy {
	c := runtime.Calendar{
		Unit: Pick(d, runtime.CalendarUnits()...), Count: Pick(d, 0, 1, 1, 2, 3), Zone: Pick(d, UnusualZones...),
		At: Pick(d, 0, 0, 2*time.Hour+30*time.Minute, 23*time.Hour+59*time.Minute),
	}
	if d.IntN(2) == 0 {
		c.From = runtime.Date{Year: 1960 + d.IntN(80), Month: time.Month(1 + d.IntN(12)), Day: 1 + d.IntN(31)}
		if !c.From.Valid() {
			c.From.Day = 28
		}
	}
	p.Calendar, p.Period, p.Start = c, c.Period(), runtime.Start{}
	return p
}

// UnusualZones are the zones of a sample: those with clock changes at midnight, of other than an hour, or of a day.
var UnusualZones = []string{
	"UTC", "America/New_York", "America/Santiago", "Africa/Cairo", "Asia/Beirut", "America/Havana", "Australia/Lord_Howe",
	"Pacific/Apia", "America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Pacific/Kwajalein", "Pacific/Kiritimati",
	"Africa/Casablanca", "Asia/Pyongyang", "Africa/Monrovia", "America/Scoresbysund", "Asia/Gaza",
}

// Jump returns a step of a clock: none, a nanosecond, a part of a period, some periods; sometimes back.
func (d Dice) Jump(p runtime.Policy) time.Duration {
	period := p.Period
	step := Pick(d, 0, 0, 1, period/time.Duration(p.Rate), d.UpTo(period/4), d.UpTo(period), period, d.UpTo(5*period))
	if d.IntN(10) == 0 {
		return -step
	}
	return step
}

// Patience returns how long a denied caller waits: sometimes until the tokens are due.
func (d Dice) Patience(retryAfter time.Duration) int64 {
	if d.IntN(2) == 0 || retryAfter > runtime.MaxPeriod {
		return 0
	}
	return int64(retryAfter)
}

// UpTo returns a duration of at most n.
func (d Dice) UpTo(n time.Duration) time.Duration { return time.Duration(d.Int64N(int64(n) + 1)) }

// CountUpTo returns a count up to most: 1, a part of it, or all of it.
func (d Dice) CountUpTo(most int64) int64 {
	most = max(1, most)
	return Pick(d, 1, 1, 1+d.Int64N(most), 1+d.Int64N(max(1, most/10)), most)
}

// Take returns a plain or a reserving Take or Check that does not exceed the capacity of p.
func (d Dice) Take(p runtime.Policy) runtime.Request {
	q := runtime.Request{Op: Pick(d, runtime.Take, runtime.Take, runtime.Take, runtime.Check)}
	q.Reserve = p.MaxReserved > 0 && (p.Capacity == 0 || d.IntN(2) == 0)
	most := p.Capacity
	if q.Reserve {
		most = Pick(d, most, most+min(p.MaxReserved, 3*p.Rate))
	}
	q.Count = min(d.CountUpTo(most), p.Capacity+p.MaxReserved)
	return q
}

// Request returns any request that is not an error.
func (d Dice) Request(p runtime.Policy) runtime.Request {
	switch d.IntN(20) {
	case 0:
		return Reset()
	case 1:
		return Peek()
	case 2:
		return Charge(d.CountUpTo(p.Rate))
	case 3, 4:
		return Refund(d.CountUpTo(p.Rate))
	}
	return d.Take(p)
}

// TokenKinds returns the kinds whose tokens come back with time: all but [runtime.InFlight], whose slots have tests of
// their own.
func TokenKinds() []runtime.Kind {
	return slices.DeleteFunc(runtime.Kinds(), func(k runtime.Kind) bool { return k == runtime.InFlight })
}
