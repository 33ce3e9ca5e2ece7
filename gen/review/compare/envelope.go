package compare

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Looseness returns Loosened if the new rule lets more tokens through in an interval of some length, Tightened if it
// lets fewer through in some, or both. The rules are compared by their envelopes: an envelope gives the most tokens in an
// interval as a function of its length, see [bounds.Within].
func Looseness(old, new *runtime.Policy) (classes []review.Class) {
	old, new = effective(old), effective(new)
	more, fewer := envelopesDiffer(old, new)
	// The envelopes of two rules with unbounded reservations are equal, so those of calls without reservations count too.
	if old.Reserves() || new.Reserves() {
		moreUnreserved, fewerUnreserved := envelopesDiffer(bounds.Unreserved(old), bounds.Unreserved(new))
		more, fewer = more || moreUnreserved, fewer || fewerUnreserved
	}
	if more {
		classes = append(classes, review.Loosened)
	}
	if fewer {
		classes = append(classes, review.Tightened)
	}
	return classes
}

// envelopesDiffer reports whether the new envelope is above the old one at some length, and whether it is below it at some.
func envelopesDiffer(old, new *runtime.Policy) (more, fewer bool) {
	// A higher rate exceeds any lead that the other rule has, in a long enough interval.
	more, fewer = LongRun(old, new)
	was, is := bounds.EnvelopeOf(old), bounds.EnvelopeOf(new)
	lengths := []int64{0}
	if !isLine(old) || !isLine(new) {
		lengths = decisiveLengths(&was, &is)
	}
	for _, t := range lengths {
		if more && fewer {
			break
		}
		order := cmp.Compare(is.Within(time.Duration(t)), was.Within(time.Duration(t)))
		more, fewer = more || order > 0, fewer || order < 0
	}
	return more, fewer
}

// isLine reports whether an envelope is a straight line, but for rounding. Two lines are compared by their ends alone.
func isLine(p *runtime.Policy) bool { return !Windowed(p) && !p.Precise && p.Lease.For == 0 }

// LongRun compares rates in the long run.
//
// How many slots of a limit in flight are acquired has no bound, whatever its capacity.
func LongRun(old, new *runtime.Policy) (more, fewer bool) {
	if was, is := old.Kind == runtime.InFlight, new.Kind == runtime.InFlight; was || is {
		return is && !was, was && !is
	}
	if was, is := old.Inside().CountsOnly(), new.Inside().CountsOnly(); was || is {
		return !was, !is
	}
	c := Rates(LongRunRate(new), new.Period, LongRunRate(old), old.Period)
	return c > 0, c < 0
}

// Rates compares a rate in a period with another one, as [cmp.Compare] does. It multiplies crosswise in 128 bits instead of
// dividing, which would round.
func Rates(rate int64, period time.Duration, other int64, otherPeriod time.Duration) int {
	high, low := bits.Mul64(uint64(rate), uint64(otherPeriod))
	otherHigh, otherLow := bits.Mul64(uint64(other), uint64(period))
	return cmp.Or(cmp.Compare(high, otherHigh), cmp.Compare(low, otherLow))
}

// LongRunRate returns how many tokens a rule grants in a period, on average over a long time.
func LongRunRate(p *runtime.Policy) int64 { return TraitsOf(p).LongRun(p) }

// mostWindows bounds how many windows of the longer period are compared. If the periods have almost no common divisor,
// the envelopes have met in all but the most exact way by then.
const mostWindows = 500

// decisiveLengths returns the lengths at which one of two envelopes can be the furthest above the other: where one
// grants a window, and where the next token is due on either side of that. Apart from the long run, envelopes repeat with
// their periods, so lengths up to the first common multiple of both periods are enough.
func decisiveLengths(one, other *bounds.Envelope) (lengths []int64) {
	long, short := windowPeriod(one.Policy), windowPeriod(other.Policy)
	if long < short {
		long, short = short, long
	}
	offsets := jumpOffsets(one.Policy, other.Policy)
	ends := []int64{0}
	if long > 0 {
		n := int64(2)
		if short > 0 {
			n += min(mostWindows, short/gcd(long, short))
		}
		for i := range min(n+1, math.MaxInt64/16/long) { // later ones would overflow
			ends = append(ends, i*long)
			if short > 0 {
				last := i * long / short * short
				ends = append(ends, last-short, last, last+short, last+2*short)
			}
		}
	}
	for _, p := range []*runtime.Policy{one.Policy, other.Policy} {
		// The windows of a calendar differ in length, and repeat after 400 years.
		for n := int64(0); HasCalendar(p) && n < 60; n++ {
			ends = append(ends, int64(bounds.ShortestSpan(p.Calendar, n)))
		}
	}
	slices.Sort(ends)
	for _, end := range slices.Compact(ends) {
		for _, offset := range offsets {
			// Envelopes jump within a nanosecond, so both sides of the jump count.
			for _, t := range []int64{end + offset - 1, end + offset, end + offset + 1} {
				if t >= 0 {
					lengths = append(lengths, t)
				}
			}
		}
	}
	return withTokenJumps(lengths, one, other)
}

// windowPeriod is 0 for a rule whose tokens do not come back a period at a time.
func windowPeriod(p *runtime.Policy) int64 {
	if !Windowed(p) && !p.Precise {
		return 0
	}
	return int64(p.Period)
}

// jumpOffsets returns how far from the end of a period envelopes jump.
func jumpOffsets(policies ...*runtime.Policy) []int64 {
	list := []int64{0}
	for _, p := range policies {
		if p.Start.FirstUse() && p.Reserves() && p.MaxReserved < runtime.Unbounded {
			// Here the interval starts when a full reservation is due, so its windows started that much earlier.
			list = append(list, -(int64(bounds.LongestDelay(p)) % int64(p.Period)))
		}
	}
	return list
}

// withTokenJumps adds the lengths at which either rule lets the next token through, and the last one before the next
// length.
func withTokenJumps(lengths []int64, envelopes ...*bounds.Envelope) []int64 {
	slices.Sort(lengths)
	lengths = slices.Compact(lengths)
	all := slices.Clone(lengths)
	for i, t := range lengths {
		until := t + int64(envelopes[0].Period) + int64(envelopes[1].Period)
		if i+1 < len(lengths) {
			until = lengths[i+1]
		}
		if until-t < 3 {
			continue // no length in between
		}
		for _, e := range envelopes {
			fewest, most := e.Within(time.Duration(t)), e.Within(time.Duration(until-1))
			first, last := until-1, t
			if fewest < most {
				first, last = shortestWith(e, t, until, fewest+1), shortestWith(e, t, until, most)
			}
			all = append(all, first, max(t, first-1), last, max(t, last-1))
		}
	}
	return all
}

// shortestWith returns the shortest length from low to before high in which a rule lets a number of tokens through, or
// high-1 if it does not.
func shortestWith(e *bounds.Envelope, low, high, tokens int64) int64 {
	for low < high-1 {
		middle := low + (high-1-low)/2
		if e.Within(time.Duration(middle)) >= tokens {
			high = middle + 1
		} else {
			low = middle + 1
		}
	}
	return low
}

// IntervalNotes say in which intervals an edit is looser and in which tighter, if it is both and there is one length
// that separates them.
func IntervalNotes(p Pair) []review.Note {
	if p.Old == nil || p.New == nil || p.ModesDiffer() || p.EitherPolicy(InFlight) {
		return nil
	}
	old, new := effective(&p.Old.Policy), effective(&p.New.Policy)
	if p.EitherPolicy(func(p *runtime.Policy) bool { return p.MaxReserved == runtime.Unbounded }) {
		// Otherwise there is nothing to compare: every interval is unbounded on one side.
		old, new = bounds.Unreserved(old), bounds.Unreserved(new)
	}
	was, is := bounds.EnvelopeOf(old), bounds.EnvelopeOf(new)
	lengths := decisiveLengths(&was, &is)
	slices.Sort(lengths)
	shorter, longer := "looser", "tighter"
	until, ok := looserUntil(&was, &is, lengths)
	if !ok {
		if until, ok = looserUntil(&is, &was, lengths); !ok {
			return nil
		}
		shorter, longer = longer, shorter
	}
	return []review.Note{{About: review.Rule,
		Text: fmt.Sprintf("The limit is %s in intervals of up to about %s, and %s in longer ones.", shorter, words.Length(until), longer)}}
}

// looserUntil returns the length of the longest intervals in which a new rule lets more tokens through, provided that it
// lets fewer through in some longer ones and in no shorter ones. It takes the decisive lengths in order.
func looserUntil(old, new *bounds.Envelope, list []int64) (time.Duration, bool) {
	compare := func(t int64) int {
		return cmp.Compare(new.Within(time.Duration(t)), old.Within(time.Duration(t)))
	}
	list = slices.Clip(list)
	for t := max(1, list[len(list)-1]); t < math.MaxInt64/4; t *= 2 { // in the long run the rates decide
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
	// The rules cross between two decisive lengths.
	for looser+1 < tighter {
		if middle := looser + (tighter-looser)/2; compare(middle) > 0 {
			looser = middle
		} else {
			tighter = middle
		}
	}
	return time.Duration(looser), true
}

// effective returns the policy with the capacity that its kind enforces.
func effective(p *runtime.Policy) *runtime.Policy {
	if !Sliding(p) || p.Capacity == p.Rate {
		return p
	}
	same := *p
	same.Capacity = p.Rate
	return &same
}

// WithOneChange returns the old rule with a single change, to be compared with the old rule. If no limit can have only that
// change, it returns the new rule. A capacity of 0 stays, because it is a rule under which nothing passes.
func (p Pair) WithOneChange(change func(policy *runtime.Policy)) *runtime.Policy {
	policy := p.Old.Policy
	change(&policy)
	changed := effective(&policy)
	if changed.Validate() != nil && changed.Full() > 0 {
		return effective(&p.New.Policy)
	}
	return changed
}
