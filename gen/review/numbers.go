package review

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Number is a bound of a rule, before and after an edit.
type Number struct {
	// Plan is the plan that the bound is for; "" for a limit that does not depend on the plan.
	Plan string
	// Name names the bound: "at once", "in any minute", "full after".
	Name string
	// Unit is [Tokens] or [Nanoseconds].
	Unit string
	// Old and New are the values; nil if the number does not apply. [math.MaxInt64] means that there
	// is no bound, and so does [runtime.Unbounded] for the largest reservation.
	Old, New *int64
}

// The units of numbers.
const (
	Tokens      = "tokens"
	Nanoseconds = "nanoseconds"
)

const (
	largestReservation = "largest reservation"
	longestDelay       = "longest delay"
	nextToken          = "next token after"
	unreserved         = ", without reserving"
)

// numbersOf returns the bounds of a limit before and after. If reservations are possible, it includes how much callers
// can use at once without them; if they are unbounded, the bounds of all intervals for such callers, because the others
// say nothing then. If the modes differ, only an enforced version has these bounds.
func numbersOf(p pair) (list []Number) {
	add := func(name, unit string, value func(*runtime.Policy) int64, absent int64) {
		n := Number{Name: name, Unit: unit, Old: valueOf(p.old, value, absent), New: valueOf(p.new, value, absent)}
		if n.Old != nil || n.New != nil {
			list = append(list, n)
		}
	}
	// A number of tokens is absent if it is -1, because 0 is a bound. A duration is absent if it is 0.
	tokens := func(name string, t time.Duration) {
		add(name, Tokens, func(p *runtime.Policy) int64 { return bounds.Within(p, t) }, -1)
	}
	tokensUnreserved := func(name string, t time.Duration) {
		add(name+unreserved, Tokens, func(p *runtime.Policy) int64 { return bounds.Within(bounds.Unreserved(p), t) }, -1)
	}
	duration := func(name string, value func(*runtime.Policy) time.Duration) {
		add(name, Nanoseconds, func(p *runtime.Policy) int64 { return int64(value(p)) }, 0)
	}
	tokens("at once", 0)
	for _, t := range p.periods() {
		tokens("in any "+words.Period(t), t)
	}
	if p.eitherPolicy((*runtime.Policy).Reserves) {
		tokensUnreserved("at once", 0)
	}
	if p.eitherPolicy(func(p *runtime.Policy) bool { return p.MaxReserved == runtime.Unbounded }) {
		for _, t := range p.periods() {
			tokensUnreserved("in any "+words.Period(t), t)
		}
	}
	duration(nextToken, bounds.NextAfter)
	duration("next token after reserving all", bounds.NextAfterReserving)
	duration("full after", bounds.FullAfter)
	add(largestReservation, Tokens, bounds.LargestReservation, 0)
	duration(longestDelay, bounds.LongestDelay)
	if p.modesDiffer() {
		for i, n := range list {
			list[i].Old, list[i].New = inMode(p.old.Policy.Mode, n, n.Old), inMode(p.new.Policy.Mode, n, n.New)
		}
		list = slices.DeleteFunc(list, func(n Number) bool { return n.Old == nil && n.New == nil })
	}
	return list
}

// eitherPolicy is either for the policies.
func (p pair) eitherPolicy(holds func(*runtime.Policy) bool) bool {
	return p.either(func(l *spec.Limit) bool { return holds(&l.Policy) })
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

// shownNumbers returns the numbers to print: those that changed, and beside them how long whoever hits the limit is denied.
// An interval with the same values as the one before it is left out, and so is everything about a removed limit.
func (s *Subject) shownNumbers() (list []Number) {
	if s.removed() {
		return nil
	}
	changed := slices.ContainsFunc(s.Numbers, func(n Number) bool { return !equal(n.Old, n.New) })
	for i, n := range s.Numbers {
		if equal(n.Old, n.New) && !(changed && n.Name == nextToken && n.Plan == "") {
			continue
		}
		if i > 0 && n.Plan == s.Numbers[i-1].Plan && equal(n.Old, s.Numbers[i-1].Old) && equal(n.New, s.Numbers[i-1].New) {
			continue
		}
		list = append(list, n)
	}
	return list
}

func equal(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// label is the name, with the plan before it.
func (n Number) label() string { return planned(n.Plan, n.Name) }

const unbounded = "unbounded"

func (n Number) isUnbounded(value int64) bool {
	return value == math.MaxInt64 || value == runtime.Unbounded && n.Name == largestReservation
}

// format writes a value for people: 40,000 or 1m30s.
func (n Number) format(value *int64) string {
	switch {
	case value == nil:
		return "none"
	case n.isUnbounded(*value):
		return unbounded
	case n.Unit == Nanoseconds:
		return words.Length(time.Duration(*value))
	}
	return words.Number(*value)
}

// ratio returns how many times the old value the new one is, such as "×2". It is empty if there is no ratio, or it is
// within 5 percent of 1.
func (n Number) ratio() string {
	if n.Old == nil || n.New == nil || *n.Old == 0 || *n.New == 0 || n.isUnbounded(*n.Old) || n.isUnbounded(*n.New) {
		return ""
	}
	// Two digits are printed, so the rounding of a float does not matter.
	times := float64(*n.New) / float64(*n.Old)
	if 0.95 < times && times < 1.05 {
		return ""
	}
	switch {
	case times < 0.001:
		return "×0.001 or less"
	case times >= 10:
		return "×" + words.Number(int64(math.Round(times)))
	}
	return "×" + strconv.FormatFloat(times, 'g', 2, 64)
}

// change writes a number before and after: "20 → 40 (×2)".
func (n Number) change() string {
	if equal(n.Old, n.New) {
		return n.format(n.New) + " as before"
	}
	text := n.format(n.Old) + " → " + n.format(n.New)
	if ratio := n.ratio(); ratio != "" {
		text += " (" + ratio + ")"
	}
	return text
}
