package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// How a review treats the mode of a limit: if both versions have the same one, the limits are compared as if they were
// enforced, and a note says that they are not. If the modes differ, they alone decide what passes.

// lets orders modes by how much they let through. The value is the same for modes that let all requests pass.
var lets = map[runtime.Mode]int{
	runtime.ModeBlock:   0,
	runtime.ModeEnforce: 1,
	runtime.ModeShadow:  2,
	runtime.ModeOff:     2,

	runtime.ModeUnlimited: 2,
}

// letsThrough panics for an unknown mode instead of treating it like another one.
func letsThrough(m runtime.Mode) int {
	n, ok := lets[m]
	if !ok {
		panic(fmt.Sprintf("review: the mode %v is not described: add it to lets in gen/review/judge/modes.go", m))
	}
	return n
}

// modeLooseness is Loosened if the new mode lets more through, and Tightened if it lets less through.
func modeLooseness(p compare.Pair) []review.Class {
	return moreOrLess(letsThrough(p.Old.Policy.Mode), letsThrough(p.New.Policy.Mode))
}

func judgeMode(j *judgement) {
	was, is := j.Old.Policy.Mode, j.New.Policy.Mode
	j.ofRule, j.alone = true, modeLooseness(j.Pair)
	switch is {
	case runtime.ModeEnforce:
		j.note(review.Rule, "%s", enforcedAfter(was))
	case runtime.ModeShadow:
		j.note(review.Rule, "Every request passes at once, also one that the limit would deny or delay: Decision.Shadowed reports those. If the store fails, requests pass too.")
	case runtime.ModeOff:
		j.note(review.Rule, "Every request passes, and none is counted or reported.")
	case runtime.ModeBlock:
		j.note(review.Rule, "Every request is denied, with RetryAfter runtime.Never, and Wait fails at once.")
	}
	switch {
	case counts(was) && counts(is):
		j.note(review.Deploy, "Counts are kept: shadow mode takes the same tokens as enforce.")
	case counts(was):
		j.note(review.Deploy, "Rows stay in the table. If the limit is enforced again, a key has the tokens of its row, and those that have accrued since.")
	case counts(is):
		j.note(review.Deploy, "A key with a row has the tokens of that row, and those that have accrued since. Other keys are full.")
	}
	j.note(review.Deploy, "Until the old version has stopped, it treats requests as before.")
}

// counts reports whether a mode reads and writes rows.
func counts(m runtime.Mode) bool { return m == runtime.ModeEnforce || m == runtime.ModeShadow }

// enforcedAfter says what enforcing a limit changes.
func enforcedAfter(was runtime.Mode) string {
	switch was {
	case runtime.ModeShadow:
		return "Requests that Decision.Shadowed has reported so far are denied, and reservations are delayed. If the store fails, onError decides."
	case runtime.ModeOff:
		return "Requests are counted, and denied if too few tokens are left."
	default:
		return "Requests pass if enough tokens are left."
	}
}

// modeNote says that the limit is not enforced, for a new limit or an edit of its other fields that has an effect on its
// bounds.
func modeNote(p compare.Pair, classes []review.Class) []review.Note {
	switch {
	case p.New == nil || p.ModesDiffer():
		return nil
	case p.Old == nil:
		return modeSentence(p.New.Policy.Mode, ". The numbers are those of the limit if it were enforced.")
	case slices.Contains(classes, review.Loosened) || slices.Contains(classes, review.Tightened):
		return notEnforced(p.New.Policy.Mode)
	}
	return nil
}

// effects says what the modes do that do not enforce a limit.
var effects = map[runtime.Mode]string{
	runtime.ModeShadow: "every request passes",
	runtime.ModeOff:    "every request passes uncounted",
	runtime.ModeBlock:  "every request is denied",
}

// notEnforced says that the limit is not enforced, before and after an edit.
func notEnforced(mode runtime.Mode) []review.Note {
	return modeSentence(mode, ", before and after. The classes and numbers of this edit are those of the limit if it were enforced.")
}

// modeSentence says what a mode does; nothing for one that enforces the limit.
func modeSentence(mode runtime.Mode, rest string) []review.Note {
	effect := effects[mode]
	if effect == "" {
		return nil
	}
	return []review.Note{{About: review.Rule, Text: fmt.Sprintf("The mode is %v: %s%s", mode, effect, rest)}}
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
