// Package diff lists the changes between two files. Package review judges them.
package diff

import (
	"cmp"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Files returns the changes from one file to another: first of the file, then of each limit in the order of the new
// file, then the removed limits; then the same of groups. It compares effective values, given or not: period: 60s equals
// period: 1m, and a capacity that is left out changes with the rate. The order of limits, comments and notation are not
// compared.
//
// A removed and an added limit are reported as one renamed limit if they are alike. That is a guess, which is returned too;
// see [ids.Changes].
func Files(old, new *spec.File) ([]Change, Renames) {
	renamed := RenamesOf(old, new)
	changes := slices.Concat(diffFields(values.File, old, new, sideOfFile), diffPlanNames(old, new, renamed))
	before := limitsByName(old)
	for _, limit := range new.Limits {
		name := cmp.Or(renamed.Limits[limit.Policy.Name], limit.Policy.Name)
		previous := before[name]
		// The limits that are left in before have been removed.
		delete(before, name)
		changes = append(changes, diffLimit(previous, limit, renamed)...)
	}
	for _, limit := range old.Limits {
		if name := limit.Policy.Name; before[name] != nil {
			changes = append(changes, Change{Kind: ids.LimitRemoved, Limit: name, Old: wholeLimit(limit)})
		}
	}
	changes = append(changes, diffGroups(old, new)...)
	for i := range changes {
		changes[i].Old.File, changes[i].New.File = fileWith(changes[i].Old, old), fileWith(changes[i].New, new)
	}
	return changes, renamed
}

// fileWith returns the file of a side; nil if it lacks the limit or the group.
func fileWith(side Side, file *spec.File) *spec.File {
	if side.Limit == nil && side.Group == nil {
		return side.File
	}
	return file
}

// diffLimit returns the changes of a limit; old is nil for one that was added.
func diffLimit(old, new *spec.Limit, renamed Renames) (changes []Change) {
	if old == nil {
		return []Change{{Kind: ids.LimitAdded, Limit: new.Policy.Name, New: wholeLimit(new)}}
	}
	if old.Policy.Name != new.Policy.Name {
		changes = []Change{{Kind: ids.LimitRenamed, Old: wholeLimit(old), New: wholeLimit(new)}}
	}
	if oldSide, newSide := wholeLimit(old), wholeLimit(new); !slices.Equal(old.CallerFields(), new.CallerFields()) {
		oldSide.Value, newSide.Value = fields.Listed(old.CallerFields()), fields.Listed(new.CallerFields())
		changes = append(changes, Change{Kind: ids.NumbersParameterChanged, Field: "numbers", Old: oldSide, New: newSide})
	}
	changes = slices.Concat(changes, diffPlans(old, new, renamed), diffExceptions(old, new, renamed))
	for i := range changes {
		changes[i].Limit = new.Policy.Name
	}
	return changes
}

// diffFields compares the fields of a table. side returns the side of a field, without its value.
func diffFields[T any](values []fields.Value[T], old, new *T, side func(*T, string) Side) (changes []Change) {
	for _, f := range values {
		oldSide, newSide := side(old, f.Name), side(new, f.Name)
		if oldSide.Value, newSide.Value = f.Effective(old), f.Effective(new); oldSide.Value != newSide.Value {
			changes = append(changes, Change{Kind: f.Kind, Field: f.Name, Old: oldSide, New: newSide})
		}
	}
	return changes
}

// diffPlans returns the changes of a limit, except for its name.
func diffPlans(old, new *spec.Limit, renamed Renames) (changes []Change) {
	if len(old.Plans)+len(new.Plans) == 0 {
		return slices.DeleteFunc(diffFields(values.Limit, old, new, sideOfLimit),
			func(c Change) bool { return c.Field == "capacity" && eitherCounts(old, new) })
	}
	if len(old.Plans) == 0 || len(new.Plans) == 0 {
		oldSide, newSide := wholeLimit(old), wholeLimit(new)
		oldSide.Value, newSide.Value = fields.Listed(old.PlanNames()), fields.Listed(new.PlanNames())
		changes = append(changes, Change{Kind: ids.PlanParameterChanged, Field: "plans", Old: oldSide, New: newSide})
	}
	pairs := renamed.PairPlans(old, new)
	for _, p := range pairs {
		switch {
		case p.Old == nil:
			changes = append(changes, Change{Kind: ids.PlanAdded, Plan: p.Plan, Old: Side{Limit: old}, New: wholePlan(new, p.New)})
		case p.New == nil:
			changes = append(changes, Change{Kind: ids.PlanRemoved, Plan: p.Plan, Old: wholePlan(old, p.Old), New: Side{Limit: new}})
		}
	}
	for i, f := range values.Limit {
		if f.ByPlan {
			changes = append(changes, diffByPlan(f, old, new, pairs)...)
		} else {
			changes = append(changes, diffFields(values.Limit[i:i+1], old, new, sideOfLimit)...)
		}
	}
	return changes
}

// diffByPlan returns the changes of one field for each plan, or one change if it is the same for all of several plans.
func diffByPlan(f fields.Value[spec.Limit], old, new *spec.Limit, pairs []PlanPair) (changes []Change) {
	limited := 0
	for _, p := range pairs {
		if p.Old == nil || p.New == nil ||
			eitherCounts(p.Old, p.New) && !slices.Contains([]string{"rate", "count", "period"}, f.Name) {
			continue
		}
		of, becomes := p.New, p.Old.Numberless() || p.New.Numberless()
		if p.Old.Numberless() {
			of = p.Old
		}
		if !becomes {
			limited++
		} else if f.Name != fields.NumberOf(of) && f.Name != "count" {
			continue // the other numbers come or go with it
		}
		for _, c := range diffFields([]fields.Value[spec.Limit]{f}, p.Old, p.New, sideOfLimit) {
			c.Plan, c.Old.Limit, c.New.Limit = p.Plan, old, new
			changes = append(changes, c)
		}
	}
	another := func(c Change) bool {
		return c.Old.Value != changes[0].Old.Value || c.New.Value != changes[0].New.Value
	}
	if len(changes) > 1 && len(changes) == limited && f.Name != "count" && !slices.ContainsFunc(changes, another) { // a count is for some of the plans
		changes[0].Plan = ""
		return changes[:1]
	}
	return changes
}

// eitherCounts reports whether the rate of a limit, or of a plan, is unlimited and counted before or after. Its capacity,
// and the other numbers of a plan, come or go with it.
func eitherCounts(old, new *spec.Limit) bool { return old.CountsOnly() || new.CountsOnly() }

// diffPlanNames returns the plans that were renamed.
func diffPlanNames(old, new *spec.File, renamed Renames) (changes []Change) {
	for _, plan := range new.Plans {
		if oldName, ok := renamed.Plans[plan.Name]; ok {
			before := old.Plans[planIndex(old, oldName)]
			changes = append(changes, Change{
				Kind: ids.PlanRenamed, Plan: plan.Name,
				Old: Side{File: old, Value: oldName, Given: true, Pos: before.Pos}, New: Side{File: new, Value: plan.Name, Given: true, Pos: plan.Pos},
			})
		}
	}
	return changes
}

// diffGroups returns the changes of the groups, in the order of the new file, and then the removed ones. A group stores
// nothing, so that a renamed one is removed and added.
func diffGroups(old, new *spec.File) (changes []Change) {
	before := byName(old.Groups, func(g *spec.Group) string { return g.Name })
	side := func(g *spec.Group, field string) Side { return givenIn(g.Places, field, wholeGroup(g)) }
	for _, g := range new.Groups {
		found := []Change{{Kind: ids.GroupAdded, New: wholeGroup(g)}}
		if previous := before[g.Name]; previous != nil {
			found = append(diffFields(values.Group, previous, g, side), diffMethod(previous, g)...)
		}
		for _, c := range found {
			c.Group = g.Name
			changes = append(changes, c)
		}
		delete(before, g.Name)
	}
	for _, g := range old.Groups {
		if before[g.Name] != nil {
			changes = append(changes, Change{Kind: ids.GroupRemoved, Group: g.Name, Old: wholeGroup(g)})
		}
	}
	return changes
}

// diffMethod returns the change of what callers of a group pass and may call, unless the members show it: it follows from
// the limits, which may have changed while the group has not.
func diffMethod(old, new *spec.Group) []Change {
	oldSide, newSide := wholeGroup(old), wholeGroup(new)
	oldSide.Value, newSide.Value = old.Method(), new.Method()
	same := spec.EffectiveMembers(old.Members()) == spec.EffectiveMembers(new.Members())
	if oldSide.Value == newSide.Value ||
		!same && slices.Equal(spec.SharedNames(old), spec.SharedNames(new)) && slices.Equal(old.Verbs(), new.Verbs()) {
		return nil
	}
	oldSide.Given, newSide.Given = false, false
	return []Change{{Kind: ids.GroupMethodChanged, Field: "method", Old: oldSide, New: newSide}}
}
