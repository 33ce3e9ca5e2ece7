package review

import (
	"fmt"
	"math"
	"strconv"
	"time"

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
	LargestReservation = "largest reservation"
	LongestDelay       = "longest delay"
	NextToken          = "next token after"
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

const Unbounded = "unbounded"

// IsUnbounded reports whether a value of n stands for no bound.
func (n Number) IsUnbounded(value int64) bool {
	return value == math.MaxInt64 || value == runtime.Unbounded && n.Name == LargestReservation
}

// Format writes a value for people: 40,000 or 1m30s.
func (n Number) Format(value *int64) string {
	switch {
	case value == nil:
		return "none"
	case n.IsUnbounded(*value):
		return Unbounded
	case n.Unit == Nanoseconds:
		return words.Length(time.Duration(*value))
	}
	return words.Number(*value)
}

// Ratio returns how many times the old value the new one is, such as "×2". It is empty if there is no ratio, or it is
// within 5 percent of 1.
func (n Number) Ratio() string {
	if n.Old == nil || n.New == nil || *n.Old == 0 || *n.New == 0 || n.IsUnbounded(*n.Old) || n.IsUnbounded(*n.New) {
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
