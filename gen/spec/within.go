package spec

import (
	"math"
	"math/bits"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Within returns the most tokens that one key can use in an interval of length t, its first and last instant
// included, whenever it begins. A token counts when it can be used at the earliest if it was reserved, which is
// when its delay has passed; when it is spent if it came from a lease; and otherwise when it is taken. The bound
// holds for calls of any size, and for leases that are given back. It does not cover what callers give back after
// using it, or charge beyond a reservation. The policy must be valid. [math.MaxInt64] stands for no bound, or one
// too large to count.
//
// Token bucket: the capacity, and what accrues from the first take to the end of the interval. The first take is
// at most the longest delay of a reservation, or the time of a lease, before the interval begins.
//
// Fixed window: the capacity, left over from the window before the interval, and what each window that begins in
// the interval grants. With reservations, all of the capacity and of the debt can be due when the interval begins,
// and the windows from the reservation to then have granted it. A lease ends with its window and changes nothing.
// First use: see [withinFirstUse]. Sliding window: see [withinSliding].
func Within(p *runtime.Policy, t time.Duration) int64 {
	length, period := int64(t), int64(p.Period)
	switch {
	case p.MaxReserved == runtime.Unbounded:
		return math.MaxInt64
	case p.Capacity+p.MaxReserved == 0: // what is left of a limit that can only be reserved
		return 0
	case p.Kind == runtime.SlidingWindow:
		return withinSliding(p, length)
	case p.Kind == runtime.TokenBucket:
		ahead := add(p.MaxReserved, accrued(p, length))
		early := add(length, max(int64(LongestDelay(p)), int64(p.Lease.For)))
		return add(p.Capacity, max(ahead, accrued(p, early)))
	case p.Start.FirstUse():
		return withinFirstUse(p, length)
	}
	begun := ceil(length, period)
	if p.Reserves() {
		begun = length/period + ceil(p.MaxReserved, p.Rate)
	}
	return add(p.Capacity, times(min(p.Rate, p.Capacity+p.MaxReserved), begun))
}

// Unreserved returns the rule as it applies to callers who do not reserve. It is not valid if capacity is 0, but
// [Within] accepts it.
func Unreserved(p *runtime.Policy) *runtime.Policy {
	plain := *p
	plain.MaxReserved = 0
	return &plain
}

// LongestDelay returns how long it takes at most until reserved tokens can be used; 0 for a limit that cannot be
// reserved, and the longest duration for one without a bound.
func LongestDelay(p *runtime.Policy) time.Duration {
	switch {
	case !p.Reserves():
		return 0
	case p.MaxReserved == runtime.Unbounded:
		return math.MaxInt64
	}
	rule := p.Rule("")
	_, d, err := rule.Step(runtime.State{}, rule.Phase, runtime.Request{Count: p.Capacity + p.MaxReserved, Reserve: true})
	if err != nil {
		panic("spec: a full key refuses its largest reservation: " + err.Error())
	}
	return d.Delay
}

// withinFirstUse is [Within] for windows that begin at first use. Between the starts of two windows tokens accrue as
// in a token bucket, and no window grants more than capacity and debt. The interval can begin with a full window; or
// just before the end of one that was opened with a single token; or, with reservations, when everything that a full
// window had and could reserve is due.
func withinFirstUse(p *runtime.Policy, t int64) int64 {
	period, most := int64(p.Period), p.Capacity+p.MaxReserved
	if p.Reserves() {
		early := add(t, int64(LongestDelay(p)))
		ahead := add(max(p.Rate, p.MaxReserved), accrued(p, t))
		return add(p.Capacity, min(times(most, early/period), max(ahead, accrued(p, early))))
	}
	fresh := add(p.Capacity, min(times(most, t/period), accrued(p, t)))
	if t == 0 {
		return fresh
	}
	return max(fresh, add(p.Capacity-1, min(times(most, ceil(t, period)), accrued(p, t+period-1))))
}

// withinSliding is [Within] for a sliding window. The interval begins at the last instant of a window that takes
// all of the rate; each window after it takes at its last instant what the one before leaves it, and the last
// window at the end of the interval.
func withinSliding(p *runtime.Policy, t int64) int64 {
	period := int64(p.Period)
	windows, last := (t+period-1)/period, (t+period-1)%period
	sum, before, used := p.Rate, int64(-1), p.Rate
	for i := int64(1); i < windows; i++ {
		next := left(p, used, period-1)
		if next == before || next == used { // from here on, two amounts take turns
			rest := windows - i
			sum = add(sum, add(times(next, (rest+1)/2), times(used, rest/2)))
			used = pick(rest%2 == 1, next, used)
			break
		}
		sum, before, used = add(sum, next), used, next
	}
	if windows == 0 {
		return sum
	}
	return add(sum, left(p, used, last))
}

// left returns what can be taken in a window in which elapsed has passed, if in the one before so much was used.
func left(p *runtime.Policy, used, elapsed int64) int64 {
	rule := p.Rule("")
	return remaining(rule, runtime.State{Value: rule.Rate, TS: rule.Phase, Prev: float64(used), Exists: true}, rule.Phase+elapsed)
}

// remaining returns the whole tokens of a state, as far as the runtime lets them be taken.
func remaining(rule runtime.Rule, s runtime.State, at int64) int64 {
	_, d, err := rule.Step(s, at, runtime.Request{Op: runtime.Peek})
	if err != nil {
		panic("spec: a key cannot be looked at: " + err.Error())
	}
	return d.Remaining
}

func pick(first bool, a, b int64) int64 {
	if first {
		return a
	}
	return b
}

// accrued returns rate * t / period in whole tokens, including one that is due but for a rounding which the runtime
// allows.
func accrued(p *runtime.Policy, t int64) int64 {
	tokens, rest := accruedExactly(p, t)
	almost := p.Rule("")
	almost.Kind, almost.FirstUse, almost.Capacity = runtime.TokenBucket, false, 1
	part := float64(rest) / float64(p.Period)
	return add(tokens, remaining(almost, runtime.State{Value: part, Exists: true}, 0))
}

// accruedExactly returns rate * t / period in whole tokens, and what remains of the division.
func accruedExactly(p *runtime.Policy, t int64) (tokens int64, rest uint64) {
	high, low := bits.Mul64(uint64(p.Rate), uint64(t))
	if high >= uint64(p.Period) {
		return math.MaxInt64, 0
	}
	whole, rest := bits.Div64(high, low, uint64(p.Period))
	return int64(min(whole, math.MaxInt64)), rest
}

// ceil returns a/b, rounded up.
func ceil(a, b int64) int64 {
	if a%b == 0 {
		return a / b
	}
	return a/b + 1
}

// add and times stop at the largest number. They take no negative ones.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
