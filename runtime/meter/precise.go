package meter

import (
	"fmt"
	"math"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// A precise sliding window keeps a log of the tokens taken in the last period. Tokens that were taken at one instant are
// a run. A run that was taken at t counts until t + period, and no longer at that instant: so any half-open interval of a
// period, [x, x+period), has at most Rate tokens, and at full throughput exactly that many.
//
// Row 0 of a key is the head. It has the newest run, the tokens of all runs together, and the place of the older runs,
// which are the rows 1 to Rate-1, used as a ring. Every change of the log changes the head, so that a lock
// of the head locks the log. A take reads the head and the runs that have expired since the last one, and writes the
// head and one more row. A key has at most Rate rows.
//
// Each run has at least one token, so that there are more runs than rows only if tokens were charged beyond the rate. Then
// the two oldest runs become one, at the instant of the later one. That changes no decision: the newer runs alone use up
// the rate for as long as this one counts.

// StepSlots executes a valid request on a log, and returns its head after it. If it returns false, nothing has changed, and
// it must be called again with the rows that it has requested. Without slots, all tokens count as taken at the head's TS.
func (r *Rule) StepSlots(head runtime.State, slots Slots, now int64, q *runtime.Request) (next runtime.State, d runtime.Decision, ok bool) {
	l := takeLog{period: r.Period, rate: int64(r.Rate), slots: slots}
	if ok = l.open(r, head, false); ok {
		next, d, ok = l.step(head, now, q)
	}
	if l.torn {
		// The number of tokens in a row that is missing is unknown, so that all of them are counted again.
		l = takeLog{period: r.Period, rate: int64(r.Rate), slots: slots}
		if ok = l.open(r, head, true); ok {
			next, d, ok = l.step(head, now, q)
		}
	}
	if !ok {
		return head, runtime.Decision{}, false
	}
	if next != head {
		l.save(next)
	}
	// No rate changes when the newest token expires.
	d.FullAfter = min(d.FullAfter, arith.Between(now, max(now, r.lifted())))
	return next, d, true
}

// step executes a request, and returns the head after it. It changes no slots before save.
func (l *takeLog) step(head runtime.State, now int64, q *runtime.Request) (runtime.State, runtime.Decision, bool) {
	if !l.expire(now) {
		return head, runtime.Decision{}, false
	}
	switch q.Op {
	case runtime.Take, runtime.Check:
		switch {
		case q.Count > max(0, l.rate-l.used):
			return l.deny(head, now, q.Count)
		case q.Op == runtime.Take && q.Count > 0:
			return l.take(now, q.Count)
		}
	case runtime.TakeUpTo:
		switch n := min(q.Count, l.rate-l.used); {
		case n > 0:
			return l.take(now, n)
		case q.Count > 0:
			return l.deny(head, now, 1)
		}
	case runtime.Charge:
		if q.Count > 0 { // every run has a token
			return l.take(now, q.Count)
		}
	case runtime.Refund:
		return l.refund(head, now, q)
	case runtime.Reset:
		l.start, l.length, l.used, l.newest.tokens = 0, 0, 0, 0
		return runtime.State{}, l.balance(now), true
	case runtime.Peek:
	default:
		panic(fmt.Sprintf("runtime: precise sliding windows do not handle %v: add a case to step in precise.go", q.Op))
	}
	return head, l.balance(now), true
}

// balance returns an allowing decision with the tokens left.
func (l *takeLog) balance(now int64) runtime.Decision {
	left := l.rate - l.used
	d := runtime.Decision{Allowed: true, Remaining: max(0, left), Value: float64(left)}
	if l.used > 0 {
		d.FullAfter = arith.Between(now, l.end(l.newest))
	}
	return d
}

// end returns the first instant at which a run no longer counts.
func (l *takeLog) end(r run) int64 { return arith.Add(r.at, l.period) }

// expire drops the runs that no longer count.
func (l *takeLog) expire(now int64) bool {
	if l.end(l.newest) <= now {
		l.start, l.length, l.used, l.newest.tokens = 0, 0, 0, 0
		return true
	}
	for l.length > 0 {
		oldest, ok := l.run(0)
		if !ok {
			return false
		}
		if l.end(oldest) > now {
			return true
		}
		l.drop(oldest)
	}
	return true
}

// deny returns a denial. The request passes when as many tokens as it lacks no longer count.
func (l *takeLog) deny(head runtime.State, now, count int64) (runtime.State, runtime.Decision, bool) {
	d := l.balance(now)
	d.Allowed = false
	lacking := count - (l.rate - l.used)
	for i := range l.length {
		r, ok := l.run(i)
		if !ok {
			return head, runtime.Decision{}, false
		}
		if lacking -= r.tokens; lacking <= 0 {
			d.RetryAfter = arith.Between(now, l.end(r))
			return head, d, true
		}
	}
	d.RetryAfter = d.FullAfter
	return head, d, true
}

// take adds a run.
func (l *takeLog) take(now, count int64) (runtime.State, runtime.Decision, bool) {
	// The log is in the order of time, also if the clock has gone back: such a take counts from the latest one.
	at := max(now, l.newest.at)
	if l.used == 0 || l.newest.at == at || l.size == 0 {
		l.join(at, count)
	} else if !l.push(run{at, min(count, maxRun)}) {
		return runtime.State{}, runtime.Decision{}, false
	}
	d := l.balance(now)
	d.Taken, d.TakenAt = count, arith.Time(at)
	return l.head(), d, true
}

// push makes a run the newest one.
func (l *takeLog) push(newest run) bool {
	if l.length == l.size && !l.merge() {
		return false
	}
	l.put(l.length, l.newest)
	l.length++
	l.newest = newest
	l.used += newest.tokens
	return true
}

// refund removes tokens that were taken at an instant. Removing the ones of another take instead would give them back at
// another time than as if fewer had been taken.
func (l *takeLog) refund(head runtime.State, now int64, q *runtime.Request) (runtime.State, runtime.Decision, bool) {
	until := int64(math.MaxInt64)
	if q.TakenAt != 0 {
		until = q.TakenAt
	}
	before, rest := l.used, q.Count
	if l.end(run{at: until}) <= now {
		return head, l.balance(now), true
	}
	if l.newest.at > until && l.length > 0 && !l.load() {
		return head, runtime.Decision{}, false
	}
	for i := l.length - 1; i >= 0 && l.newest.at > until && rest > 0; i-- {
		if r := &l.older[l.start+i]; r.at == until {
			rest -= l.remove(r, rest)
		}
	}
	for (l.newest.at == until || q.TakenAt == 0) && rest > 0 && l.used > 0 {
		rest -= l.remove(&l.newest, rest)
		if l.newest.tokens == 0 && l.length > 0 {
			last, ok := l.last()
			if !ok {
				return head, runtime.Decision{}, false
			}
			l.newest = last
			l.length--
		}
	}
	if l.used == before {
		return head, l.balance(now), true
	}
	return l.head(), l.balance(now), true
}

// remove takes tokens out of a run, as far as it has them, and returns how many.
func (l *takeLog) remove(r *run, tokens int64) int64 {
	tokens = min(tokens, r.tokens)
	r.tokens -= tokens
	l.used -= tokens
	return tokens
}

// fullLog reports whether no token of a head counts any longer.
func (r *Rule) fullLog(head runtime.State, now int64) bool {
	l := takeLog{period: r.Period, rate: int64(r.Rate)}
	if l.decode(head); head.Exists && head.Prev > -1 {
		l.adopt(r, head)
	}
	return l.used == 0 || l.end(l.newest) <= now
}
