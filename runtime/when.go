package runtime

import "math"

// allowance is how far a sum of tokens may fall short and still pass: a request made exactly when its
// token is due is not refused for a rounding in the sixteenth digit. What is stored is the honest sum, so
// allowances do not add up.
const allowance = 1e-6

// enough reports whether s has need tokens at the instant at.
func (r *Rule) enough(s State, at int64, need float64) bool {
	avail, _ := r.available(s, at)
	return avail-need >= -allowance
}

// when returns the first instant, now or later, at which s has need tokens if nobody takes any. need must
// be at most the capacity. It is that of the exact sum, which does not count on the allowance, rounded up
// to the nanosecond; and it is checked: [Rule.enough] holds then.
func (r *Rule) when(s State, now int64, need float64) int64 {
	if r.enough(s, now, need) {
		return now
	}
	at := max(r.due(s, now, need), now+1)
	for step := r.grain(); !r.enough(s, at, need) && at < math.MaxInt64; step *= 2 {
		at = addSaturating(at, step)
	}
	return at
}

// grain returns how far apart the instants are at which tokens are granted, in nanoseconds.
func (r *Rule) grain() int64 {
	if r.Kind == FixedWindow && !r.FirstUse {
		return r.Period
	}
	return 1
}

// due calculates the instant that when looks for, up to rounding.
func (r *Rule) due(s State, now int64, need float64) int64 {
	if r.Kind == SlidingWindow {
		w := r.slide(s, now)
		end := r.windowStart(w.start) + r.Period
		return w.free(r.Rate-need, end, r.Period)
	}
	avail, t := r.available(s, now)
	due := addSaturating(t, nanoseconds((need-avail)*float64(r.Period)/r.Rate))
	switch {
	case r.Kind == TokenBucket:
		return due
	case r.FirstUse:
		return max(due, addSaturating(s.TS, r.Period))
	}
	return r.boundary(s, now, due, need)
}

// boundary returns the first start of a window at or after due. The one before due is taken if it has
// enough: due may have been rounded past it.
func (r *Rule) boundary(s State, now, due int64, need float64) int64 {
	before := r.windowStart(due)
	if before == due || before > now && r.enough(s, before, need) {
		return before
	}
	return addSaturating(before, r.Period)
}

// nanoseconds rounds up, and returns at most the longest duration there is.
func nanoseconds(f float64) int64 {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Ceil(f))
}
