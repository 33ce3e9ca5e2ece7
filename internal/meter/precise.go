package meter

import (
	"math"

	"github.com/ratelimitgen/ratelimitgen/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// A precise sliding window keeps a log of the tokens taken in the last period. Tokens that were taken at one instant
// are a run. A run at t counts until t + period, and no longer at that instant: so any half-open interval of a period,
// [x, x+period), has at most Rate tokens, and at full throughput exactly that many.
//
// Up to [runtime.MaxPreciseRate], a run is at the instant of its take. For a larger rate, takes within a thousandth of
// the period are one run, at the end of that thousandth: a log stays small, no interval gets more, and a token comes
// back at most a thousandth of a period late. As the instant of a run does not depend on the rate, a log can be read by
// another plan, or after an edit.

// Grain returns the interval within which takes of a precise window are one run: a nanosecond if the window is exact.
func (r *Rule) Grain() int64 {
	if r.Rate <= runtime.MaxPreciseRate {
		return 1
	}
	return (r.Period + runtime.MaxPreciseRate - 1) / runtime.MaxPreciseRate
}

// precise is the algorithm of a [runtime.SlidingWindow] that is Precise.
type precise struct{ *Rule }

// logAt returns the log of a row without the tokens that no longer count at the instant now. A row that has no log, as
// one of another kind or of a version that kept it in further rows, or that is damaged, counts all of its tokens as late
// as they can have been taken.
func (r precise) logAt(s runtime.State, now int64) (l takeLog) {
	switch {
	case !s.Exists:
		return l
	case s.Prev > -1:
		// The tokens of a sliding window may have been taken until the end of their window.
		l.join(s.TS, atLeast(s.Prev))
		l.join(arith.Add(s.TS, r.Period-1), atLeast(-s.Value))
	case !l.decode(s):
		l = takeLog{}
		l.join(s.TS, atLeast(-s.Value))
	}
	l.expire(now, r.Period)
	return l
}

func (r precise) available(s runtime.State, now int64) (tokens, allowance float64) {
	return r.Rate - float64(r.logAt(s, now).used), 0
}

// accrue is not reached, because such a limit has one row a key.
func (precise) accrue(s runtime.State, _ int64) runtime.State { return s }

// take logs tokens. The log is in the order of time, also if the clock has gone back: such a take counts from the
// latest one.
func (r precise) take(s runtime.State, now int64, count float64) runtime.State {
	ts := now
	if s.Exists {
		ts = max(now, s.TS)
	}
	l, at := r.logAt(s, now), arith.Add(ts, arith.Mod(-ts, r.Grain()))
	if l.used > 0 {
		at = max(at, l.newest.at)
	}
	l.join(at, int64(count))
	return l.state(s, ts)
}

func (r precise) grant(s runtime.State, now int64, count float64) runtime.State {
	return r.without(s, now, 0, int64(count))
}

func (r precise) refund(s runtime.State, now int64, q runtime.Request) runtime.State {
	return r.without(s, now, q.TakenAt, q.Count)
}

// without returns s without up to count tokens that were taken at an instant: see takeLog.refund.
func (r precise) without(s runtime.State, now, takenAt, count int64) runtime.State {
	l := r.logAt(s, now)
	before := l.used
	if l.refund(takenAt, count); l.used == before {
		return s
	}
	return l.state(s, s.TS)
}

func (precise) reset(runtime.State, int64) runtime.State { return runtime.State{} }

// due is when as many tokens as are lacking no longer count.
func (r precise) due(s runtime.State, now int64, need float64) (at, interval int64) {
	l := r.logAt(s, now)
	lacking := l.used - int64(r.Rate-need)
	if lacking < l.used {
		for of := range l.runs {
			if lacking -= of.tokens; lacking <= 0 {
				return arith.Add(of.at, r.Period), 0
			}
		}
	}
	return arith.Add(l.newest.at, r.Period), 0
}

func (r precise) full(s runtime.State, now int64) bool { return r.logAt(s, now).used == 0 }

func (precise) windowEnd(int64) int64 { return math.MaxInt64 }

func (precise) accruesTo(int64) (int64, float64, bool) { return 0, 0, false }

// lastTaken returns the instant of the tokens that were taken last.
func lastTaken(s runtime.State) int64 {
	var l takeLog
	l.decode(s)
	return l.newest.at
}
