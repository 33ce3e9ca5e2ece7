package meter

import (
	"fmt"
	"math"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
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

// precise is a rule of a precise window.
type precise struct{ *Rule }

// logged returns the instant as of which a take at the instant now is logged.
func (r precise) logged(now int64) int64 { return arith.Add(now, arith.Mod(-now, r.Grain())) }

// step executes a valid request on a log.
func (r precise) step(s runtime.State, now int64, q *runtime.Request) (runtime.State, runtime.Decision) {
	l := logOf(r.Rule, s)
	l.expire(now, r.Period)
	if q.Empty() {
		return s, r.balance(&l, now)
	}
	free := int64(r.Rate) - l.used
	switch q.Op {
	case runtime.Take, runtime.Check:
		switch {
		case q.Count > max(0, free):
			return s, r.deny(&l, now, q.Count-free)
		case q.Op == runtime.Take:
			return r.log(&l, s, now, q.Count)
		}
	case runtime.TakeUpTo:
		switch n := min(q.Count, free); {
		case n > 0:
			return r.log(&l, s, now, n)
		case q.Count > 0:
			return s, r.deny(&l, now, 1-free)
		}
	case runtime.Charge:
		return r.log(&l, s, now, q.Count)
	case runtime.Refund:
		before := l.used
		if l.refund(q.TakenAt, q.Count); l.used != before {
			s = l.state(s, s.TS)
		}
	case runtime.Reset:
		return runtime.State{}, r.balance(&takeLog{}, now)
	case runtime.Peek:
	default:
		panic(fmt.Sprintf("runtime: precise sliding windows do not handle %v: add a case to step in meter/precise.go", q.Op))
	}
	return s, r.balance(&l, now)
}

// balance returns an allowing decision with the tokens left.
func (r precise) balance(l *takeLog, now int64) runtime.Decision {
	left := int64(r.Rate) - l.used
	d := runtime.Decision{Allowed: true, Remaining: max(0, left), Value: float64(left)}
	if l.used > 0 {
		// No rate changes when the newest token expires.
		d.FullAfter = min(arith.Between(now, arith.Add(l.newest.at, r.Period)), arith.Between(now, max(now, r.lifted())))
	}
	return d
}

// lifted returns the instant at which overrides have ended and a policy follows that lets all requests pass, or the
// last instant.
func (p precise) lifted() int64 {
	for r := p.Rule; r.next != nil; r = r.next {
		if r.next.mode.Passes() {
			return r.ends
		}
	}
	return math.MaxInt64
}

// deny returns a denial. The request passes when as many tokens as it lacks no longer count.
func (r precise) deny(l *takeLog, now, lacking int64) runtime.Decision {
	d := r.balance(l, now)
	d.Allowed, d.RetryAfter = false, arith.Between(now, arith.Add(l.newest.at, r.Period))
	for of := range l.runs {
		if lacking -= of.tokens; lacking <= 0 {
			d.RetryAfter = arith.Between(now, arith.Add(of.at, r.Period))
			break
		}
	}
	return d
}

// log takes tokens. The log is in the order of time, also if the clock has gone back: such a take counts from the
// latest one.
func (r precise) log(l *takeLog, s runtime.State, now, count int64) (runtime.State, runtime.Decision) {
	ts := now
	if s.Exists {
		ts = max(now, s.TS)
	}
	at := r.logged(ts)
	if l.used > 0 {
		at = max(at, l.newest.at)
	}
	l.join(at, count)
	d := r.balance(l, now)
	d.Taken, d.TakenAt = count, arith.Time(at)
	return l.state(s, ts), d
}

// full reports whether no token of a row counts any longer.
func (r precise) full(s runtime.State, now int64) bool {
	l := logOf(r.Rule, s)
	return l.used == 0 || arith.Add(l.newest.at, r.Period) <= now
}
