package review

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// deployNotes say how the rows that are stored are read under the new rule. Rows that nobody finds again are
// no matter.
func deployNotes(p pair, findings []Finding) (notes []Note) {
	changed := func(id string) bool {
		return slices.ContainsFunc(findings, func(f Finding) bool { return f.ID == id })
	}
	note := func(text string) {
		if text != "" {
			notes = append(notes, Note{Deploy, text})
		}
	}
	if p.old == nil || p.new == nil {
		return nil
	}
	ids := []string{"limit-renamed", "key-changed", "kind-changed", "rate-changed", "capacity-changed", "shards-changed"}
	if slices.ContainsFunc(ids, changed) || movesWindows(p) {
		note(togetherInWords(p))
	}
	if changed("limit-renamed") || len(p.old.Key) != len(p.new.Key) {
		return notes
	}
	if sentence := readAs(p); sentence != "" && (changed("kind-changed") || changed("rate-changed") || changed("start-changed")) {
		note(sentence)
		note(carriedInWords(Carried(p.old, p.new)))
	}
	if changed("capacity-changed") && p.new.Policy.Kind != runtime.SlidingWindow && p.new.Policy.Capacity > 0 {
		note(fillsInWords(p.old.Policy.Capacity, p.new.Policy.Capacity))
	}
	return notes
}

// readAs says what the stored value and instant mean under the new rule; "" if they mean what they did.
func readAs(p pair) string {
	old, new := &p.old.Policy, &p.new.Policy
	linear := new.Kind != runtime.SlidingWindow
	switch {
	case old.Kind != new.Kind && new.Kind == runtime.SlidingWindow:
		return "What a row lacks of " + spec.Grouped(new.Rate) + " counts as used in the window of its last take."
	case old.Kind == runtime.SlidingWindow && linear:
		return "A row has what was left of its window. What was used in the window before is forgotten."
	case old.Kind == runtime.TokenBucket && new.Kind == runtime.FixedWindow:
		return "A row has what it had at its last take, and nothing more until its next window begins."
	case old.Kind == runtime.FixedWindow && new.Kind == runtime.TokenBucket:
		return "A row has what it had in its window, and what accrues since that began."
	case movesWindows(p) && linear:
		return "The window in which a key is at the deploy ends at another time, and the next grants what accrued since it began."
	case movesWindows(p):
		return "What was used counts in the windows as they are now, and may be forgotten sooner."
	case !linear && old.Rate != new.Rate:
		return "A key has what it had left in its window: what it lacks of " + spec.Grouped(new.Rate) + " counts as used."
	case new.Kind == runtime.TokenBucket && (old.Rate != new.Rate || old.Period != new.Period):
		return "Counts are kept. The time since a key's last take counts at the new rate."
	case old.Rate != new.Rate:
		return "Counts are kept. The next window grants at the new rate."
	}
	return ""
}

func carriedInWords(most int64) string {
	if most == 0 {
		return "A key with less than one token left and nothing reserved has none right after the deploy either."
	}
	return "A key with less than one token left and nothing reserved has up to " + spec.Grouped(most) + " right after the deploy."
}

func fillsInWords(was, is int64) string {
	if is < was {
		return "A row that holds more than " + spec.Grouped(is) + " is cut to it."
	}
	return "A row fills up to " + spec.Grouped(is) + " from its last take on; a key without a row has them at once."
}
