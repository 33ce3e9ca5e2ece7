package diff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// values are the fields that are compared.
var values = fields.Values()

// Renames are the limits and plans that were probably renamed: the old names by the new ones.
type Renames struct{ Limits, Plans map[string]string }

// RenamesOf guesses what was renamed between two versions of a file.
func RenamesOf(old, new *spec.File) Renames {
	return Renames{Limits: limitRenames(old, new), Plans: planRenames(old, new)}
}

// limitRenames guesses which limits were renamed. An added limit is a removed one renamed if both have the same key, and
//
//   - the same kind and doc, or
//   - the same rule and method name, or
//   - the same rule, if no other added or removed limit has it.
//
// If several limits are alike, nothing is guessed.
func limitRenames(old, new *spec.File) map[string]string {
	removed, added := without(old, new), without(new, old)
	names, paired := map[string]string{}, map[string]bool{}
	isPaired := func(l *spec.Limit) bool { return paired[l.Policy.Name] }
	// The strongest evidence comes first, and the weaker is used only for limits that are still unpaired.
	for _, alike := range []func(*spec.Limit) any{docTrait, methodTrait, ruleTrait} {
		before, after := only(removed, alike), only(added, alike)
		for trait, limit := range after {
			if previous := before[trait]; previous != nil && limit != nil {
				names[limit.Policy.Name] = previous.Policy.Name
				// No name is both of a removed and of an added limit.
				paired[limit.Policy.Name], paired[previous.Policy.Name] = true, true
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
	return [3]string{l.Doc, fields.KeyOf(l), l.Policy.Kind.String()}
}

func ruleTrait(l *spec.Limit) any {
	// The names differ in any renaming.
	policy := l.Policy
	policy.Name = ""
	return [3]any{policy, fields.KeyOf(l), plansTrait(l)}
}

func methodTrait(l *spec.Limit) any { return [2]any{ruleTrait(l), l.GoName} }

// plansTrait is equal for limits with the same rule for each plan.
func plansTrait(l *spec.Limit) string {
	var traits []string
	for _, plan := range l.Plans {
		policy := plan.Policy
		policy.Name = ""
		traits = append(traits, fmt.Sprintf("%s: %+v", plan.Plan, policy))
	}
	return strings.Join(traits, "\n")
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

// planRenames guesses which plans were renamed. An added plan is a removed one renamed if both have the same numbers in all
// limits with plans on both sides, and no other added or removed plan has. If there is no such limit, both must have the
// same place among equally many plans.
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
			if f.ByPlan && varies(f, o) && varies(f, limit) &&
				f.Effective(o.ForPlan(oldName)) != f.Effective(limit.ForPlan(newName)) {
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
