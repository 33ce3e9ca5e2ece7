package review

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// looseness returns Loosened if the new rule lets more tokens through in an interval of some length, Tightened if it
// lets fewer through in some, or both.
func looseness(old, new *runtime.Policy) (classes []Class) {
	if exceeds(new, old) {
		classes = append(classes, Loosened)
	}
	if exceeds(old, new) {
		classes = append(classes, Tightened)
	}
	return classes
}

// exceeds reports whether one rule lets more tokens through than another in an interval of some length: of all
// tokens, or of those that are not reserved.
func exceeds(one, other *runtime.Policy) bool {
	one, other = effective(one), effective(other)
	return envelopeExceeds(one, other) || (one.Reserves() || other.Reserves()) && envelopeExceeds(spec.Unreserved(one), spec.Unreserved(other))
}

// effective returns a policy in which the capacity of a sliding window is its rate.
func effective(p *runtime.Policy) *runtime.Policy {
	if p.Kind != runtime.SlidingWindow || p.Capacity == p.Rate {
		return p
	}
	same := *p
	same.Capacity = p.Rate
	return &same
}

// envelopeExceeds compares the most tokens in intervals of all lengths. The numbers of a rule repeat with its period
// but for what is granted in the long run. So after that, the lengths up to the first that both periods divide are
// enough; and in between, those at which either number bends or jumps.
func envelopeExceeds(one, other *runtime.Policy) bool {
	if more, _ := longRun(other, one); more {
		return true
	}
	if line(one) && line(other) {
		return Within(one, 0) > Within(other, 0)
	}
	return slices.ContainsFunc(bends(one, other), func(t int64) bool {
		return Within(one, time.Duration(t)) > Within(other, time.Duration(t))
	})
}

// line reports whether the most tokens in an interval are a whole number and what accrues in it, so that of two rules
// the one that grants more in the long run, or more at once, is the one that exceeds the other.
func line(p *runtime.Policy) bool { return p.Kind == runtime.TokenBucket && p.Lease.For == 0 }

// longRun compares the rates per time.
func longRun(old, new *runtime.Policy) (more, fewer bool) {
	high, low := bits.Mul64(uint64(grant(new)), uint64(old.Period))
	highWas, lowWas := bits.Mul64(uint64(grant(old)), uint64(new.Period))
	switch {
	case high != highWas:
		return high > highWas, high < highWas
	default:
		return low > lowWas, low < lowWas
	}
}

// grant is how many tokens a rule grants in a period in the long run.
func grant(p *runtime.Policy) int64 {
	if p.Kind == runtime.FixedWindow {
		return min(p.Rate, p.Capacity+p.MaxReserved)
	}
	if p.Capacity+p.MaxReserved == 0 {
		return 0
	}
	return p.Rate
}

// mostWindows is how many windows of the longer period are looked at. If the periods have next to nothing in common,
// both numbers have met in all but the most exact way by then.
const mostWindows = 500

// bends returns the lengths at which one of two rules can let the most tokens through compared with the other: where
// one grants a window, and where the next token is due on either side of that.
func bends(one, other *runtime.Policy) (lengths []int64) {
	long, short := windows(one), windows(other)
	if long < short {
		long, short = short, long
	}
	around := offsets(one, other)
	ends := []int64{0}
	if long > 0 {
		n := int64(2)
		if short > 0 {
			n += min(mostWindows, short/gcd(long, short))
		}
		for i := range min(n+1, math.MaxInt64/16/long) {
			ends = append(ends, i*long)
			if short > 0 {
				last := i * long / short * short
				ends = append(ends, last-short, last, last+short, last+2*short)
			}
		}
	}
	slices.Sort(ends)
	for _, end := range slices.Compact(ends) {
		for _, offset := range around {
			for _, t := range []int64{end + offset - 1, end + offset, end + offset + 1} {
				if t >= 0 {
					lengths = append(lengths, t)
				}
			}
		}
	}
	return withJumps(lengths, one, other)
}

// spanNotes says where an edit is looser and where it is tighter, if it is both.
func spanNotes(p pair) []Note {
	if p.old == nil || p.new == nil {
		return nil
	}
	old, new := effective(&p.old.Policy), effective(&p.new.Policy)
	if p.is(func(p *runtime.Policy) bool { return p.MaxReserved == runtime.Unbounded }) {
		old, new = spec.Unreserved(old), spec.Unreserved(new)
	}
	shorter, longer := "looser", "tighter"
	until, ok := turn(old, new)
	if !ok {
		if until, ok = turn(new, old); !ok {
			return nil
		}
		shorter, longer = longer, shorter
	}
	return []Note{{Rule, fmt.Sprintf("It is %s in spans of up to about %s, and %s in longer ones.", shorter, length(until), longer)}}
}

// turn returns about how long the longest intervals are in which a new rule lets more tokens through, if it lets fewer
// through in longer ones and never the other way round.
func turn(old, new *runtime.Policy) (time.Duration, bool) {
	compare := func(t int64) int { return cmp.Compare(Within(new, time.Duration(t)), Within(old, time.Duration(t))) }
	list := bends(old, new)
	slices.Sort(list)
	for t := max(1, list[len(list)-1]); t < math.MaxInt64/4; t *= 2 { // the long run
		list = append(list, 2*t+1)
	}
	looser, tighter := int64(-1), int64(-1)
	for _, t := range list {
		switch order := compare(t); {
		case order > 0 && tighter >= 0:
			return 0, false
		case order > 0:
			looser = t
		case order < 0 && tighter < 0:
			tighter = t
		}
	}
	if looser < 0 || tighter < 0 {
		return 0, false
	}
	for looser+1 < tighter {
		if middle := looser + (tighter-looser)/2; compare(middle) > 0 {
			looser = middle
		} else {
			tighter = middle
		}
	}
	return time.Duration(looser), true
}

// windows returns the period of a rule with windows, 0 for one without.
func windows(p *runtime.Policy) int64 {
	if p.Kind == runtime.TokenBucket {
		return 0
	}
	return int64(p.Period)
}

// offsets returns how far from the end of a period the number of a rule jumps.
func offsets(policies ...*runtime.Policy) []int64 {
	list := []int64{0}
	for _, p := range policies {
		if p.Start.FirstUse() && p.Reserves() && p.MaxReserved < runtime.Unbounded {
			list = append(list, -(int64(spec.LongestDelay(p)) % int64(p.Period)))
		}
	}
	return list
}

// withJumps adds to some lengths those of the next token of either rule, and of the last one before the next length.
func withJumps(lengths []int64, policies ...*runtime.Policy) []int64 {
	slices.Sort(lengths)
	lengths = slices.Compact(lengths)
	all := slices.Clone(lengths)
	for i, t := range lengths {
		until := t + int64(policies[0].Period) + int64(policies[1].Period)
		if i+1 < len(lengths) {
			until = lengths[i+1]
		}
		if until-t < 3 {
			continue
		}
		for _, p := range policies {
			first := firstWith(p, t, until, add1(Within(p, time.Duration(t))))
			last := firstWith(p, t, until, Within(p, time.Duration(until-1)))
			all = append(all, first, max(t, first-1), last, max(t, last-1))
		}
	}
	return all
}

func add1(n int64) int64 {
	if n == math.MaxInt64 {
		return n
	}
	return n + 1
}

// firstWith returns the shortest length from low to before high in which a rule lets so many tokens through; high-1
// if none does.
func firstWith(p *runtime.Policy, low, high, tokens int64) int64 {
	for low < high-1 {
		middle := low + (high-1-low)/2
		if Within(p, time.Duration(middle)) >= tokens {
			high = middle + 1
		} else {
			low = middle + 1
		}
	}
	return low
}
