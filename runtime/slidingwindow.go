package runtime

import "fmt"

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
