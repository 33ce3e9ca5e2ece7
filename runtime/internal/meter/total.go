package meter

import (
	"math"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// A row of a linear kind counts the tokens ever taken from it: its Prev is minus this total, times totalUnit. The
// tokens that are missing, less those taken since a request, are what would be missing if no request had come after it:
// so two totals bound how many tokens of the request can still be returned. See linear.refund.
//
// The unit keeps Prev between -1 and 0, where the other kinds ignore it when the kind of a limit is edited: the use of
// a previous window is positive, and the place of a log is at most -1. As a power of two it makes all sums exact.
const totalUnit = 0x1p-100

// hasTotal reports whether a Prev is a total.
func hasTotal(prev float64) bool { return prev > -1 && prev < 0 }

// keptTotal returns a Prev that is a total, and 0 for a Prev of another kind.
func keptTotal(prev float64) float64 {
	if hasTotal(prev) {
		return prev
	}
	return 0
}

// A total starts at a number below resetTotal that is derived from the instant, so that a row that was deleted and made
// again is not mistaken for the old one. A Reset continues it at such a number above resetTotal.
const (
	resetTotal = 1 << 51
	maxTotal   = 1 << 53
)

// totals is by how many bits the totals of a row begin smaller: more than 0 for a shard, so that the sum of all is
// exact.
type totals uint8

// fresh returns the Prev of a new row, from which nothing was taken yet.
func (t totals) fresh(now int64) float64 {
	return -totalUnit * float64(arith.Mix(uint64(now))>>(14+t)|1)
}

// void returns the Prev after which no earlier request can be refunded.
func (t totals) void(prev float64, now int64) float64 {
	start := arith.Mix(math.Float64bits(prev)^arith.Mix(uint64(now))) >> (14 + t)
	return -totalUnit * float64(resetTotal>>t+start)
}

// addTotal returns a Prev after count tokens were taken, given the Prev of a new row.
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

// Before returns the state of a row of a linear kind before the last count tokens were taken from it.
func Before(s runtime.State, count int64) runtime.State {
	s.Value += float64(count)
	if hasTotal(s.Prev) {
		s.Prev += float64(count) * totalUnit
	}
	return s
}
