package runtime

import (
	"math"
	"math/bits"
)

// allowance returns how far a sum of tokens may fall short and still pass, so that a request made exactly when its
// token is due is not refused for a rounding in the sixteenth digit: a millionth of a token, but no more than what
// accrues in a microsecond at rate per period. What is stored is the honest sum, so allowances do not add up.
func allowance(rate float64, period int64) float64 {
	return min(1e-6, float64(1000*rate)/float64(period))
}

// allowance returns the allowance for s at an instant.
func (r *Rule) allowance(s State, at int64) float64 {
	if r.Kind == SlidingWindow {
		// Only the use of the previous window fades.
		return allowance(r.slide(s, at).previous, r.Period)
	}
	return allowance(r.Rate, r.Period)
}

// enough reports whether s has need tokens at the instant at.
func (r *Rule) enough(s State, at int64, need float64) bool {
	avail, _ := r.available(s, at)
	return avail-need >= -r.allowance(s, at)
}

// when returns the first instant, now or later, at which s has need tokens if nobody takes any. need must
// be at most the capacity. It is that of the exact sum, which does not count on the allowance, rounded up
// to the nanosecond; and it is checked: [Rule.enough] holds then.
func (r *Rule) when(s State, now int64, need float64) int64 {
	if r.enough(s, now, need) {
		return now
	}
	grain := r.grain()
	at := max(r.due(s, now, need), now+1)
	fails := at - grain
	for step := grain; !r.enough(s, at, need) && at < math.MaxInt64; step *= 2 {
		fails, at = at, addSaturating(at, step)
	}
	for at-fails > grain { // at had to be moved, maybe too far
		if middle := fails + (at-fails)/grain/2*grain; r.enough(s, middle, need) {
			at = middle
		} else {
			fails = middle
		}
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
	switch {
	case r.Kind == TokenBucket:
		at := addSaturating(t, r.timeFor(need-avail))
		// A fraction of a token that was rounded may have come to a nanosecond too much.
		if before, _ := r.available(s, at-1); before >= need && avail != math.Trunc(avail) && at-1 > now {
			at--
		}
		return at
	case r.FirstUse:
		return max(addSaturating(t, r.timeFor(need-avail)), addSaturating(s.TS, r.Period))
	}
	return r.boundary(t, need-avail)
}

// timeFor returns how long a number of tokens takes to accrue, rounded up. For whole tokens it is exact.
func (r *Rule) timeFor(tokens float64) int64 {
	whole, part := math.Modf(tokens)
	if !(whole < math.MaxInt64) {
		return math.MaxInt64
	}
	high, low := bits.Mul64(uint64(whole), uint64(r.Period))
	rate := uint64(r.Rate)
	if high >= rate {
		return math.MaxInt64
	}
	time, rest := bits.Div64(high, low, rate)
	if time > math.MaxInt64 {
		return math.MaxInt64
	}
	return addSaturating(int64(time), nanoseconds((float64(rest)+part*float64(r.Period))/r.Rate))
}

// boundary returns the first start of a window by which a number of tokens has accrued since t, up to rounding.
func (r *Rule) boundary(t int64, tokens float64) int64 {
	start := r.windowStart(t)
	windows := math.Ceil(tokens/r.Rate + float64(t-start)/float64(r.Period))
	if !(windows <= float64((math.MaxInt64-max(0, start))/r.Period)) {
		return math.MaxInt64
	}
	return start + max(1, int64(windows))*r.Period
}

// nanoseconds rounds up, and returns at most the longest duration there is.
func nanoseconds(f float64) int64 {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Ceil(f))
}
