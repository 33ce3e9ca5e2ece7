package meter

import (
	"math"

	"github.com/ratelimitgen/ratelimitgen/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// WindowEnd returns the start of the window after the one that contains the instant at, in nanoseconds since 1970 UTC.
// For kinds without windows, and for windows that start at first use, it is the last instant of an int64.
func (r *Rule) WindowEnd(at int64) int64 { return r.algorithm().windowEnd(at) }

// when returns the first instant, now or later, at which s has need tokens if no other request takes tokens. need must
// be at most the capacity. The instant is that of the exact sum, which does not use the allowance, rounded up to the
// nanosecond, and [Rule.enough] is true for it.
func (r *Rule) when(s runtime.State, now int64, need float64) int64 {
	if r.enough(s, now, need) {
		return now
	}
	return r.search(s, now, need)
}

// first returns the first instant, now or later, at which s has the tokens that need returns for the rule that applies
// then.
func (r *Rule) first(s runtime.State, now int64, need func(r *Rule) float64) int64 {
	if r.mode.Passes() || r.countsNothing() {
		return now
	}
	return r.earlier(s, now, r.when(s, now, need(r)), need)
}

// earlier is [Rule.first], given the instant by this rule alone.
func (r *Rule) earlier(s runtime.State, now, at int64, need func(r *Rule) float64) int64 {
	if r.next == nil || at < r.ends {
		return at
	}
	return r.next.first(s, max(now, r.ends), need)
}

// whole is the need of a full key.
func whole(r *Rule) float64 { return r.Capacity }

// noDebt is the need of tokens that were reserved. In ModeShadow they are not waited for.
func noDebt(r *Rule) float64 {
	if r.mode == runtime.ModeShadow {
		return math.Inf(-1)
	}
	return 0
}

// search is [Rule.when] for tokens that s lacks now.
func (r *Rule) search(s runtime.State, now int64, need float64) int64 {
	at, interval := r.algorithm().due(s, now, need)
	if at = max(at, now+1); interval == 0 {
		return at
	}
	// The formula for due rounds, so it can be early: then step on, twice as far each time, until there is enough.
	fails := at - interval
	for step := interval; !r.enough(s, at, need) && at < math.MaxInt64; step = arith.Add(step, step) {
		fails, at = at, arith.Add(at, step)
	}
	// The last step may have gone too far: bisect between the last instant that failed and the first that passed. The
	// middle is after fails, even if at is the last instant and so not a number of intervals after it.
	for at-fails > interval {
		if middle := fails + max(1, (at-fails)/interval/2)*interval; r.enough(s, middle, need) {
			at = middle
		} else {
			fails = middle
		}
	}
	return at
}
