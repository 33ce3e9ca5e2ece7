// Package bounds calculates the numbers of a limit: the most tokens that one key can use [Within] an interval, how long it
// has none, and the lengths of delays and of windows. A bound holds for any callers, and some callers reach it.
package bounds

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// Within returns the most tokens that one key can use in an interval of length t, its first and last instant
// included, wherever it begins. A reserved token counts when it may be used, which is when its delay has passed; a
// token of a lease counts when it is spent; any other counts when it is taken. The bound holds for calls of any size,
// and for leases that are given back. It does not cover tokens that callers give back after using them, or charge
// beyond a reservation. The policy must be valid. [math.MaxInt64] means that there is no bound, or that it is too
// large to count.
//
// Token bucket: the capacity, and the tokens that accrue from the first take to the end of the interval. The first
// take is at most the longest delay of a reservation, or the time of a lease, before the interval begins.
//
// Fixed window: the capacity, left over from the window before the interval, and the tokens that each window in the
// interval grants. With reservations, all of the capacity and of the debt can be due when the interval begins, granted
// by the windows between the reservation and then. A lease ends with its window and changes nothing. For first use, see
// [Envelope.firstUse]; for sliding windows, see [Envelope.sliding].
//
// In flight: at one instant at most the slots are held. How many slots are acquired in a longer interval has no bound,
// because a slot that is released is free at once.
//
// For a precise sliding window, the last instant of an interval is not included unless it is also the first: there, the
// tokens taken at the first instant of a period are available again.
func Within(p *runtime.Policy, t time.Duration) int64 {
	e := EnvelopeOf(p)
	return e.Within(t)
}

// Envelope is [Within] of a policy as a function of the length, for callers that need it at many lengths: what does not
// depend on the length is calculated once.
type Envelope struct {
	*runtime.Policy
	rule meter.Rule
	// delay is the longest delay of a reservation, of a kind that needs it.
	delay int64
	// used has how many tokens each window of a sliding window uses, without the last one. The last two repeat.
	used []int64
}

// EnvelopeOf returns the envelope of a valid policy, which must not change as long as it is used.
func EnvelopeOf(p *runtime.Policy) Envelope {
	e := Envelope{Policy: p}
	if e.constant() {
		return e
	}
	e.rule = meter.RuleOf(p, "")
	switch {
	case p.Kind == runtime.SlidingWindow && !p.Precise:
		e.used = e.windows()
	case p.Kind == runtime.TokenBucket, p.Start.FirstUse() && p.Reserves():
		e.delay = int64(LongestDelay(p))
	}
	return e
}

// unbounded reports whether there is no bound.
func (e *Envelope) unbounded() bool {
	return e.MaxReserved == runtime.Unbounded || e.Mode == runtime.ModeUnlimited || e.AtMost.Unlimited ||
		e.Inside().CountsOnly()
}

// constant reports whether all intervals have the same bound: none, or 0.
func (e *Envelope) constant() bool {
	return e.unbounded() || e.Full()+e.MaxReserved == 0
}

// Within is the function [Within] for the policy of the envelope.
func (e *Envelope) Within(t time.Duration) int64 {
	switch {
	case e.unbounded():
		return math.MaxInt64
	case e.constant(): // the result of Unreserved for a limit that can only be reserved
		return 0
	}
	switch e.Kind {
	case runtime.TokenBucket:
		return e.bucket(int64(t))
	case runtime.FixedWindow:
		return e.fixed(int64(t))
	case runtime.SlidingWindow:
		return e.sliding(int64(t))
	case runtime.InFlight:
		if t > 0 {
			return math.MaxInt64
		}
		return e.Slots
	}
	panic(fmt.Sprintf("bounds: %v has no bound: add it to Envelope.Within in gen/internal/bounds/bounds.go", e.Kind))
}

// Unreserved returns the policy for callers who do not reserve. It is not valid if the capacity is 0, but [Within]
// accepts it.
func Unreserved(p *runtime.Policy) *runtime.Policy {
	plain := *p
	plain.MaxReserved = 0
	return &plain
}

// LongestDelay returns the longest time until reserved tokens may be used: 0 without reservations, and the longest
// duration if reservations have no bound.
func LongestDelay(p *runtime.Policy) time.Duration {
	switch {
	case !p.Reserves():
		return 0
	case p.MaxReserved == runtime.Unbounded:
		return math.MaxInt64
	}
	rule := meter.RuleOf(p, "")
	return Longest(p, func(start int64) time.Duration {
		// The zero State is a full key, which can reserve the most.
		_, d := MustStep(&rule, runtime.State{}, start, runtime.Request{Count: p.Capacity + p.MaxReserved, Reserve: true})
		return d.UsableAfter
	})
}

func (e *Envelope) bucket(t int64) int64 {
	most := add(e.MaxReserved, e.accrued(t))
	if early := add(t, max(e.delay, int64(e.Lease.For))); early > t {
		most = max(most, e.accrued(early))
	}
	return add(e.Capacity, most)
}

func (e *Envelope) fixed(t int64) int64 {
	switch {
	case e.Calendar.Unit != 0:
		return calendar(e.Policy, t)
	case e.Start.FirstUse():
		return e.firstUse(t)
	}
	period := int64(e.Period)
	begun := ceil(t, period)
	if e.Reserves() {
		begun = t/period + ceil(e.MaxReserved, e.Rate)
	}
	return add(e.Capacity, times(min(e.Rate, e.Capacity+e.MaxReserved), begun))
}

// firstUse is [Within] for windows that begin at first use. Between the starts of two windows tokens accrue as
// in a token bucket, and no window grants more than capacity and debt. The interval can begin with a full window; or
// just before the end of one that was opened with a single token; or, with reservations, when everything that a full
// window had and could reserve is due.
func (e *Envelope) firstUse(t int64) int64 {
	period, most := int64(e.Period), e.Capacity+e.MaxReserved
	if e.Reserves() {
		early := add(t, e.delay)
		ahead := add(max(e.Rate, e.MaxReserved), e.accrued(t))
		return add(e.Capacity, min(times(most, early/period), max(ahead, e.accrued(early))))
	}
	fresh := add(e.Capacity, min(times(most, t/period), e.accrued(t)))
	if t == 0 {
		return fresh
	}
	return max(fresh, add(e.Capacity-1, min(times(most, ceil(t, period)), e.accrued(t+period-1))))
}

// sliding is [Within] for a sliding window. The interval begins at the last instant of a window that takes
// all of the rate; each window after it takes at its last instant what the previous one leaves, and the last
// window at the end of the interval.
func (e *Envelope) sliding(t int64) int64 {
	if e.Precise {
		// All of the rate at the beginning, and again each time these tokens are available again.
		return times(e.Rate, max(1, ceil(t, int64(e.Period))))
	}
	period := int64(e.Period)
	windows, last := (t+period-1)/period, (t+period-1)%period
	if windows == 0 {
		return e.Rate
	}
	sum, listed := int64(0), int64(len(e.used))
	for _, used := range e.used[:min(windows, listed)] {
		sum = add(sum, used)
	}
	used := e.used[min(windows, listed)-1]
	if rest := windows - listed; rest > 0 {
		// Multiplying the windows that repeat keeps long intervals O(1).
		before := e.used[max(0, listed-2)]
		sum = add(sum, add(times(before, (rest+1)/2), times(used, rest/2)))
		if rest%2 == 1 {
			used = before
		}
	}
	return add(sum, e.left(used, last))
}

// windows returns how many tokens each window of [Envelope.sliding] uses, up to where the amounts repeat with a cycle of one
// or two, which is soon.
func (e *Envelope) windows() []int64 {
	used, last := []int64{e.Rate}, int64(e.Period)-1
	for {
		next, n := e.left(used[len(used)-1], last), len(used)
		if next == used[n-1] {
			return append(used, next)
		}
		if n > 1 && next == used[n-2] {
			return used
		}
		used = append(used, next)
	}
}

// left returns how many tokens a window allows once elapsed nanoseconds of it have passed, if the previous window used
// a number of them.
func (e *Envelope) left(used, elapsed int64) int64 {
	phase := e.rule.Phase
	return remaining(&e.rule, runtime.State{TS: phase, Prev: float64(used), Exists: true}, phase+elapsed)
}

func remaining(rule *meter.Rule, s runtime.State, at int64) int64 {
	// The runtime rounds. A second implementation of that would differ in some cases.
	_, d := MustStep(rule, s, at, runtime.Request{Op: runtime.Peek})
	return d.Remaining
}

// MustStep is [meter.Rule.Step] for a request that a valid rule does not refuse.
func MustStep(rule *meter.Rule, s runtime.State, at int64, q runtime.Request) (runtime.State, runtime.Decision) {
	next, d, err := rule.Step(s, at, q)
	if err != nil {
		panic(fmt.Sprintf("bounds: %+v refuses %+v: %v", *rule, q, err))
	}
	return next, d
}

// calendar is [Within] for windows of a calendar: the tokens left over from the window before the interval, and those
// of each window that begins in it.
func calendar(p *runtime.Policy, t int64) int64 {
	begun := int64(0)
	// The interval begins just before a window does, so that n windows begin in it if it is longer than the shortest span
	// of the n-1 after the first.
	if t > 0 {
		begun = 1 + mostWindows(p.Calendar, time.Duration(t)-1)
	}
	if p.Reserves() {
		// All of the capacity and of the debt can be due when the interval begins.
		begun = mostWindows(p.Calendar, time.Duration(t)) + ceil(p.MaxReserved, p.Rate)
	}
	return add(p.Capacity, times(min(p.Rate, p.Capacity+p.MaxReserved), begun))
}

// accrued returns rate * t / period in whole tokens, including one that falls short by no more than the rounding that
// the runtime allows.
func (e *Envelope) accrued(t int64) int64 {
	tokens, rest := Accrued(e.Policy, time.Duration(t))
	part := float64(rest) / float64(e.Period)
	if part < 0.99 { // the runtime rounds up a millionth of a token at most
		return tokens
	}
	almost := e.rule
	// A bucket with the rest of the division in it has a token if the runtime rounds the rest up.
	almost.Kind, almost.FirstUse, almost.Capacity = runtime.TokenBucket, false, 1
	return add(tokens, remaining(&almost, runtime.State{Value: part - 1, Exists: true}, 0))
}

// Accrued returns rate * t / period in whole tokens, at most [math.MaxInt64], and the remainder of the division.
func Accrued(p *runtime.Policy, t time.Duration) (tokens int64, rest uint64) {
	// The product of a rate and a time has up to 113 bits.
	high, low := bits.Mul64(uint64(p.Rate), uint64(t))
	if high >= uint64(p.Period) {
		return math.MaxInt64, 0
	}
	whole, rest := bits.Div64(high, low, uint64(p.Period))
	return int64(min(whole, math.MaxInt64)), rest
}

// ceil returns a/b, rounded up.
func ceil(a, b int64) int64 {
	// The usual (a+b-1)/b could overflow.
	if a%b == 0 {
		return a / b
	}
	return a/b + 1
}
