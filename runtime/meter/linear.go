package meter

import (
	"math"
	"math/bits"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// A row of a linear kind counts the tokens ever taken from it: its Prev is minus this total, times totalUnit. The tokens
// that are missing, less those taken since a request, are what would be missing if no request had come after it: so two
// totals bound how many tokens of the request can still be returned. See refundLinear.
//
// The unit keeps Prev between -1 and 0, where the other kinds ignore it when the kind of a limit is edited: the use of a
// previous window is positive, and the place of a log is at most -1. As a power of two it makes all sums exact.
const totalUnit = 0x1p-100

// hasTotal reports whether a Prev is a total.
func hasTotal(prev float64) bool { return prev > -1 && prev < 0 }

// keptTotal returns a Prev that is a total, and 0 for that of another kind.
func keptTotal(prev float64) float64 {
	if hasTotal(prev) {
		return prev
	}
	return 0
}

// The linear formula, shared by the kinds that are [runtime.Kind.Linear]. They differ in T, the instant up to which tokens have
// accrued.

// accrueTo returns s with the tokens that have accrued up to the instant t:
//
//	value = min(0, value + max(0, t-ts) * rate / period), ts = max(ts, t)
//
// Since ts never moves back, a clock that jumps back and forth does not grant the time between twice.
func (r *Rule) accrueTo(s runtime.State, t int64) runtime.State {
	switch {
	case !s.Exists:
		return runtime.State{TS: t, Exists: true}
	case t <= s.TS:
		return runtime.State{Value: r.round(min(0, s.Value)), TS: s.TS, Prev: keptTotal(s.Prev), Exists: true}
	}
	return runtime.State{Value: r.round(min(0, s.Value+r.accrued(s.TS, t))), TS: t, Prev: keptTotal(s.Prev), Exists: true}
}

// round rounds a value to the precision that numbers near the capacity have. Whole tokens can then be subtracted without
// another rounding, so that several requests leave the same bits one by one as together.
func (r *Rule) round(value float64) float64 {
	twice := 2 * r.Capacity
	return float64(value+twice) - twice
}

// tokens returns the tokens of an accrued state: those of a full key, less the missing ones.
func (r *Rule) tokens(accrued runtime.State) float64 { return r.Capacity + accrued.Value }

// accrued returns rate * elapsed / period for the time between two instants, and for a calendar rate times its windows.
func (r *Rule) accrued(from, to int64) float64 {
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
func (r *Rule) windows(from, to int64) int64 {
	if to <= from {
		return 0
	}
	elapsed, period := uint64(to-from), uint64(r.Period)
	return int64((elapsed + period/2) / period)
}

// timeFor returns how long a number of tokens takes to accrue, rounded up. For whole tokens it is exact.
func (r *Rule) timeFor(tokens float64) int64 {
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
