package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// How a review treats the mode of a limit: if both versions have the same one, the limits are compared as if they were
// enforced, and a note says that they are not. If the modes differ, they alone decide what passes.

// mode is what a review has to know about a mode.
type mode struct {
	// lets orders modes by how much they let through. It is the same for modes that let all requests pass.
	lets int
	// counts is true if the mode reads and writes rows.
	counts bool
	// effect is what happens to requests, and news a sentence about a limit that gets the mode; both are empty for enforce.
	effect, news string
}

var modes = map[runtime.Mode]mode{
	runtime.ModeBlock: {
		effect: "every request is denied",
		news:   "Every request is denied, with RetryAfter runtime.Never, and Wait fails at once.",
	},
	runtime.ModeEnforce: {lets: 1, counts: true},
	runtime.ModeShadow: {
		lets: 2, counts: true,
		effect: "every request passes",
		news:   "Every request passes at once, also one that the limit would deny or delay: Decision.Shadowed reports those. If the store fails, requests pass too.",
	},
	runtime.ModeOff: {
		lets:   2,
		effect: "every request passes uncounted",
		news:   "Every request passes, and none is counted or reported.",
	},
	runtime.ModeUnlimited: {lets: 2},
}

// modeOf panics for an unknown mode instead of treating it like another one.
func modeOf(l *spec.Limit) mode {
	m, ok := modes[l.Policy.Mode]
	if !ok {
		panic(fmt.Sprintf("review: the mode %v is not described: add it to modes in gen/review/judge/modes.go", l.Policy.Mode))
	}
	if l.Zero() && l.Policy.Mode == runtime.ModeEnforce {
		m.lets = modes[runtime.ModeBlock].lets
	}
	if l.CountsOnly() && l.Policy.Mode == runtime.ModeEnforce {
		m.lets = modes[runtime.ModeUnlimited].lets
	}
	return m
}

// modeLooseness is Loosened if the new mode lets more through, and Tightened if it lets less through.
func modeLooseness(p compare.Pair) []review.Class {
	return moreOrLess(modeOf(p.Old).lets, modeOf(p.New).lets)
}

// loosenessOf compares the whole rules: the tokens in intervals of all lengths, and the largest reservation.
func loosenessOf(p compare.Pair) []review.Class {
	if p.Old == nil || p.New == nil {
		return nil
	}
	if p.ModesDiffer() {
		return modeLooseness(p)
	}
	old, new := &p.Old.Policy, &p.New.Policy
	// How much one call can reserve is no matter of intervals, so it is compared separately.
	classes := append(compare.Looseness(old, new),
		moreOrLess(bounds.LargestReservation(old), bounds.LargestReservation(new))...)
	slices.Sort(classes)
	return slices.Compact(classes)
}

func judgeMode(j *judgement) {
	was, is := modeOf(j.Old), modeOf(j.New)
	j.ofRule, j.alone = true, modeLooseness(j.Pair)
	if is.news == "" {
		is.news = enforcedAfter(j.Old.Policy.Mode, &j.New.Policy)
	}
	j.note(review.Rule, "%s", is.news)
	if is.lets > max(was.lets, modes[runtime.ModeEnforce].lets) {
		j.risk(review.Unlimited, false)
	}
	switch slots := compare.InFlight(&j.Old.Policy) && compare.InFlight(&j.New.Policy); {
	case slots && was.counts && is.counts:
		j.note(review.Deploy, "Slots that are held stay held. What has passed in shadow mode while all slots were in use holds none.")
	case slots && was.counts:
		j.note(review.Deploy, "Rows stay in the table. If the limit is enforced again, slots whose holds have not ended are held.")
	case slots && is.counts:
		j.note(review.Deploy, "What runs since before the deploy holds no slot, so more can run at once until it has ended.")
	case was.counts && is.counts:
		j.note(review.Deploy, "Counts are kept: shadow mode takes the same tokens as enforce.")
	case was.counts:
		j.note(review.Deploy, "Rows stay in the table. If the limit is enforced again, a key has the tokens of its row, and those that have accrued since.")
	case is.counts:
		j.note(review.Deploy, "A key with a row has the tokens of that row, and those that have accrued since. Other keys are full.")
	}
	j.note(review.Deploy, "Until the old version has stopped, it treats requests as before.")
}

// enforcedAfter says what enforcing a limit changes.
func enforcedAfter(was runtime.Mode, p *runtime.Policy) string {
	switch was {
	case runtime.ModeShadow:
		delayed := ""
		if p.Reserves() {
			delayed = ", and reservations are delayed"
		}
		return "Requests that Decision.Shadowed has reported so far are denied" + delayed +
			". If the store fails, onError decides."
	case runtime.ModeOff:
		return "Requests are counted, and denied if too few " + spec.Unit(p) + "s are left."
	default:
		return "Requests pass if enough " + spec.Unit(p) + "s are left."
	}
}

// modeNote says that the limit is not enforced, for a new limit or an edit of its other fields that has an effect on its
// bounds.
func modeNote(p compare.Pair, classes []review.Class) []review.Note {
	switch {
	case p.New == nil || p.ModesDiffer():
		return nil
	case p.Old == nil:
		return modeSentence(p.New, ". The numbers are those of the limit if it were enforced.")
	case slices.Contains(classes, review.Loosened) || slices.Contains(classes, review.Tightened):
		return notEnforced(p.New)
	}
	return nil
}

// notEnforced says that the limit is not enforced, before and after an edit.
func notEnforced(l *spec.Limit) []review.Note {
	return modeSentence(l, ", before and after. The classes and numbers of this edit are those of the limit if it were enforced.")
}

// modeSentence says what the mode of a limit does, unless it enforces the limit.
func modeSentence(l *spec.Limit, rest string) []review.Note {
	effect := modeOf(l).effect
	if effect == "" {
		return nil
	}
	return []review.Note{{About: review.Rule, Text: fmt.Sprintf("The mode is %v: %s%s", l.Policy.Mode, effect, rest)}}
}

// inMode returns a bound as the mode of the limit changes it.
func inMode(m runtime.Mode, n review.Number, value *int64) *int64 {
	everything, nothing := int64(math.MaxInt64), int64(0)
	switch isBound := n.Unit == review.Tokens && n.Name != review.LargestReservation; {
	case m == runtime.ModeEnforce:
		return value
	case !isBound:
		return nil
	case m == runtime.ModeBlock:
		return &nothing
	}
	return &everything
}
