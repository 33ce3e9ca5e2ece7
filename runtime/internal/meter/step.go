package meter

import (
	"fmt"
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// Step is the whole limiter: it executes a request on a row in state s at the instant now, in nanoseconds since 1970
// UTC, and returns the state after it. With T = now for a token bucket, and the start of the current window for a fixed
// window, the tokens available are
//
//	value     = min(0, value + max(0, T-ts) * rate / period)
//	available = capacity + value
//
// A request for count tokens is allowed if available - count >= -debt - allowance, where debt is 0 for a plain request
// and the rule's Debt for a reserving one, and allowance is a millionth of a token but no more than rate * 1µs /
// period. A sliding window also rounds to the precision of numbers near its rate: one of 10,000,000 a day may allow a
// request up to 80 microseconds early, and with shards 4. Then count is subtracted from value, and ts = max(ts, T). The
// formula is that of https://stack.convex.dev/rate-limiting, with value less the capacity: what was used is stored, so that
// it stays used if the capacity changes. At the end of a fixed window, value is first raised to at least -(capacity + rule's
// Debt): a smaller one, as after an edit to a smaller capacity, does not reach into the next window. For a sliding window,
// available is the rate less the estimated use of the last period:
//
//	available = rate - (previous * (1 - elapsed/period) + current)
//
// A precise sliding window subtracts the tokens in its log, each of which is available again a period after it was
// taken.
//
// For [runtime.InFlight], available is the capacity less the slots that are held, by each holder until its hold
// ends.
//
// A request for 0 tokens is allowed, even if the key is in debt. It returns s unchanged, as do a Check, a Peek, and a
// denied request unless it starts a penalty. While a [runtime.Penalty] is in force, every Take, TakeUpTo and Check is
// denied. An error returns s unchanged too. It is [runtime.ErrInvalidCount] for a negative count,
// [runtime.ErrExceedsCapacity], [runtime.ErrInvalidPolicy] for an unknown Kind, [runtime.ErrInvalidCall] for an unknown
// Op or one that the kind does not have, or [runtime.ErrSlotLost].
func (r *Rule) Step(s runtime.State, now int64, q runtime.Request) (runtime.State, runtime.Decision, error) {
	if err := r.Refuse(&q); err != nil {
		return s, runtime.Decision{}, err
	}
	if r.penalty != nil || s.Log != "" || q.PenaltyOnly {
		return r.stepPenalty(s, now, &q)
	}
	return r.stepKind(s, now, q)
}

// stepPenalty is [Rule.Step] for a rule or a row with a penalty. A rule without one keeps that of the row, which other
// plans may have left.
func (r *Rule) stepPenalty(s runtime.State, now int64, q *runtime.Request) (runtime.State, runtime.Decision, error) {
	had, bare := cutPenalty(s)
	if q.Op == runtime.Reset && q.PenaltyOnly {
		_, d, err := r.stepKind(bare, now, runtime.Request{Op: runtime.Peek})
		return bare, d, err
	}
	if r.penalty == nil {
		next, d, err := r.stepKind(bare, now, *q)
		if q.Op == runtime.Reset {
			return next, d, err
		}
		return had.on(next), d, err
	}
	if now < had.until && q.Decides() && !q.Empty() {
		_, d, err := r.stepKind(bare, now, q.AsCheck())
		d.Allowed = false
		had.inForce(&d, now)
		return s, d, err
	}
	next, d, err := r.stepKind(bare, now, *q)
	switch {
	case err != nil:
		return s, d, err
	case q.Op == runtime.Reset:
		return next, d, nil
	case !d.Allowed && q.Takes() && !q.Retry:
		had = had.next(r.penalty, now)
	case d.Taken > 0 && had.forgiven(r.penalty, now):
		had = penalty{}
	}
	if now < had.until {
		had.inForce(&d, now)
	}
	return had.on(next), d, nil
}

// stepKind executes a valid request by the algorithm of the kind.
func (r *Rule) stepKind(s runtime.State, now int64, q runtime.Request) (runtime.State, runtime.Decision, error) {
	if q.Empty() {
		return s, r.balance(s, now), nil
	}
	switch q.Op {
	case runtime.TakeUpTo:
		q = runtime.Request{Op: runtime.Take, Count: r.takeable(s, now, q.Count)}
		fallthrough
	case runtime.Take, runtime.Check:
		s, d := r.decide(s, now, &q)
		return s, d, nil
	case runtime.Peek:
	case runtime.Refund:
		s = r.refund(s, now, q)
	case runtime.Charge:
		s = r.take(s, now, &q)
		d := r.balance(s, now)
		r.took(&d, s, now, q.Count)
		return s, d, nil
	case runtime.Renew, runtime.Release:
		next, err := inFlight{r}.renewOrRelease(s, now, &q)
		if err != nil {
			return s, runtime.Decision{}, err
		}
		d := r.balance(next, now)
		if q.Op == runtime.Renew {
			d.Fence, d.TakenAt = q.Fence, arith.Time(now)
		}
		return next, d, nil
	case runtime.Reset:
		switch {
		case r.countsNothing():
			s = runtime.State{} // the windows of the other plans are not known
		case s.Exists:
			s = r.algorithm().reset(s, now)
		}
	default:
		panic(fmt.Sprintf("runtime: Rule.stepKind does not handle %v: add a case in meter/step.go", q.Op))
	}
	return s, r.balance(s, now), nil
}

// FitsLater reports whether an override ends after which the key can have as many tokens as the request needs.
func FitsLater(q *runtime.Request) bool {
	for p, _ := q.Policy.Inside().Next(); p != nil; p, _ = p.Inside().Next() {
		rule := RuleOf(p, q.Key)
		if p.Mode == runtime.ModeShadow || p.Mode.Passes() || rule.Refuse(q) == nil {
			return true
		}
	}
	return false
}

// Refuse returns an error for a request that can never pass.
func (r *Rule) Refuse(q *runtime.Request) error {
	switch {
	case !q.Op.Known():
		return fmt.Errorf("%w: unknown operation %v", runtime.ErrInvalidCall, q.Op)
	case !r.Kind.Known():
		return fmt.Errorf("%w: unknown kind %v", runtime.ErrInvalidPolicy, r.Kind)
	}
	if err := refuseSlots(r.Kind, q); err != nil {
		return err
	}
	switch {
	case !q.Counts():
		return nil
	case q.Count < 0:
		return fmt.Errorf("%w: %d is less than 0", runtime.ErrInvalidCount, q.Count)
	}
	switch most := r.most(q); {
	case float64(q.Count) <= most:
		return nil
	case q.Reserve:
		return fmt.Errorf("%w: %d is more than %.0f, the most that can be reserved", runtime.ErrExceedsCapacity, q.Count, most)
	case q.Decides():
		return fmt.Errorf("%w: %d is more than the capacity, %.0f", runtime.ErrExceedsCapacity, q.Count, most)
	default:
		return fmt.Errorf("%w: %d is more than %.0f, the most that can be refunded or charged",
			runtime.ErrExceedsCapacity, q.Count, most)
	}
}

// most returns the largest count that a request can have.
func (r *Rule) most(q *runtime.Request) float64 {
	switch {
	case !q.Decides():
		return 2 * runtime.MaxTokens // so that the largest reservation can be cancelled
	case q.Op.UpTo() && r.Capacity > 0:
		return 2 * runtime.MaxTokens // more than the capacity, because the count is only a bound
	case q.Op.UpTo():
		return 0
	case q.Reserve && r.left == 0:
		return r.Capacity + min(r.Debt, runtime.Unbounded)
	}
	return r.Capacity
}

// decide returns the decision on a Take or Check, and the state after a Take.
func (r *Rule) decide(s runtime.State, now int64, q *runtime.Request) (runtime.State, runtime.Decision) {
	need := r.need(q)
	enough := r.enough(s, now, need)
	next, delay, retryAfter := s, time.Duration(0), time.Duration(0)
	// A reservation that is denied has a delay too: that of the debt after it.
	if q.Reserve || enough && q.Op == runtime.Take {
		next = r.take(s, now, q)
		delay = r.delay(next, now, q, enough)
	}
	switch {
	case q.Late(delay) && float64(q.Count) > r.Capacity:
		// More tokens than the capacity never accrue: every retry has a delay, and this is when the tokens of this request
		// are due.
		retryAfter = delay
	case q.Late(delay):
		retryAfter = arith.Between(now, r.when(s, now, float64(q.Count)))
	case !enough:
		retryAfter = arith.Between(now, r.when(s, now, need))
	}
	if retryAfter > 0 || q.Op == runtime.Check {
		next = s
	}
	d := r.balance(next, now)
	d.Allowed, d.RetryAfter, d.UsableAfter = retryAfter == 0, retryAfter, delay
	if d.Allowed && q.Op == runtime.Take {
		r.took(&d, next, now, q.Count)
	}
	return next, d
}

// take returns s after the tokens or slots of a request were taken, whether it had them or not.
func (r *Rule) take(s runtime.State, now int64, q *runtime.Request) runtime.State {
	if r.Kind == runtime.InFlight {
		return inFlight{r}.acquire(s, now, q)
	}
	return r.algorithm().take(s, now, float64(q.Count))
}

// took sets how many tokens an allowed request has taken, the threshold that it has crossed, and what a Refund of them
// needs. The row is in state s after it, and d has the tokens left.
func (r *Rule) took(d *runtime.Decision, s runtime.State, now, count int64) {
	// If the clock has gone back, the tokens are taken as of the row's instant.
	d.Taken, d.TakenAt, d.Receipt.Total = count, arith.Time(max(now, s.TS)), totalOf(s)
	if r.warn != nil {
		d.Crossed = r.crossed(d.Value+float64(count), d.Value)
	}
	switch {
	case r.Kind == runtime.InFlight:
		d.Fence, d.TakenAt = lastFence(s), arith.Time(now)
	case r.Precise:
		d.TakenAt = arith.Time(lastTaken(s))
	}
}

// delay returns how long after now the tokens of a reservation are due, with s the state after it.
func (r *Rule) delay(s runtime.State, now int64, q *runtime.Request, enough bool) time.Duration {
	switch {
	case !q.Reserve:
		return 0
	case enough:
		return arith.Between(now, r.first(s, now, noDebt))
	}
	// This debt is larger than any that a window can end with, but its delay must not be that of a smaller one.
	unbounded := *r
	unbounded.Debt = endless
	return arith.Between(now, unbounded.first(s, now, noDebt))
}

// takeable returns the count that a TakeUpTo of count tokens takes. It is 1 if no token is available: that count is
// denied.
func (r *Rule) takeable(s runtime.State, now int64, count int64) int64 {
	tokens, allowance := r.algorithm().available(s, now)
	n := max(1, min(count, arith.Whole(tokens, allowance)))
	// The sum in Whole may round up to a whole number that the comparison in enough does not reach.
	if n > 1 && !r.enough(s, now, float64(n)) {
		n--
	}
	return n
}

// need returns the tokens that must be available for a request that decides to pass.
func (r *Rule) need(q *runtime.Request) float64 {
	return float64(q.Least()) - r.debt(q)
}

// debt returns how many of the tokens of a request may be missing: none for a class of requests that leaves some to others.
func (r *Rule) debt(q *runtime.Request) float64 {
	if q.Reserve && !q.Op.UpTo() && r.left == 0 {
		return r.Debt
	}
	return 0
}

// refund returns s after a Refund. A new key is full already.
func (r *Rule) refund(s runtime.State, now int64, q runtime.Request) runtime.State {
	switch {
	case !s.Exists:
		return s
	case q.TakenAt == 0:
		return r.algorithm().grant(s, now, float64(q.Count))
	}
	return r.algorithm().refund(s, now, q)
}

// balance returns an allowing decision with the tokens left in s.
func (r *Rule) balance(s runtime.State, now int64) runtime.Decision {
	tokens, allowance := r.algorithm().available(s, now)
	d := runtime.Decision{Allowed: true, Remaining: arith.Whole(tokens, allowance), Value: tokens}
	if r.Kind.Windowed() {
		d.ResetAfter = r.resetAfter(s, now)
	}
	// Not until: it would calculate the tokens once more, for every decision.
	if !(tokens-r.Capacity >= -allowance) && !r.countsNothing() {
		d.FullAfter = arith.Between(now, r.earlier(s, now, r.search(s, now, r.Capacity), whole))
	}
	return d
}

// resetAfter returns how long after now the current window ends, or 0 if there is none or it does not end.
func (r *Rule) resetAfter(s runtime.State, now int64) time.Duration {
	at := now
	if s.Exists {
		// If the clock has gone back, the later window stays the current one.
		at = max(now, s.TS)
	}
	end := r.WindowEnd(at)
	switch {
	case r.FirstUse && s.Exists:
		end = arith.Add(s.TS, r.Period)
	case end == math.MaxInt64:
		return 0
	}
	return max(0, time.Duration(end-now))
}

// Upsert is a Take on one row in a form that a single SQL statement can decide, for kinds that are
// [runtime.Kind.Linear]. With
//
//	elapsed = max(0, T-ts)
//	accrued = (elapsed DIV Period) * Rate + (elapsed MOD Period) * Rate / Period
//	filled  = (min(0, value + accrued) + 2*Capacity) - 2*Capacity
//
// which rounds to the precision of numbers near the capacity, the row is written if value >= Lowest and Capacity +
// filled - (Count - Debt) + Allowance >= 0, as value = filled - Count, ts = max(ts, T), and prev = prev - Count *
// TotalUnit, or as if inserted if prev is not between -1 and 0. A row that does not exist is inserted with value =
// -Count, ts = T, and prev = Fresh - Count * TotalUnit. DIV and MOD are integer operations. The other operations must
// be on doubles and in this order. Then the statement stores the same bits as [Rule.Step]. It may leave a row unchanged
// from which Step takes: one below Lowest.
type Upsert struct {
	// T is the instant up to which tokens have accrued, in nanoseconds since 1970 UTC.
	T int64
	// Capacity and Rate are in tokens.
	Capacity, Rate float64
	// Period is in nanoseconds.
	Period int64
	// Allowance is how many tokens a request may lack.
	Allowance float64
	// Count is how many tokens are taken. Debt of them need not be available; it is 0 unless reserving.
	Count, Debt float64
	// Lowest is the value below which a window cannot end: see [Rule.Step].
	Lowest float64
	// Fresh is the prev of a new row before the take: see [runtime.State].
	Fresh float64
}

// TotalUnit is what the prev of a row changes by with each token taken: see [Upsert].
const TotalUnit = totalUnit

// OutOfDebt makes the statement take nothing if the row had a debt when it was written: the row is a shard, and the others
// of its key then have one too.
func (u *Upsert) OutOfDebt() { u.Lowest = max(u.Lowest, -u.Capacity) }

// Inserted returns the state of a row that the statement has inserted.
func (u *Upsert) Inserted() runtime.State {
	return runtime.State{Value: -u.Count, TS: u.T, Prev: addTotal(0, u.Fresh, u.Count), Exists: true}
}

// Upsert returns the Take q at the instant now as an Upsert. It returns false for requests without such a form: other
// operations, limits with a penalty, sliding windows, windows that start at first use, a bound on the delay, a count of
// 0, which must not write a row, and an invalid count.
func (r *Rule) Upsert(now int64, q runtime.Request) (Upsert, bool) {
	if q.Op != runtime.Take || q.MaxDelay > 0 || q.Empty() || r.penalty != nil || r.Refuse(&q) != nil {
		return Upsert{}, false
	}
	t, lowest, ok := r.algorithm().accruesTo(now)
	if !ok {
		return Upsert{}, false
	}
	return Upsert{
		T:         t,
		Capacity:  r.Capacity,
		Rate:      r.Rate,
		Period:    r.Period,
		Allowance: allowance(r.Rate, r.Period),
		Count:     float64(q.Count),
		Debt:      r.debt(&q),
		Lowest:    lowest,
		Fresh:     r.totals.fresh(now),
	}, true
}

// Taken returns the decision on a Take q at the instant now that was allowed and left its row in state s.
func (r *Rule) Taken(s runtime.State, now int64, q runtime.Request) runtime.Decision {
	d := r.balance(s, now)
	r.took(&d, s, now, q.Count)
	if q.Reserve {
		d.UsableAfter = arith.Between(now, r.first(s, now, noDebt))
	}
	return d
}
