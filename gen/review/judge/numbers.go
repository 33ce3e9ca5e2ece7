package judge

import (
	"math"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// numbersOf returns the bounds of a limit before and after. If reservations are possible, it includes how much callers
// can use at once without them; if they are unbounded, the bounds of all intervals for such callers, because the others
// say nothing then. If the modes differ, only an enforced version has these bounds.
func numbersOf(p compare.Pair) (list []review.Number) {
	add := func(name, unit string, value func(*runtime.Policy) int64, absent int64) {
		n := review.Number{Name: name, Unit: unit, Old: valueOf(p.Old, value, absent), New: valueOf(p.New, value, absent)}
		if n.Old != nil || n.New != nil {
			list = append(list, n)
		}
	}
	// A number of tokens is absent if it is -1, because 0 is a bound. A duration is absent if it is 0.
	tokens := func(name string, t time.Duration) {
		add(name, review.Tokens, func(p *runtime.Policy) int64 { return bounds.Within(p, t) }, -1)
	}
	tokensUnreserved := func(name string, t time.Duration) {
		add(name+review.Unreserved, review.Tokens, func(p *runtime.Policy) int64 { return bounds.Within(bounds.Unreserved(p), t) }, -1)
	}
	duration := func(name string, value func(*runtime.Policy) time.Duration) {
		add(name, review.Nanoseconds, func(p *runtime.Policy) int64 { return int64(value(p)) }, 0)
	}
	tokens("at once", 0)
	for _, t := range p.Periods() {
		tokens("in any "+words.Period(t), t)
	}
	if p.EitherPolicy((*runtime.Policy).Reserves) {
		tokensUnreserved("at once", 0)
	}
	if p.EitherPolicy(func(p *runtime.Policy) bool { return p.MaxReserved == runtime.Unbounded }) {
		for _, t := range p.Periods() {
			tokensUnreserved("in any "+words.Period(t), t)
		}
	}
	duration(review.NextToken, bounds.NextAfter)
	duration("next token after reserving all", bounds.NextAfterReserving)
	duration("full after", bounds.FullAfter)
	add(review.LargestReservation, review.Tokens, bounds.LargestReservation, 0)
	duration(review.LongestDelay, bounds.LongestDelay)
	if p.ModesDiffer() {
		for i, n := range list {
			list[i].Old, list[i].New = inMode(p.Old.Policy.Mode, n, n.Old), inMode(p.New.Policy.Mode, n, n.New)
		}
		list = slices.DeleteFunc(list, func(n review.Number) bool { return n.Old == nil && n.New == nil })
	}
	return list
}

// valueOf returns nil if there is no limit, or its value is the one that means absent.
func valueOf(limit *spec.Limit, value func(*runtime.Policy) int64, absent int64) *int64 {
	switch {
	case limit == nil:
		return nil
	case limit.Unlimited() && absent == -1: // all intervals
		v := int64(math.MaxInt64)
		return &v
	case limit.Unlimited():
		return nil
	}
	if v := value(&limit.Policy); v != absent {
		return &v
	}
	return nil
}
