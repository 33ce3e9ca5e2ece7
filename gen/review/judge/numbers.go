package judge

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// boundsOf returns the bounds of a limit before and after. If reservations are possible, it includes how much callers
// can use at once without them; if they are unbounded, the bounds of all intervals for such callers, because the others
// say nothing then. If the modes differ, only an enforced version has these bounds.
func boundsOf(p compare.Pair) (list []review.Number) {
	if p.Old == nil || p.New == nil {
		p = p.Unblocked()
	}
	measures := []review.Measure{review.Within(0)}
	slots := !p.EitherPolicy(func(p *runtime.Policy) bool { return !compare.InFlight(p) })
	for _, t := range p.Periods() {
		if !slots { // which have no bound in a time
			measures = append(measures, review.Within(t))
		}
	}
	if p.EitherPolicy((*runtime.Policy).Reserves) {
		measures = append(measures, review.WithinUnreserved(0))
	}
	if p.EitherPolicy(func(p *runtime.Policy) bool { return p.MaxReserved == runtime.Unbounded }) {
		for _, t := range p.Periods() {
			measures = append(measures, review.WithinUnreserved(t))
		}
	}
	for _, m := range append(measures, review.Measures()...) {
		if n := m.Of(policyOf(p.Old), policyOf(p.New)); n.Old != nil || n.New != nil {
			list = append(list, n)
		}
	}
	if p.ModesDiffer() {
		for i, n := range list {
			list[i].Old, list[i].New = inMode(p.Old.Policy.Mode, n, n.Old), inMode(p.New.Policy.Mode, n, n.New)
		}
		list = slices.DeleteFunc(list, func(n review.Number) bool { return n.Old == nil && n.New == nil })
	}
	return list
}

func policyOf(l *spec.Limit) *runtime.Policy {
	if l == nil {
		return nil
	}
	return &l.Policy
}
