package review

import (
	"math"
	"strconv"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Number is one thing that a rule comes to, before and after an edit.
type Number struct {
	// Name says what it is: "at once", "in any minute", "full after".
	Name string
	// Unit is [Tokens] or [Nanoseconds].
	Unit string
	// Old and New are the values; nil where there is none.
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
	unreserved         = ", unreserved"
)

// numbers returns what a limit comes to, before and after. Where reservations have no bound, it also returns what
// callers can use who do not reserve; where they have one, how much of it at once.
func numbers(p pair) (list []Number) {
	tell := func(name, unit string, value func(*runtime.Policy) int64, none int64) {
		n := Number{Name: name, Unit: unit, Old: valueOf(p.old, value, none), New: valueOf(p.new, value, none)}
		if n.Old != nil || n.New != nil {
			list = append(list, n)
		}
	}
	lasting := func(name string, value func(*runtime.Policy) time.Duration) {
		tell(name, Nanoseconds, func(p *runtime.Policy) int64 { return int64(value(p)) }, 0)
	}
	tell("at once", Tokens, func(p *runtime.Policy) int64 { return Within(p, 0) }, -1)
	for _, t := range p.periods() {
		tell("in any "+spec.PeriodInWords(t), Tokens, func(p *runtime.Policy) int64 { return Within(p, t) }, -1)
	}
	if p.is((*runtime.Policy).Reserves) {
		tell("at once"+unreserved, Tokens, func(p *runtime.Policy) int64 { return Within(spec.Unreserved(p), 0) }, -1)
	}
	if p.is(func(p *runtime.Policy) bool { return p.MaxReserved == runtime.Unbounded }) {
		for _, t := range p.periods() {
			tell("in any "+spec.PeriodInWords(t)+unreserved, Tokens, func(p *runtime.Policy) int64 { return Within(spec.Unreserved(p), t) }, -1)
		}
	}
	lasting("next token after", NextAfter)
	lasting("next token after reserving all", NextAfterReserving)
	lasting("full after", FullAfter)
	tell(largestReservation, Tokens, LargestReservation, 0)
	lasting(longestDelay, LongestDelay)
	return list
}

// is reports whether something holds for the limit before or after the edit.
func (p pair) is(what func(*runtime.Policy) bool) bool {
	return p.old != nil && what(&p.old.Policy) || p.new != nil && what(&p.new.Policy)
}

func valueOf(limit *spec.Limit, value func(*runtime.Policy) int64, none int64) *int64 {
	if limit == nil {
		return nil
	}
	if v := value(&limit.Policy); v != none {
		return &v
	}
	return nil
}

// same reports whether nothing has changed.
func (n Number) same() bool { return equal(n.Old, n.New) }

func equal(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// Telling returns the numbers that people are told: those that have changed, without an interval in which
// they are no others than in the one before it. Of a limit that is gone, there are none.
func (s *Subject) Telling() (list []Number) {
	if s.gone() {
		return nil
	}
	for i, n := range s.Numbers {
		if n.same() {
			continue
		}
		if i > 0 && equal(n.Old, s.Numbers[i-1].Old) && equal(n.New, s.Numbers[i-1].New) {
			continue
		}
		list = append(list, n)
	}
	return list
}

// unbounded is said of what has no bound, or none that can be counted.
const unbounded = "unbounded"

func (n Number) boundless(value int64) bool {
	return value == math.MaxInt64 || value == runtime.Unbounded && n.Name == largestReservation
}

// words returns a value as people read it: 40,000 or 1m30s.
func (n Number) words(value *int64) string {
	switch {
	case value == nil:
		return "none"
	case n.boundless(*value):
		return unbounded
	case n.Unit == Nanoseconds:
		return length(time.Duration(*value))
	}
	return spec.Grouped(*value)
}

// ratio returns how many times as much a number is as before, such as "×2"; "" if that cannot be told or is next to
// nothing.
func (n Number) ratio() string {
	if n.Old == nil || n.New == nil || *n.Old == 0 || n.boundless(*n.Old) || n.boundless(*n.New) {
		return ""
	}
	times := float64(*n.New) / float64(*n.Old)
	if 0.95 < times && times < 1.05 {
		return ""
	}
	switch {
	case times < 0.001:
		return "×0.001 or less"
	case times >= 10:
		return "×" + spec.Grouped(int64(math.Round(times)))
	}
	return "×" + strconv.FormatFloat(times, 'g', 2, 64)
}

// change is a number before and after: "20 → 40 (×2)".
func (n Number) change() string {
	text := n.words(n.Old) + " → " + n.words(n.New)
	if ratio := n.ratio(); ratio != "" {
		text += " (" + ratio + ")"
	}
	return text
}

// length writes a duration to three digits or so, rounded up: nobody reads nanoseconds beside hours.
func length(d time.Duration) string {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond} {
		if d >= 100*unit {
			return spec.Duration((d + unit - 1) / unit * unit)
		}
	}
	return spec.Duration(d)
}
