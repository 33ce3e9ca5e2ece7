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
	largestReservation = "largest reservation"
	longestDelay       = "longest delay"
	nextToken          = "next token after"
	unreserved         = ", without reserving"
)

func equal(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// planned returns a name with the plan that it is for, if any.
func planned(plan, name string) string {
	if plan == "" {
		return name
	}
	return fmt.Sprintf("%s: %s", plan, name)
}

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
