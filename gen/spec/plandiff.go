package spec

import (
	"fmt"
	"slices"
	"strings"
)

// PlanPair is a limit on both sides of an edit, for one plan.
type PlanPair struct {
	// Plan is the name of the plan, the new one if it was renamed. It is "" for a limit without plans on both sides.
	Plan string
	// Old and New are the limit for the plan, or the limit itself on a side that is the same for all plans. One of them
	// is nil if that side lacks the plan, or the limit.
	Old, New *Limit
}

// PairPlans returns the plans of a limit, in the order of the new side and then those that were removed. One of the sides
// may be nil. The names of renamed plans are those of [PlanRenames].
func PairPlans(old, new *Limit, renamed map[string]string) (pairs []PlanPair) {
	switch {
	case old == nil || len(old.Plans) == 0:
		if new == nil || len(new.Plans) == 0 {
			return []PlanPair{{Old: old, New: new}}
		}
		for _, of := range new.Plans {
			pairs = append(pairs, PlanPair{of.Plan, old, of})
		}
		return pairs
	case new == nil || len(new.Plans) == 0:
		for _, of := range old.Plans {
			pairs = append(pairs, PlanPair{of.Plan, of, new})
		}
		return pairs
	}
	var kept []string
	for _, of := range new.Plans {
		was := oldPlan(of.Plan, renamed)
		kept = append(kept, was)
		pairs = append(pairs, PlanPair{of.Plan, old.ForPlan(was), of})
	}
	for _, of := range old.Plans {
		if !slices.Contains(kept, of.Plan) {
			pairs = append(pairs, PlanPair{of.Plan, of, nil})
		}
	}
	return pairs
}

func oldPlan(plan string, renamed map[string]string) string {
	if was, ok := renamed[plan]; ok {
		return was
	}
	return plan
}

// PlanRenames guesses which plans were renamed, and returns the old names by the new ones. An added plan is a removed one
// renamed if both have the same numbers in all limits with plans on both sides, and no other added or removed plan has. If there is no such
// limit, both must have the same place among equally many plans.
func PlanRenames(old, new *File) map[string]string {
	removed, added := plansWithout(old, new), plansWithout(new, old)
	candidates := map[string][]string{}
	claims := map[string]int{}
	for _, is := range added {
		for _, was := range removed {
			if samePlan(old, new, was, is) {
				candidates[is] = append(candidates[is], was)
				claims[was]++
			}
		}
	}
	renamed := map[string]string{}
	for is, of := range candidates {
		if len(of) == 1 && claims[of[0]] == 1 {
			renamed[is] = of[0]
		}
	}
	return renamed
}

// plansWithout returns the plans of a file that the other one lacks.
func plansWithout(file, other *File) (names []string) {
	for _, plan := range file.Plans {
		if planIndex(other, plan.Name) < 0 {
			names = append(names, plan.Name)
		}
	}
	return names
}

func planIndex(file *File, name string) int {
	return slices.IndexFunc(file.Plans, func(p Plan) bool { return p.Name == name })
}

// samePlan reports whether a plan of the old file is like one of the new file.
func samePlan(old, new *File, was, is string) bool {
	compared := false
	before := limitsByName(old)
	for _, limit := range new.Limits {
		o := before[limit.Policy.Name]
		if o == nil || len(o.Plans) == 0 || len(limit.Plans) == 0 {
			continue
		}
		compared = true
		for _, f := range limitFields {
			// What is the same for all plans does not identify one, and may have changed for all of them.
			if f.byPlan && varies(f, o) && varies(f, limit) && f.effective(o.ForPlan(was)) != f.effective(limit.ForPlan(is)) {
				return false
			}
		}
	}
	return compared || len(old.Plans) == len(new.Plans) && planIndex(old, was) == planIndex(new, is)
}

// varies reports whether a field has different values for the plans of a limit.
func varies(f field[Limit], l *Limit) bool {
	return slices.ContainsFunc(l.Plans, func(of *Limit) bool { return f.effective(of) != f.effective(l.Plans[0]) })
}

// diffPlans returns the changes of a limit with plans on some side, except for its name.
func diffPlans(old, new *Limit, renamed map[string]string) (changes []Change) {
	name := new.Policy.Name
	was, is := wholeLimit(old), wholeLimit(new)
	if was.Value, is.Value = plansInList(old), plansInList(new); was.Value == "" || is.Value == "" {
		changes = append(changes, Change{ID: planParameterChanged.ID, Limit: name, Field: "plans", Old: was, New: is})
	}
	pairs := PairPlans(old, new, renamed)
	for _, p := range pairs {
		switch {
		case p.Old == nil:
			changes = append(changes, Change{ID: planAdded.ID, Limit: name, Plan: p.Plan, Old: Side{Limit: old}, New: wholePlan(new, p.New)})
		case p.New == nil:
			changes = append(changes, Change{ID: planRemoved.ID, Limit: name, Plan: p.Plan, Old: wholePlan(old, p.Old), New: Side{Limit: new}})
		}
	}
	for _, f := range limitFields {
		if !f.byPlan {
			changes = append(changes, diffFields([]field[Limit]{f}, name, old, new, wholeLimit(old), wholeLimit(new), givenInLimit)...)
			continue
		}
		changes = append(changes, diffByPlan(f, old, new, pairs)...)
	}
	return changes
}

// diffByPlan returns the changes of one field for each plan, or one change if it is the same for all of several plans.
func diffByPlan(f field[Limit], old, new *Limit, pairs []PlanPair) (changes []Change) {
	limited := 0
	for _, p := range pairs {
		if p.Old == nil || p.New == nil || p.Old.UnlimitedRate && p.New.UnlimitedRate {
			continue
		}
		becomes := p.Old.UnlimitedRate || p.New.UnlimitedRate
		if !becomes {
			limited++
		} else if f.name != "rate" {
			continue // the other numbers come or go with the rate
		}
		was, is := wholeLimit(old), wholeLimit(new)
		if was.Value, is.Value = f.effective(p.Old), f.effective(p.New); was.Value != is.Value {
			changes = append(changes, Change{
				ID: f.change.ID, Limit: new.Policy.Name, Plan: p.Plan, Field: f.name,
				Old: was.at(givenInLimit(p.Old, f.name)), New: is.at(givenInLimit(p.New, f.name)),
			})
		}
	}
	if len(changes) < 2 || len(changes) != limited {
		return changes
	}
	for _, c := range changes[1:] {
		if c.Old.Value != changes[0].Old.Value || c.New.Value != changes[0].New.Value {
			return changes
		}
	}
	changes[0].Plan = ""
	return changes[:1]
}

func plansInList(l *Limit) string {
	if len(l.Plans) == 0 {
		return ""
	}
	return "[" + strings.Join(l.PlanNames(), ", ") + "]"
}

// wholePlan is the side of a plan that was added or removed.
func wholePlan(l, of *Limit) Side {
	return Side{Limit: l, Value: of.Plan, Given: true, Pos: of.Given["rate"]}
}

// plansTrait is equal for limits with the same rule for each plan.
func plansTrait(l *Limit) string {
	var traits []string
	for _, of := range l.Plans {
		policy := of.Policy
		policy.Name = ""
		traits = append(traits, fmt.Sprintf("%s: %+v", of.Plan, policy))
	}
	return strings.Join(traits, "\n")
}

// diffPlanNames returns the plans that were renamed.
func diffPlanNames(old, new *File, renamed map[string]string) (changes []Change) {
	for _, plan := range new.Plans {
		if was, ok := renamed[plan.Name]; ok {
			before := old.Plans[planIndex(old, was)]
			changes = append(changes, Change{
				ID: planRenamed.ID, Plan: plan.Name,
				Old: Side{Value: was, Given: true, Pos: before.Pos}, New: Side{Value: plan.Name, Given: true, Pos: plan.Pos},
			})
		}
	}
	return changes
}
