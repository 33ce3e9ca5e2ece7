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
	duration(nextToken, NextAfter)
	duration("next token after reserving all", NextAfterReserving)
	duration("full after", FullAfter)
	add(largestReservation, Tokens, LargestReservation, 0)
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
		return Length(time.Duration(*value))
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

// Length writes a duration with about three digits, rounded up, because nanoseconds do not matter beside hours.
func Length(d time.Duration) string {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond} {
		if d >= 100*unit {
			return words.Duration((d + unit - 1) / unit * unit)
		}
	}
	return words.Duration(d)
}

// FullAfter returns how long it takes at most until a key that has used all of its capacity, and reserved nothing, is
// full again if it takes no more tokens. It is 0 for a limit with capacity 0. For a limit with shards it is the time of
// the slowest shard.
func FullAfter(p *runtime.Policy) time.Duration {
	longest := time.Duration(0)
	for _, i := range distinctShards(p) {
		rule := p.Rule("").Shard(i, max(1, p.Shards))
		if rule.Capacity < 1 {
			continue
		}
		// From the start of a window a full key takes the longest.
		longest = max(longest, bounds.Longest(p, func(start int64) time.Duration {
			_, d, err := rule.Step(runtime.State{}, start, runtime.Request{Count: int64(rule.Capacity)})
			if err != nil {
				panic("review: taking the capacity of a full key failed: " + err.Error())
			}
			return d.FullAfter
		}))
	}
	return longest
}

// distinctShards returns a shard for each combination of rate and capacity. Shares of one number have two sizes, the
// larger first, so the shard after the last larger share starts a new combination.
func distinctShards(p *runtime.Policy) []int {
	n := int64(max(1, p.Shards))
	return []int{0, int(p.Rate % n), int(p.Capacity % n)}
}

// NextAfter returns how long it takes at most until a key that has used all of its capacity, and reserved nothing, has a
// token again. That takes longest if all was used when a window started. It is 0 for a limit with capacity 0.
func NextAfter(p *runtime.Policy) time.Duration { return emptyFor(p, p.Capacity) }

// NextAfterReserving returns how long it takes at most until a key that has reserved all that it can, too, has a token
// that need not be reserved. It is 0 for a limit that cannot be reserved or has capacity 0, and [math.MaxInt64] for one
// whose reservations are unbounded.
func NextAfterReserving(p *runtime.Policy) time.Duration {
	switch {
	case !p.Reserves():
		return 0
	case p.MaxReserved == runtime.Unbounded && p.Capacity > 0:
		return math.MaxInt64
	}
	return emptyFor(p, p.Capacity+p.MaxReserved)
}

// emptyFor returns how long a key has no token after a count was taken when a window started.
func emptyFor(p *runtime.Policy, count int64) time.Duration {
	if p.Capacity < 1 {
		return 0
	}
	rule := p.Rule("")
	return bounds.Longest(p, func(start int64) time.Duration {
		state, _, err := rule.Step(runtime.State{}, start, runtime.Request{Count: count, Reserve: count > p.Capacity})
		if err != nil {
			panic("review: taking all tokens of a full key failed: " + err.Error())
		}
		_, d, err := rule.Step(state, start, runtime.Request{Op: runtime.Check, Count: 1})
		if err != nil {
			panic("review: checking for one token failed: " + err.Error())
		}
		return d.RetryAfter
	})
}

// LargestReservation returns the largest count that can be reserved at once: the capacity and maxReserved. It is 0 for a
// limit that cannot be reserved, and [runtime.Unbounded] for one whose reservations are unbounded.
func LargestReservation(p *runtime.Policy) int64 {
	if !p.Reserves() {
		return 0
	}
	return min(p.Capacity+p.MaxReserved, runtime.Unbounded)
}

// LongestDelay is [bounds.LongestDelay].
func LongestDelay(p *runtime.Policy) time.Duration { return bounds.LongestDelay(p) }

// Within is [bounds.Within].
func Within(p *runtime.Policy, t time.Duration) int64 { return bounds.Within(p, t) }
