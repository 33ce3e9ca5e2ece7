package diff

import (
	"cmp"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// values are the fields that are compared.
var values = fields.Values()

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

// planRenames guesses which plans were renamed. An added plan is a removed one renamed if both have the same numbers in all
// limits with plans on both sides, and no other added or removed plan has. If there is no such limit, both must have the same
// place among equally many plans.
func planRenames(old, new *spec.File) map[string]string {
	removed, added := plansWithout(old, new), plansWithout(new, old)
	candidates := map[string][]string{}
	claims := map[string]int{}
	for _, newName := range added {
		for _, oldName := range removed {
			if samePlan(old, new, oldName, newName) {
				candidates[newName] = append(candidates[newName], oldName)
				claims[oldName]++
			}
		}
	}
	renamed := map[string]string{}
	for newName, like := range candidates {
		if len(like) == 1 && claims[like[0]] == 1 {
			renamed[newName] = like[0]
		}
	}
	return renamed
}

// plansWithout returns the plans of a file that the other one lacks.
func plansWithout(file, other *spec.File) (names []string) {
	for _, plan := range file.Plans {
		if planIndex(other, plan.Name) < 0 {
			names = append(names, plan.Name)
		}
	}
	return names
}

func planIndex(file *spec.File, name string) int {
	return slices.IndexFunc(file.Plans, func(p spec.Plan) bool { return p.Name == name })
}

// samePlan reports whether a plan of the old file is like one of the new file.
func samePlan(old, new *spec.File, oldName, newName string) bool {
	compared := false
	before := limitsByName(old)
	for _, limit := range new.Limits {
		o := before[limit.Policy.Name]
		if o == nil || len(o.Plans) == 0 || len(limit.Plans) == 0 {
			continue
		}
		compared = true
		for _, f := range values.Limit {
			// A value that is the same for all plans does not identify one, and may have changed for all of them.
			if f.ByPlan && varies(f, o) && varies(f, limit) && f.Effective(o.ForPlan(oldName)) != f.Effective(limit.ForPlan(newName)) {
				return false
			}
		}
	}
	return compared || len(old.Plans) == len(new.Plans) && planIndex(old, oldName) == planIndex(new, newName)
}

// varies reports whether a field has different values for the plans of a limit.
func varies(f fields.Value[spec.Limit], l *spec.Limit) bool {
	return slices.ContainsFunc(l.Plans, func(of *spec.Limit) bool { return f.Effective(of) != f.Effective(l.Plans[0]) })
}
