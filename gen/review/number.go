package review

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
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
	// Interval is the length of the interval in which the tokens are the most; 0 for other numbers.
	Interval time.Duration
	// Old and New are the values; nil if the number does not apply. [math.MaxInt64] means that there is no bound.
	Old, New *int64
}

// Measure is a number that a rule implies for one key. All pages have their numbers from the measures below.
type Measure struct {
	// Name and Unit are those of the [Number].
	Name, Unit string
	interval   time.Duration
	value      func(*runtime.Policy) int64
	// least is 1 for a number that a policy without numbers does not have.
	least int64
}

// Within measures the most tokens in an interval, see [bounds.Within].
func Within(t time.Duration) Measure {
	name := "at once"
	if t > 0 {
		name = "in any " + words.Period(t)
	}
	return Measure{Name: name, Unit: Tokens, interval: t, value: func(p *runtime.Policy) int64 { return bounds.Within(p, t) }}
}

// WithinUnreserved is [Within] for callers who do not reserve.
func WithinUnreserved(t time.Duration) Measure {
	m := Within(t)
	m.Name += Unreserved
	m.value = func(p *runtime.Policy) int64 { return bounds.Within(bounds.Unreserved(p), t) }
	return m
}

// Measures returns the other measures, in the order in which pages have them.
func Measures() []Measure {
	length := func(name string, value func(*runtime.Policy) time.Duration) Measure {
		return Measure{Name: name, Unit: Nanoseconds, value: func(p *runtime.Policy) int64 { return int64(value(p)) }, least: 1}
	}
	return []Measure{
		length(NextToken, bounds.NextAfter),
		length("next token after reserving all", bounds.NextAfterReserving),
		length(FullAfter, bounds.FullAfter),
		length(Hold, func(p *runtime.Policy) time.Duration { return p.Hold }),
		{Name: LargestReservation, Unit: Tokens, value: largestReservation, least: 1},
		length(LongestDelay, bounds.LongestDelay),
	}
}

func largestReservation(p *runtime.Policy) int64 {
	if p.MaxReserved == runtime.Unbounded {
		return math.MaxInt64
	}
	return bounds.LargestReservation(p)
}

// Of returns the number for two policies, of which one may be nil.
func (m Measure) Of(old, new *runtime.Policy) Number {
	of := func(p *runtime.Policy) *int64 {
		if p == nil || (p.Inside().Numberless() || p.Inside().CountsOnly()) && m.least > 0 {
			return nil
		}
		if value := m.value(p); value >= m.least {
			return &value
		}
		return nil
	}
	return Number{Name: m.Name, Unit: m.Unit, Interval: m.interval, Old: of(old), New: of(new)}
}

// The units of numbers.
const (
	Tokens      = "tokens"
	Nanoseconds = "nanoseconds"
)

// The names of numbers that pages refer to, and the ending of the name of one for callers who do not reserve.
const (
	LargestReservation = "largest reservation"
	LongestDelay       = "longest delay"
	NextToken          = "next token after"
	FullAfter          = "full after"
	Hold               = "held at most, unless renewed"
	Unreserved         = ", without reserving"
)

// Equal reports whether two values are equal, or both are missing.
func Equal(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// Planned returns a name with the plan that it is for, if any.
func Planned(plan, name string) string {
	if plan == "" {
		return name
	}
	return fmt.Sprintf("%s: %s", plan, name)
}

// Label is the name, with the plan before it.
func (n Number) Label() string { return Planned(n.Plan, n.Name) }

// Unbounded is how a value without a bound is written.
const Unbounded = "unbounded"

// IsUnbounded reports whether a value stands for no bound.
func IsUnbounded(value int64) bool { return value == math.MaxInt64 }

// Format writes a value for people: 40,000 or 1m30s.
func (n Number) Format(value *int64) string {
	switch {
	case value == nil:
		return "none"
	case IsUnbounded(*value):
		return Unbounded
	case n.Unit == Nanoseconds:
		return words.Length(time.Duration(*value))
	}
	return words.Number(*value)
}

// Ratio returns how many times the old value the new one is, such as "×2". It is empty if there is no ratio, or it is
// within 5 percent of 1.
func (n Number) Ratio() string {
	if n.Old == nil || n.New == nil || *n.Old == 0 || *n.New == 0 || IsUnbounded(*n.Old) || IsUnbounded(*n.New) {
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

// Change writes a number before and after: "20 → 40 (×2)".
func (n Number) Change() string {
	if Equal(n.Old, n.New) {
		return n.Format(n.New) + " as before"
	}
	text := n.Format(n.Old) + " → " + n.Format(n.New)
	if ratio := n.Ratio(); ratio != "" {
		text += " (" + ratio + ")"
	}
	return text
}
