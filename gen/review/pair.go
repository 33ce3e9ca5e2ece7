package review

import (
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// pair is a limit before and after an edit, or its part for one plan; one of them is nil if it was added or removed.
type pair struct{ old, new *spec.Limit }

// periods returns the lengths of the intervals that numbers are printed for: a minute, an hour, a day, and the limit's
// own periods.
func (p pair) periods() []time.Duration {
	list := []time.Duration{time.Minute, time.Hour, 24 * time.Hour}
	for _, limit := range []*spec.Limit{p.old, p.new} {
		if limit != nil && !limit.Unlimited() {
			list = append(list, bounds.Interval(&limit.Policy))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// either reports whether something holds for the limit before or after the edit.
func (p pair) either(holds func(*spec.Limit) bool) bool {
	return p.old != nil && holds(p.old) || p.new != nil && holds(p.new)
}

// byPlan reports whether the limit depends on the plan before or after the edit.
func (p pair) byPlan() bool {
	return p.either(func(l *spec.Limit) bool { return len(l.Plans) > 0 })
}

// eitherPolicy is either for the policies.
func (p pair) eitherPolicy(holds func(*runtime.Policy) bool) bool {
	return p.either(func(l *spec.Limit) bool { return holds(&l.Policy) })
}

func hasCalendar(p *runtime.Policy) bool { return p.Calendar.Unit != 0 }

func (p pair) hasCalendar() bool {
	return p.eitherPolicy(func(p *runtime.Policy) bool { return hasCalendar(p) })
}

// unitChanged reports whether a calendar appears or disappears.
func unitChanged(p pair) bool { return hasCalendar(&p.old.Policy) != hasCalendar(&p.new.Policy) }

// modesDiffer reports whether the modes, and not the numbers, decide which version lets more through.
func (p pair) modesDiffer() bool {
	return p.old != nil && p.new != nil && p.old.Policy.Mode != p.new.Policy.Mode
}

// limited returns the version of a plan that is not unlimited, or nil if both are.
func (p pair) limited() *spec.Limit {
	if p.old.Unlimited() && p.new.Unlimited() {
		return nil
	}
	if p.old.Unlimited() {
		return p.new
	}
	return p.old
}

// enforced returns the limits as they were if they were enforced. Unlimited ones stay so.
func (p pair) enforced() pair {
	enforce := func(l *spec.Limit) *spec.Limit {
		if l.Unlimited() {
			return l
		}
		c := *l
		c.Policy.Mode = runtime.ModeEnforce
		return &c
	}
	return pair{enforce(p.old), enforce(p.new)}
}

func partNames(parts []spec.KeyPart) (list []string) {
	for _, part := range parts {
		list = append(list, part.Name)
	}
	return list
}

func sortedNames(parts []spec.KeyPart) []string {
	return slices.Sorted(slices.Values(partNames(parts)))
}

func partTypes(parts []spec.KeyPart) (list []string) {
	for _, part := range parts {
		list = append(list, part.Type)
	}
	return list
}

func partGoTypes(parts []spec.KeyPart) (list []string) {
	for _, part := range parts {
		list = append(list, part.GoType())
	}
	return list
}
