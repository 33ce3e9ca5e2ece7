package runtime

import (
	"fmt"
	"math"
)

// tokenBucket is the algorithm of [TokenBucket]: tokens accrue continuously, up to the present.
type tokenBucket struct{}

func (tokenBucket) problem(p *Policy) string {
	if (p.Start != Start{}) {
		return "a token bucket has no windows: leave Start out"
	}
	return ""
}

func (tokenBucket) available(r *Rule, s State, now int64) (float64, float64) {
	return r.tokens(r.accrueTo(s, now)), allowance(r.Rate, r.Period)
}

func (tokenBucket) accrue(r *Rule, s State, now int64) State { return r.accrueTo(s, now) }

func (tokenBucket) take(r *Rule, s State, now int64, count float64) State {
	s = r.accrueTo(s, now)
	s.Value -= count
	return s
}

func (tokenBucket) refund(r *Rule, s State, now int64, count float64) State {
	s = r.accrueTo(s, now)
	s.Value = min(0, s.Value+count)
	return s
}

// refundable is less than count by the tokens that a full bucket would have lost since.
func (tokenBucket) refundable(r *Rule, _ State, now, takenAt int64, count, missing float64) float64 {
	return r.unaccrued(takenAt, now, count, missing)
}

func (tokenBucket) due(r *Rule, s State, now int64, need float64) (at, interval int64) {
	accrued := r.accrueTo(s, now)
	at = addSaturating(accrued.TS, r.timeFor(need-r.tokens(accrued)))
	// timeFor rounds a fraction of a token up, which may be a nanosecond too much. Whole tokens are exact.
	if fraction := accrued.Value != math.Trunc(accrued.Value); fraction && at-1 > now && r.tokens(r.accrueTo(s, at-1)) >= need {
		at--
	}
	return at, 1
}

func (tokenBucket) full(r *Rule, s State, now int64) bool {
	return r.accrueTo(s, now).Value == 0
}

func (tokenBucket) windowEnd(*Rule, int64) int64 { return math.MaxInt64 }

func (tokenBucket) accruesTo(_ *Rule, now int64) (int64, float64, bool) { return now, -endless, true }

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

// slidingWindow is the algorithm of [SlidingWindow]: an estimate of the use in the period that ends now, from the use
// of the current aligned window and of the one before. A row's Value is minus the use of the window that starts at TS, and
// Prev the use of the window before, so that an edit of the rate changes neither.
type slidingWindow struct{}

func (slidingWindow) problem(p *Policy) string {
	switch {
	case p.Capacity != p.Rate:
		return fmt.Sprintf("the capacity of a sliding window must equal its rate, %d, but is %d", p.Rate, p.Capacity)
	case p.MaxReserved != 0:
		return "a sliding window cannot be reserved ahead: leave MaxReserved at 0"
	case p.Start.FirstUse():
		return "a sliding window cannot start at first use: give an offset, or leave Start out"
	}
	return ""
}

// windows is the use of two neighbouring windows, of which the current one begins at start.
type windows struct {
	start             int64
	current, previous float64
}

// windowsAt returns the windows of s as of the instant now.
func (r *Rule) windowsAt(s State, now int64) windows {
	w := r.windowStart(now)
	used := max(0, -s.Value)
	switch {
	case !s.Exists:
		return windows{start: w}
	// If the clock has gone back, the later window stays the current one: its use must not be counted less.
	case s.TS >= w:
		return windows{start: s.TS, current: used, previous: max(0, s.Prev)}
	case s.TS >= w-r.Period:
		return windows{start: w, previous: used}
	}
	return windows{start: w}
}

// used returns the estimated use of the period that ends at now:
//
//	previous * (1 - elapsed/period) + current
func (w windows) used(now, period int64) float64 {
	elapsed := float64(max(0, now-w.start))
	weight := max(0, 1-float64(elapsed/float64(period)))
	// The conversion keeps the compiler from fusing multiply and add, which would round differently per processor.
	return float64(w.previous*weight) + w.current
}

// state returns w as it is stored.
func (w windows) state() State {
	// Not -w.current, which could be a negative zero: not all databases keep one.
	return State{Value: 0 - w.current, TS: w.start, Prev: w.previous, Exists: true}
}

func (slidingWindow) available(r *Rule, s State, now int64) (float64, float64) {
	w := r.windowsAt(s, now)
	// Tokens come back only as the use of the previous window fades, so that its use is the rate of the allowance.
	return r.Rate - w.used(now, r.Period), allowance(w.previous, r.Period)
}

func (slidingWindow) accrue(r *Rule, s State, now int64) State {
	return r.windowsAt(s, now).state()
}

func (slidingWindow) take(r *Rule, s State, now int64, count float64) State {
	w := r.windowsAt(s, now)
	w.current += count
	return w.state()
}

// refund reduces the use of the current window, and by the rest of count that of the one before.
func (slidingWindow) refund(r *Rule, s State, now int64, count float64) State {
	w := r.windowsAt(s, now)
	current := min(count, w.current)
	w.current -= current
	w.previous = max(0, w.previous-(count-current))
	return w.state()
}

// refundable is count within the window of the request, and 0 later, because each window grants the whole rate whether
// the one before was used up or not.
func (slidingWindow) refundable(r *Rule, _ State, now, takenAt int64, count, _ float64) float64 {
	if r.windowStart(takenAt) == r.windowStart(now) {
		return count
	}
	return 0
}

// due solves the linear equation used = rate - need.
func (slidingWindow) due(r *Rule, s State, now int64, need float64) (at, interval int64) {
	w, room := r.windowsAt(s, now), r.Rate-need
	end := r.windowStart(w.start) + r.Period
	switch {
	case w.current > room:
		// This window alone is too full: it must become the previous one and fade.
		return end + nanoseconds((1-room/w.current)*float64(r.Period)), 1
	case w.previous == 0:
		return w.start, 1
	}
	return min(end, w.start+nanoseconds((1-(room-w.current)/w.previous)*float64(r.Period))), 1
}

func (slidingWindow) full(r *Rule, s State, now int64) bool {
	w := r.windowsAt(s, now)
	return w.current == 0 && w.previous == 0
}

func (slidingWindow) windowEnd(r *Rule, at int64) int64 {
	return addSaturating(r.windowStart(at), r.Period)
}

// accruesTo is false because the estimate is not the linear formula of [Upsert].
func (slidingWindow) accruesTo(*Rule, int64) (int64, float64, bool) { return 0, 0, false }
