package diff

import (
	"cmp"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// PlanPair is a limit on both sides of an edit, for one plan.
type PlanPair struct {
	// Plan is the name of the plan, the new one if it was renamed. It is "" for a limit without plans on both sides.
	Plan string
	// Old and New are the limit for the plan, or the limit itself on a side that is the same for all plans. One of them
	// is nil if that side lacks the plan, or the limit.
	Old, New *spec.Limit
}

// PairPlans returns the plans of a limit, in the order of the new side and then those that were removed. One of the sides
// may be nil.
func (r Renames) PairPlans(old, new *spec.Limit) (pairs []PlanPair) {
	var kept []string
	if new != nil {
		for _, plan := range new.Plans {
			oldName := cmp.Or(r.Plans[plan.Plan], plan.Plan)
			kept = append(kept, oldName)
			pairs = append(pairs, PlanPair{plan.Plan, old.ForPlan(oldName), plan})
		}
	}
	if old != nil {
		for _, plan := range old.Plans {
			if !slices.Contains(kept, plan.Plan) {
				pairs = append(pairs, PlanPair{plan.Plan, plan, new.ForPlan(plan.Plan)})
			}
		}
	}
	if pairs == nil {
		return []PlanPair{{Old: old, New: new}}
	}
	return pairs
}
