package runtime

// sliding is the state of a sliding window as of some instant: two neighbouring windows, and the tokens
// used in each.
type sliding struct {
	start             int64
	current, previous float64
}

// slide returns s as of the instant now. If the clock has gone back, the window stays where it was.
func (r *Rule) slide(s State, now int64) sliding {
	w := r.windowStart(now)
	used := max(0, r.Rate-s.Value)
	switch {
	case !s.Exists:
		return sliding{start: w}
	case s.TS >= w:
		return sliding{start: s.TS, current: used, previous: max(0, s.Prev)}
	case s.TS >= w-r.Period:
		return sliding{start: w, previous: used}
	}
	return sliding{start: w}
}

// used returns the tokens used in the period that ends at now, as the two-window approximation has it:
//
//	used = previous * (1 - elapsed/period) + current
func (w sliding) used(now, period int64) float64 {
	elapsed := float64(max(0, now-w.start))
	weight := max(0, 1-float64(elapsed/float64(period)))
	return float64(w.previous*weight) + w.current
}

// free returns the first instant, as far as it can be calculated, at which the use has sunk to room: in
// this window if the previous one outweighs it, and otherwise in the next.
func (w sliding) free(room float64, end, period int64) int64 {
	if w.current > room {
		return end + nanoseconds((1-room/w.current)*float64(period))
	}
	if w.previous == 0 {
		return w.start
	}
	return min(end, w.start+nanoseconds((1-(room-w.current)/w.previous)*float64(period)))
}

// give returns w with count tokens less of use: of this window's as far as it goes, then of the one before.
func (w sliding) give(count float64) sliding {
	now := min(count, w.current)
	w.current -= now
	w.previous = max(0, w.previous-(count-now))
	return w
}

// state returns w as it is stored.
func (w sliding) state(rate float64) State {
	return State{Value: rate - w.current, TS: w.start, Prev: w.previous, Exists: true}
}
