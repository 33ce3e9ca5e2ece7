// Package compare has what two rules have in common, and what rows that one has written mean to the other.
package compare

import (
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Pair is a limit before and after an edit, or its part for one plan; one of them is nil if it was added or removed.
type Pair struct{ Old, New *spec.Limit }

// Periods returns the lengths of the intervals that numbers are printed for: a minute, an hour, a day, and the limit's
// own periods.
func (p Pair) Periods() []time.Duration {
	list := []time.Duration{time.Minute, time.Hour, 24 * time.Hour}
	for _, limit := range []*spec.Limit{p.Old, p.New} {
		if limit != nil && !limit.Unlimited() && !limit.Zero() {
			list = append(list, bounds.Interval(&limit.Policy))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Either reports whether something holds for the limit before or after the edit.
func (p Pair) Either(holds func(*spec.Limit) bool) bool {
	return p.Old != nil && holds(p.Old) || p.New != nil && holds(p.New)
}

// ByPlan reports whether the limit depends on the plan before or after the edit.
func (p Pair) ByPlan() bool {
	return p.Either(func(l *spec.Limit) bool { return len(l.Plans) > 0 })
}

// EitherPolicy is either for the policies.
func (p Pair) EitherPolicy(holds func(*runtime.Policy) bool) bool {
	return p.Either(func(l *spec.Limit) bool { return holds(&l.Policy) })
}

// HasCalendar reports whether the windows of a policy are days, weeks, months or years.
func HasCalendar(p *runtime.Policy) bool { return p.Calendar.Unit != 0 }

// InFlight reports whether a policy counts slots, and not tokens.
func InFlight(p *runtime.Policy) bool { return p.Kind == runtime.InFlight }

// InFlightChanged reports whether tokens become slots, or slots tokens.
func InFlightChanged(p Pair) bool { return InFlight(&p.Old.Policy) != InFlight(&p.New.Policy) }

func (p Pair) HasCalendar() bool { return p.EitherPolicy(HasCalendar) }

// UnitChanged reports whether a calendar appears or disappears.
func UnitChanged(p Pair) bool { return HasCalendar(&p.Old.Policy) != HasCalendar(&p.New.Policy) }

// ModesDiffer reports whether the modes, and not the numbers, decide which version lets more through.
func (p Pair) ModesDiffer() bool {
	return p.Old != nil && p.New != nil && p.Old.Policy.Mode != p.New.Policy.Mode
}

// Limited returns a version of a plan that has numbers, or is 0; nil if both are unlimited.
func (p Pair) Limited() *spec.Limit {
	for _, l := range []*spec.Limit{p.Old, p.New} {
		if !l.Unlimited() {
			return l
		}
	}
	return nil
}

// Unblocked returns the limits, those of an unlimited plan as they are without a block, which is the same in both.
func (p Pair) Unblocked() Pair { return Pair{p.Old.Unblocked(), p.New.Unblocked()} }

// Enforced returns the limits as they were if they were enforced. Unlimited ones stay so, also those that a block hides.
func (p Pair) Enforced() Pair {
	enforce := func(l *spec.Limit) *spec.Limit {
		l = l.Unblocked()
		if l.Unlimited() {
			return l
		}
		c := *l
		c.Policy.Mode = runtime.ModeEnforce
		return &c
	}
	return Pair{enforce(p.Old), enforce(p.New)}
}

// SortedNames returns the names of the parts of a key in alphabetical order.
func SortedNames(parts []spec.KeyPart) []string {
	return slices.Sorted(slices.Values(spec.PartNames(parts)))
}

// PartTypes returns the types of the parts of a key, as limits.yaml has them.
func PartTypes(parts []spec.KeyPart) []string {
	return words.Of(parts, func(part spec.KeyPart) string { return part.Type })
}

// PartGoTypes returns the Go types of the parts of a key.
func PartGoTypes(parts []spec.KeyPart) []string { return words.Of(parts, spec.KeyPart.GoType) }
