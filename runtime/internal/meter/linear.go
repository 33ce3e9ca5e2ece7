package meter

import (
	"math"
	"math/bits"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// linear is a rule of a kind that is [runtime.Kind.Linear]. These kinds differ in T, the instant up to which tokens
// have accrued.
type linear struct{ *Rule }

// accrueTo returns s with the tokens that have accrued up to the instant t:
//
//	value = min(0, value + max(0, t-ts) * rate / period), ts = max(ts, t)
//
// Since ts never moves back, a clock that jumps back and forth does not grant the time between twice.
func (r linear) accrueTo(s runtime.State, t int64) runtime.State {
	switch {
	case !s.Exists:
		return runtime.State{TS: t, Exists: true}
	case t <= s.TS:
		return runtime.State{Value: r.round(min(0, s.Value)), TS: s.TS, Prev: keptTotal(s.Prev), Log: keptReturns(s), Exists: true}
	}
	return runtime.State{Value: r.round(min(0, s.Value+r.accrued(s.TS, t))), TS: t, Prev: keptTotal(s.Prev),
		Log: keptReturns(s), Exists: true}
}

// round rounds a value to the precision that numbers near the capacity have. Whole tokens can then be subtracted
// without another rounding, so that several requests leave the same bits one by one as together.
func (r linear) round(value float64) float64 {
	twice := 2 * r.Capacity
	return float64(value+twice) - twice
}

// tokens returns the tokens of an accrued state: the capacity, less the missing ones.
func (r linear) tokens(accrued runtime.State) float64 { return r.Capacity + accrued.Value }

// accrued returns rate * elapsed / period for the time between two instants, and for a calendar rate times its windows.
func (r linear) accrued(from, to int64) float64 {
	if r.calendar.exist() {
		return float64(float64(r.windows(from, to)) * r.Rate)
	}
	elapsed, period := uint64(to-from), uint64(r.Period)
	// Whole periods are counted as integers, so that n windows grant exactly n times the rate.
	whole := float64(elapsed/period) * r.Rate
	part := float64(elapsed%period) * r.Rate / float64(period)
	// The conversions keep the compiler from fusing multiply and add: SQL must calculate the same bits.
	return float64(whole) + float64(part)
}

// windows returns how many windows of the calendar begin after one start and up to another: the time between them,
// divided by the mean length of a window and rounded.
func (r linear) windows(from, to int64) int64 {
	if to <= from {
		return 0
	}
	elapsed, period := uint64(to-from), uint64(r.Period)
	return int64((elapsed + period/2) / period)
}

// timeFor returns how long a number of tokens takes to accrue, rounded up. For whole tokens it is exact.
func (r linear) timeFor(tokens float64) int64 {
	whole, part := math.Modf(tokens)
	// Written so that NaN, which a damaged row may yield, takes this branch too.
	if !(whole < math.MaxInt64) {
		return math.MaxInt64
	}
	// tokens * period needs 128 bits: both may be as large as 10^17.
	high, low := bits.Mul64(uint64(whole), uint64(r.Period))
	rate := uint64(r.Rate)
	if high >= rate {
		return math.MaxInt64
	}
	time, rest := bits.Div64(high, low, rate)
	if time > math.MaxInt64 {
		return math.MaxInt64
	}
	return arith.Add(int64(time), arith.Nanoseconds((float64(rest)+part*float64(r.Period))/r.Rate))
}

// allowance returns how many tokens a request may lack and still pass: a millionth of a token, but no more than what
// accrues in a microsecond. Without it, a request made exactly when its token is due could be refused because of a
// rounding in the sixteenth digit. Rows store the exact difference, so that allowances do not add up.
func allowance(rate float64, period int64) float64 {
	return min(1e-6, float64(1000*rate)/float64(period))
}

// takeFrom returns s, in which all tokens have accrued, after count of them were taken.
func (r linear) takeFrom(s runtime.State, now int64, count float64) runtime.State {
	s.Value -= count
	s.Prev = addTotal(s.Prev, r.totals.fresh(now), count)
	return s
}

// grantTo returns s, in which all tokens have accrued, after count were added that belong to no request.
func (r linear) grantTo(s runtime.State, now int64, count float64) runtime.State {
	return runtime.State{Value: min(0, s.Value+count), TS: s.TS, Prev: r.totals.void(s.Prev, now), Exists: true}
}

// refund is the refund of linear kinds.
//
// Let missing(t) be the tokens that the key lacks at the instant t. If n fewer tokens had been taken, it would lack
// min(n, m) fewer now, where m is the least missing(t) since then, because a full key loses the tokens that accrue. A
// row does not have its history. But m is at least the tokens missing now, less those taken since: this assumes that
// everything which accrued came before the takes. Tokens that were taken since and returned count as not taken, because
// the row is then as if they had not been: so m is at least n less what has accrued since. If nothing has, m is at least
// n, because other requests refund only their own tokens.
//
// The tokens are returned as of the last write and not as of now, so that what has accrued since then is counted once:
// a refund writes no accrual, and begins no window.
func (r linear) refund(s runtime.State, now int64, q runtime.Request) runtime.State {
	since, ok := r.takenSince(s, now, &q)
	if !ok {
		return s
	}
	given := returnsOf(s)
	n := r.returnable(s, &q, max(0, since-given.after(q.Total)))
	if !(n > 0) {
		return s
	}
	s.Value = min(0, s.Value+n)
	switch {
	case since == 0 && !q.Leased:
		// No request has come after this one, so that it can be taken off the total.
		s.Prev += float64(math.Floor(n) * totalUnit)
	case s.Value == 0:
		s.Log = "" // no request before this instant has anything left to return
	case q.Total != 0:
		s.Log = given.with(q.Total, n).log()
	}
	return s
}

// takenSince returns how many tokens were taken after the request that q refunds, also if they were returned; infinity if
// that is unknown. It returns false if the row may have been reset since, or deleted and made again.
//
// The row lacks some of the tokens taken since, others were returned, and the rest has accrued. If more were taken than it
// lacks and were returned together, there is nothing to return. Shards count more than were taken, and so have room.
func (r linear) takenSince(s runtime.State, now int64, q *runtime.Request) (since float64, ok bool) {
	total := totalOf(s)
	if q.Total == 0 {
		return math.Inf(1), total != 0 && total < resetTotal && now-q.TakenAt < int64(sweepAfter)
	}
	since = total - q.Total
	return since, total != 0 && since >= 0 && since < max(1<<24, returnsOf(s).after(0)-s.Value)
}

// returnable returns how many of the tokens that q refunds the row can get back, given how many were taken since and not
// returned.
func (r linear) returnable(s runtime.State, q *runtime.Request, since float64) float64 {
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
