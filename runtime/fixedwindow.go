package runtime

import "math"

// fixedWindow is the algorithm of [FixedWindow]: tokens accrue up to the start of the current window, so that each new
// window grants rate of them. Windows are aligned to the rule's phase or to a calendar, or start at a key's first use.
type fixedWindow struct{}

func (fixedWindow) problem(*Policy) string { return "" }

func (f fixedWindow) available(r *Rule, s State, now int64) (float64, float64) {
	return r.tokens(f.accrue(r, s, now)), allowance(r.Rate, r.Period)
}

func (f fixedWindow) accrue(r *Rule, s State, now int64) State {
	start := f.currentStart(r, s, now)
	if r.windowEnded(s.TS, start) {
		s.Value = max(s.Value, r.lowest())
	}
	return r.accrueTo(s, start)
}

// windowEnded reports whether a window that began at one instant has ended when one begins at another. In a calendar, a
// start that has only moved begins no window.
func (r *Rule) windowEnded(was, start int64) bool {
	return start > was && (!r.calendar.exist() || r.windows(was, start) > 0)
}

// lowest returns the smallest value with which a window can end: all tokens used, and all that can be reserved. A smaller
// one is due to tokens that were charged, or to an edit that has made the limit lower. It must not reach into the next
// window, of which the new limit grants all tokens.
func (r *Rule) lowest() float64 { return -(r.Capacity + r.Debt) }

// currentStart returns the start of the window of a key at the instant now. If windows start at first use and the last
// one has ended, that is now: a request at this instant would start a window.
func (fixedWindow) currentStart(r *Rule, s State, now int64) int64 {
	switch {
	case r.calendar.exist():
		return r.calendarStart(s, now)
	case !r.FirstUse:
		return r.windowStart(now)
	case s.Exists && now < addSaturating(s.TS, r.Period):
		return s.TS
	}
	return now
}

func (f fixedWindow) take(r *Rule, s State, now int64, count float64) State {
	s = f.accrue(r, s, now)
	s.Value -= count
	return s
}

func (f fixedWindow) refund(r *Rule, s State, now int64, count float64) State {
	s = f.accrue(r, s, now)
	s.Value = min(0, s.Value+count)
	return s
}

// refundable is count in the window of the request. Later it is less by the tokens that later windows have granted to
// no effect because the key would have been full.
func (f fixedWindow) refundable(r *Rule, s State, now, takenAt int64, count, missing float64) float64 {
	start := f.currentStart(r, s, now)
	from := takenAt
	switch {
	case start <= takenAt:
		return count
	case r.FirstUse:
		// The start of that window is no longer stored. It was less than a period before.
		from -= r.Period
	default:
		from = r.windowStart(takenAt)
	}
	// Without a reservation, all of the tokens belonged to the window that has ended.
	if missing == 0 {
		return 0
	}
	// At its end, the tokens missing beyond the lowest value were dropped.
	if dropped := missing + r.lowest(); dropped > 0 {
		count, missing = max(0, count-dropped), missing-dropped
	}
	return r.unaccrued(from, start, count, missing)
}

func (f fixedWindow) due(r *Rule, s State, now int64, need float64) (at, interval int64) {
	accrued := f.accrue(r, s, now)
	// Before the next tokens are granted, a window ends.
	accrued.Value = max(accrued.Value, r.lowest())
	lacking := need - r.tokens(accrued)
	switch {
	case r.calendar.exist():
		return r.calendarDue(s, accrued, now, need), 1
	case !r.FirstUse:
		return r.nextStart(accrued.TS, lacking), r.Period
	}
	// Nothing is granted before the current window has ended, however soon the tokens would accrue.
	return max(addSaturating(accrued.TS, r.timeFor(lacking)), addSaturating(s.TS, r.Period)), 1
}

// nextStart returns the first start of a window by which a number of tokens has accrued since t, up to rounding.
func (r *Rule) nextStart(t int64, tokens float64) int64 {
	start := r.windowStart(t)
	windows := math.Ceil(tokens/r.Rate + float64(t-start)/float64(r.Period))
	// The product below must not overflow. Written so that NaN takes this branch too.
	if !(windows <= float64((math.MaxInt64-max(0, start))/r.Period)) {
		return math.MaxInt64
	}
	return start + max(1, int64(windows))*r.Period
}

func (f fixedWindow) full(r *Rule, s State, now int64) bool {
	// Until such a window ends, its row fixes when the next one can begin: a new key would start a window at once.
	if r.FirstUse && now < addSaturating(s.TS, r.Period) {
		return false
	}
	return f.accrue(r, s, now).Value == 0
}

func (fixedWindow) windowEnd(r *Rule, at int64) int64 {
	switch {
	case r.FirstUse:
		return math.MaxInt64
	case r.calendar.exist():
		return r.calendar.next(at)
	}
	return addSaturating(r.windowStart(at), r.Period)
}

func (fixedWindow) accruesTo(r *Rule, now int64) (int64, float64, bool) {
	// The windows of a calendar are counted by rounding, which the statement does not do.
	if r.FirstUse || r.calendar.exist() {
		return 0, 0, false
	}
	return r.windowStart(now), r.lowest(), true
}
