package meter

import (
	"math"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// A total starts at a number below resetTotal that is derived from the instant, so that a row that was deleted and made
// again is not mistaken for the old one. A Reset continues it at such a number above resetTotal.
const (
	resetTotal = 1 << 51
	maxTotal   = 1 << 53
)

// newTotal returns the Prev of a new row, from which nothing was taken yet.
func (r *Rule) newTotal(now int64) float64 {
	return -totalUnit * float64(arith.Mix(uint64(now))>>(14+r.spare)|1)
}

// voidTotal returns the Prev after which no earlier request can be refunded.
func (r *Rule) voidTotal(prev float64, now int64) float64 {
	start := arith.Mix(math.Float64bits(prev)^arith.Mix(uint64(now))) >> (14 + r.spare)
	return -totalUnit * float64(resetTotal>>r.spare+start)
}

// addTotal returns a Prev after count tokens were taken, given that of a new row.
func addTotal(prev, fresh, count float64) float64 {
	if !hasTotal(prev) {
		prev = fresh
	}
	return prev - float64(count*totalUnit)
}

// totalOf returns the total of a row, or 0 if that is unknown or too large to be exact.
func totalOf(s runtime.State) float64 {
	if total := -s.Prev / totalUnit; s.Exists && hasTotal(s.Prev) && total < maxTotal {
		return total
	}
	return 0
}

// takeFrom returns s, in which all tokens have accrued, after count of them were taken.
func (r *Rule) takeFrom(s runtime.State, now int64, count float64) runtime.State {
	s.Value -= count
	s.Prev = addTotal(s.Prev, r.newTotal(now), count)
	return s
}

// Before returns the state of a row of a linear kind before the last count tokens were taken from it.
func Before(s runtime.State, count int64) runtime.State {
	s.Value += float64(count)
	if hasTotal(s.Prev) {
		s.Prev += float64(count) * totalUnit
	}
	return s
}

// grantTo returns s, in which all tokens have accrued, after count were added that belong to no request.
func (r *Rule) grantTo(s runtime.State, now int64, count float64) runtime.State {
	return runtime.State{Value: min(0, s.Value+count), TS: s.TS, Prev: r.voidTotal(s.Prev, now), Exists: true}
}

// took sets how many tokens an allowed request has taken, and what a Refund of them needs. The row is in state s after it.
func took(d *runtime.Decision, s runtime.State, now, count int64) {
	// If the clock has gone back, the tokens are taken as of the row's instant.
	d.Taken, d.TakenAt, d.Receipt.Total = count, arith.Time(max(now, s.TS)), totalOf(s)
}

// refundLinear is the refund of linear kinds.
//
// Let missing(t) be the tokens that the key lacks at the instant t. If n fewer tokens had been taken, it would lack
// min(n, m) fewer now, where m is the least missing(t) since then, because a full key loses the tokens that accrue. A row
// does not have its history. But m is at least what is missing now, less the tokens taken since: that assumes that
// everything which accrued or was refunded came before the takes. And if nothing has accrued since, m is at least n,
// because other requests refund only their own tokens.
//
// The tokens are returned as of the last write and not as of now, so that what has accrued since then is counted once: a
// refund writes no accrual, and begins no window.
func (r *Rule) refundLinear(s runtime.State, now int64, q runtime.Request) runtime.State {
	since, ok := r.takenSince(s, now, &q)
	if !ok {
		return s
	}
	n := r.returnable(s, &q, since)
	if !(n > 0) {
		return s
	}
	s.Value = min(0, s.Value+n)
	if since == 0 && !q.Leased {
		// No request has come after this one, so that earlier ones lose nothing by this refund.
		s.Prev += float64(math.Floor(n) * totalUnit)
	}
	return s
}

// takenSince returns how many tokens were taken after the request that q refunds; infinity if that is unknown. It returns
// false if the row may have been reset since, or deleted and made again.
func (r *Rule) takenSince(s runtime.State, now int64, q *runtime.Request) (since float64, ok bool) {
	total := totalOf(s)
	if q.Total == 0 {
		return math.Inf(1), total != 0 && total < resetTotal && now-q.TakenAt < int64(sweepAfter)
	}
	since = total - q.Total
	return since, total != 0 && since >= 0 && since < max(1<<24, r.Capacity)
}

// returnable returns how many of the tokens that q refunds the row can get back.
func (r *Rule) returnable(s runtime.State, q *runtime.Request, since float64) float64 {
	n, missing := float64(q.Count), -s.Value
	most := missing - since
	switch {
	case s.TS <= q.TakenAt:
		most = n
	case q.Leased && r.Kind == runtime.TokenBucket:
		most = max(most, n-r.accrued(q.TakenAt, s.TS))
	}
	return min(n, most, missing)
}
