package fields

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Diff returns the changes from one file to another: first of the file, then of each limit in the order of the new
// file, then the removed limits; then the same of groups. It compares effective values, given or not: period: 60s equals period: 1m, and a
// capacity that is left out changes with the rate. The order of limits, comments and notation are not compared.
//
// A removed and an added limit are reported as one renamed limit if they are alike. That is a guess; see [spec.ChangeKinds].
func Diff(old, new *spec.File) []spec.Change {
	names, plans := Renames(old, new), PlanRenames(old, new)
	changes := slices.Concat(diffFields(fileFields, old, new, sideOfFile), diffPlanNames(old, new, plans))
	before := limitsByName(old)
	for _, limit := range new.Limits {
		name := cmp.Or(names[limit.Policy.Name], limit.Policy.Name)
		was := before[name]
		// The limits that are left in before have been removed.
		delete(before, name)
		changes = append(changes, diffLimit(was, limit, plans)...)
	}
	for _, limit := range old.Limits {
		if name := limit.Policy.Name; before[name] != nil {
			changes = append(changes, spec.Change{Kind: spec.LimitRemoved, Limit: name, Old: wholeLimit(limit)})
		}
	}
	changes = append(changes, diffGroups(old, new)...)
	for i := range changes {
		changes[i].Old.File, changes[i].New.File = fileWith(changes[i].Old, old), fileWith(changes[i].New, new)
	}
	return changes
}

// fileWith returns the file of a side; nil if it lacks the limit or the group.
func fileWith(side spec.Side, file *spec.File) *spec.File {
	if side.Limit == nil && side.Group == nil {
		return side.File
	}
	return file
}

func limitsByName(file *spec.File) map[string]*spec.Limit {
	return byName(file.Limits, func(l *spec.Limit) string { return l.Policy.Name })
}

func byName[T any](list []*T, name func(*T) string) map[string]*T {
	named := make(map[string]*T, len(list))
	for _, one := range list {
		named[name(one)] = one
	}
	return named
}

// diffLimit returns the changes of a limit; old is nil for one that was added.
func diffLimit(old, new *spec.Limit, plans map[string]string) (changes []spec.Change) {
	if old == nil {
		return []spec.Change{{Kind: spec.LimitAdded, Limit: new.Policy.Name, New: wholeLimit(new)}}
	}
	if old.Policy.Name != new.Policy.Name {
		changes = []spec.Change{{Kind: spec.LimitRenamed, Old: wholeLimit(old), New: wholeLimit(new)}}
	}
	if was, is := wholeLimit(old), wholeLimit(new); !slices.Equal(old.CallerFields(), new.CallerFields()) {
		was.Value, is.Value = listed(old.CallerFields()), listed(new.CallerFields())
		changes = append(changes, spec.Change{Kind: spec.NumbersParameterChanged, Field: "numbers", Old: was, New: is})
	}
	changes = append(changes, diffPlans(old, new, plans)...)
	for i := range changes {
		changes[i].Limit = new.Policy.Name
	}
	return changes
}

// diffFields compares the fields of a table. side returns the side of a field, without its value.
func diffFields[D, T any](fields []field[D, T], old, new *T, side func(*T, string) spec.Side) (changes []spec.Change) {
	for _, f := range fields {
		if f.effective == nil {
			continue
		}
		was, is := side(old, f.name), side(new, f.name)
		if was.Value, is.Value = f.effective(old), f.effective(new); was.Value != is.Value {
			changes = append(changes, spec.Change{Kind: f.change, Field: f.name, Old: was, New: is})
		}
	}
	return changes
}

// sideOfFile has the place of the first plan. The place of the package is not stored.
func sideOfFile(file *spec.File, field string) spec.Side {
	side := spec.Side{File: file, Pos: diag.Pos{Line: 1, Column: 1}, Given: file.Package != ""}
	if field == "plans" {
		if side.Given = len(file.Plans) > 0; side.Given {
			side.Pos = file.Plans[0].Pos
		}
	}
	return side
}

// wholeLimit is the side of a limit that was added, removed or renamed, and wholeGroup that of a group.
func wholeLimit(limit *spec.Limit) spec.Side {
	return spec.Side{Limit: limit, Value: limit.Policy.Name, Given: true, Pos: limit.Pos}
}

func wholeGroup(g *spec.Group) spec.Side {
	return spec.Side{Group: g, Value: g.Name, Given: true, Pos: g.Pos}
}

func sideOfLimit(limit *spec.Limit, field string) spec.Side {
	return givenIn(limit.Given, field, wholeLimit(limit))
}

// givenIn returns the side of a field of a limit or a group, at the field's place if it is given.
func givenIn(given map[string]diag.Pos, field string, side spec.Side) spec.Side {
	at, ok := given[field]
	if side.Given = ok; ok {
		side.Pos = at
	}
	return side
}

// Renames guesses which limits were renamed, and returns the old names by the new ones. An added limit is a removed one
// renamed if both have the same key, and
//
//   - the same kind and doc, or
//   - the same rule and method name, or
//   - the same rule, if no other added or removed limit has it.
//
// If several limits are alike, nothing is guessed.
func Renames(old, new *spec.File) map[string]string {
	removed, added := without(old, new), without(new, old)
	names, paired := map[string]string{}, map[string]bool{}
	isPaired := func(l *spec.Limit) bool { return paired[l.Policy.Name] }
	// The strongest evidence comes first, and the weaker is used only for limits that are still unpaired.
	for _, alike := range []func(*spec.Limit) any{docTrait, methodTrait, ruleTrait} {
		before, after := only(removed, alike), only(added, alike)
		for trait, limit := range after {
			if was := before[trait]; was != nil && limit != nil {
				names[limit.Policy.Name] = was.Policy.Name
				// No name is both of a removed and of an added limit.
				paired[limit.Policy.Name], paired[was.Policy.Name] = true, true
			}
		}
		removed, added = slices.DeleteFunc(removed, isPaired), slices.DeleteFunc(added, isPaired)
	}
	return names
}

// without returns the limits of a file with names that the other file lacks.
func without(file, other *spec.File) []*spec.Limit {
	names := limitsByName(other)
	return slices.DeleteFunc(slices.Clone(file.Limits), func(l *spec.Limit) bool { return names[l.Policy.Name] != nil })
}

// only returns the limits by a trait; nil for a trait that several limits have.
func only(limits []*spec.Limit, trait func(*spec.Limit) any) map[any]*spec.Limit {
	found := map[any]*spec.Limit{}
	for _, limit := range limits {
		key := trait(limit)
		if key == nil {
			continue
		}
		if _, twice := found[key]; twice {
			// The entry stays, so that a third limit with the trait is not taken for the only one.
			limit = nil
		}
		found[key] = limit
	}
	return found
}

// docTrait survives a renaming with a change of numbers. It is nil without a doc.
func docTrait(l *spec.Limit) any {
	if l.Doc == "" {
		return nil
	}
	return [3]string{l.Doc, effectiveKey(l), l.Policy.Kind.String()}
}

func ruleTrait(l *spec.Limit) any {
	// The names differ in any renaming.
	policy := l.Policy
	policy.Name = ""
	return [3]any{policy, effectiveKey(l), plansTrait(l)}
}

func methodTrait(l *spec.Limit) any { return [2]any{ruleTrait(l), l.GoName} }

// PlanPair is a limit on both sides of an edit, for one plan.
type PlanPair struct {
	// Plan is the name of the plan, the new one if it was renamed. It is "" for a limit without plans on both sides.
	Plan string
	// Old and New are the limit for the plan, or the limit itself on a side that is the same for all plans. One of them
	// is nil if that side lacks the plan, or the limit.
	Old, New *spec.Limit
}

// PairPlans returns the plans of a limit, in the order of the new side and then those that were removed. One of the sides
// may be nil. The names of renamed plans are those of [PlanRenames].
func PairPlans(old, new *spec.Limit, renamed map[string]string) (pairs []PlanPair) {
	var kept []string
	if new != nil {
		for _, of := range new.Plans {
			was := cmp.Or(renamed[of.Plan], of.Plan)
			kept = append(kept, was)
			pairs = append(pairs, PlanPair{of.Plan, old.ForPlan(was), of})
		}
	}
	if old != nil {
		for _, of := range old.Plans {
			if !slices.Contains(kept, of.Plan) {
				pairs = append(pairs, PlanPair{of.Plan, of, new.ForPlan(of.Plan)})
			}
		}
	}
	if pairs == nil {
		return []PlanPair{{Old: old, New: new}}
	}
	return pairs
}

// PlanRenames guesses which plans were renamed, and returns the old names by the new ones. An added plan is a removed one
// renamed if both have the same numbers in all limits with plans on both sides, and no other added or removed plan has. If there is no such
// limit, both must have the same place among equally many plans.
func PlanRenames(old, new *spec.File) map[string]string {
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
func samePlan(old, new *spec.File, was, is string) bool {
	compared := false
	before := limitsByName(old)
	for _, limit := range new.Limits {
		o := before[limit.Policy.Name]
		if o == nil || len(o.Plans) == 0 || len(limit.Plans) == 0 {
			continue
		}
		compared = true
		for _, f := range limitFields {
			// A value that is the same for all plans does not identify one, and may have changed for all of them.
			if f.byPlan && varies(f, o) && varies(f, limit) && f.effective(o.ForPlan(was)) != f.effective(limit.ForPlan(is)) {
				return false
			}
		}
	}
	return compared || len(old.Plans) == len(new.Plans) && planIndex(old, was) == planIndex(new, is)
}

// varies reports whether a field has different values for the plans of a limit.
func varies(f field[draft, spec.Limit], l *spec.Limit) bool {
	return slices.ContainsFunc(l.Plans, func(of *spec.Limit) bool { return f.effective(of) != f.effective(l.Plans[0]) })
}

// diffPlans returns the changes of a limit, except for its name.
func diffPlans(old, new *spec.Limit, renamed map[string]string) (changes []spec.Change) {
	if len(old.Plans)+len(new.Plans) == 0 {
		return diffFields(limitFields, old, new, sideOfLimit)
	}
	if len(old.Plans) == 0 || len(new.Plans) == 0 {
		was, is := wholeLimit(old), wholeLimit(new)
		was.Value, is.Value = listed(old.PlanNames()), listed(new.PlanNames())
		changes = append(changes, spec.Change{Kind: spec.PlanParameterChanged, Field: "plans", Old: was, New: is})
	}
	pairs := PairPlans(old, new, renamed)
	for _, p := range pairs {
		switch {
		case p.Old == nil:
			changes = append(changes, spec.Change{Kind: spec.PlanAdded, Plan: p.Plan, Old: spec.Side{Limit: old}, New: wholePlan(new, p.New)})
		case p.New == nil:
			changes = append(changes, spec.Change{Kind: spec.PlanRemoved, Plan: p.Plan, Old: wholePlan(old, p.Old), New: spec.Side{Limit: new}})
		}
	}
	for i, f := range limitFields {
		if f.byPlan {
			changes = append(changes, diffByPlan(f, old, new, pairs)...)
		} else {
			changes = append(changes, diffFields(limitFields[i:i+1], old, new, sideOfLimit)...)
		}
	}
	return changes
}

// diffByPlan returns the changes of one field for each plan, or one change if it is the same for all of several plans.
func diffByPlan(f field[draft, spec.Limit], old, new *spec.Limit, pairs []PlanPair) (changes []spec.Change) {
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
		for _, c := range diffFields([]field[draft, spec.Limit]{f}, p.Old, p.New, sideOfLimit) {
			c.Plan, c.Old.Limit, c.New.Limit = p.Plan, old, new
			changes = append(changes, c)
		}
	}
	another := func(c spec.Change) bool {
		return c.Old.Value != changes[0].Old.Value || c.New.Value != changes[0].New.Value
	}
	if len(changes) > 1 && len(changes) == limited && !slices.ContainsFunc(changes, another) {
		changes[0].Plan = ""
		return changes[:1]
	}
	return changes
}

// wholePlan is the side of a plan that was added or removed.
func wholePlan(l, of *spec.Limit) spec.Side {
	return spec.Side{Limit: l, Value: of.Plan, Given: true, Pos: cmp.Or(of.Given["rate"], of.Given["capacity"])}
}

// plansTrait is equal for limits with the same rule for each plan.
func plansTrait(l *spec.Limit) string {
	var traits []string
	for _, of := range l.Plans {
		policy := of.Policy
		policy.Name = ""
		traits = append(traits, fmt.Sprintf("%s: %+v", of.Plan, policy))
	}
	return strings.Join(traits, "\n")
}

// diffPlanNames returns the plans that were renamed.
func diffPlanNames(old, new *spec.File, renamed map[string]string) (changes []spec.Change) {
	for _, plan := range new.Plans {
		if was, ok := renamed[plan.Name]; ok {
			before := old.Plans[planIndex(old, was)]
			changes = append(changes, spec.Change{
				Kind: spec.PlanRenamed, Plan: plan.Name,
				Old: spec.Side{File: old, Value: was, Given: true, Pos: before.Pos}, New: spec.Side{File: new, Value: plan.Name, Given: true, Pos: plan.Pos},
			})
		}
	}
	return changes
}

// diffGroups returns the changes of the groups, in the order of the new file, and then the removed ones. A group stores
// nothing, so that a renamed one is removed and added.
func diffGroups(old, new *spec.File) (changes []spec.Change) {
	before := byName(old.Groups, func(g *spec.Group) string { return g.Name })
	side := func(g *spec.Group, field string) spec.Side { return givenIn(g.Given, field, wholeGroup(g)) }
	for _, g := range new.Groups {
		of := []spec.Change{{Kind: spec.GroupAdded, New: wholeGroup(g)}}
		if was := before[g.Name]; was != nil {
			of = append(diffFields(groupFields, was, g, side), diffMethod(was, g)...)
		}
		for _, c := range of {
			c.Group = g.Name
			changes = append(changes, c)
		}
		delete(before, g.Name)
	}
	for _, g := range old.Groups {
		if before[g.Name] != nil {
			changes = append(changes, spec.Change{Kind: spec.GroupRemoved, Group: g.Name, Old: wholeGroup(g)})
		}
	}
	return changes
}

// diffMethod returns the change of what callers of a group pass and may call, unless the members show it: it follows from
// the limits, which may have changed while the group has not.
func diffMethod(old, new *spec.Group) []spec.Change {
	was, is := wholeGroup(old), wholeGroup(new)
	was.Value, is.Value = old.Method(), new.Method()
	same := spec.EffectiveMembers(old.Members()) == spec.EffectiveMembers(new.Members())
	if was.Value == is.Value || !same && slices.Equal(spec.SharedNames(old), spec.SharedNames(new)) && slices.Equal(old.Verbs(), new.Verbs()) {
		return nil
	}
	was.Given, is.Given = false, false
	return []spec.Change{{Kind: spec.GroupMethodChanged, Field: "method", Old: was, New: is}}
}
