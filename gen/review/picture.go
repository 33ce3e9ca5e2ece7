package review

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// mostPictures is how many sections of a review as Markdown have a picture, and mostIntervals how many pairs of bars a
// picture has.
const mostPictures, mostIntervals = 20, 8

// barLength is the length of the longer bar of a pair in characters: a picture fits into a comment of 80 characters.
const barLength = 32

// picture draws the most tokens in intervals of some lengths, before and after, as pairs of bars in a code block of the
// language diff, in which GitHub colors the old bar red and the new one green. The
// longer bar of each pair has the same length, because a day has a thousand times the tokens of a minute: only old and new
// are compared. It is empty if none of these numbers has changed.
//
// Bars of block characters were chosen over a chart of Mermaid, whose lines have no numbers and almost no color for the old
// side, and which e-mails do not show.
func (s *Subject) picture() string {
	var shown []Number
	for i, n := range s.Numbers {
		switch {
		case n.Unit != Tokens || n.Name == largestReservation || n.Old == nil || n.New == nil:
			continue
		case i > 0 && n.Plan == s.Numbers[i-1].Plan && equal(n.Old, s.Numbers[i-1].Old) && equal(n.New, s.Numbers[i-1].New):
			continue
		case strings.HasSuffix(n.Name, unreserved) && equal(n.Old, n.New), n.isUnbounded(*n.Old) && n.isUnbounded(*n.New), n.Plan != "" && !s.planChanges(n.Plan):
			continue
		}
		shown = append(shown, n)
	}
	if !slices.ContainsFunc(shown, func(n Number) bool { return !equal(n.Old, n.New) }) {
		return ""
	}
	var rows [][]string
	for _, n := range shown[:min(len(shown), mostIntervals)] {
		old, new := n.bars()
		rows = append(rows, []string{"- " + n.label(), old + " " + n.format(n.Old)}, []string{"+", new + " " + n.format(n.New) + after("  ", n.ratio())})
	}
	return "```diff\n" + cells.Table(rows, "ll", "") + "```\n"
}

// planChanges reports whether one of the bounds of tokens of a plan has changed.
func (s *Subject) planChanges(plan string) bool {
	return slices.ContainsFunc(s.Numbers, func(n Number) bool { return n.Plan == plan && n.Unit == Tokens && !equal(n.Old, n.New) })
}

// bars returns the two bars. No number is as long as no bound, which has an arrow.
func (n Number) bars() (old, new string) {
	const endless = "▶"
	switch {
	case n.isUnbounded(*n.Old):
		return bar(barLength-1, 1, 1) + endless, bar(barLength/4, *n.New, *n.New)
	case n.isUnbounded(*n.New):
		return bar(barLength/4, *n.Old, *n.Old), bar(barLength-1, 1, 1) + endless
	}
	most := max(*n.Old, *n.New)
	return bar(barLength, *n.Old, most), bar(barLength, *n.New, most)
}

// bar draws a value as a bar; one of most has a length. A value above 0 is always visible. Characters that are filled in
// part are not used, because browsers show them in another font than full ones.
func bar(length int, value, most int64) string {
	if value <= 0 {
		return "·"
	}
	return strings.Repeat("█", max(1, int(float64(value)/float64(most)*float64(length)+0.5)))
}

func after(gap, text string) string {
	if text == "" {
		return ""
	}
	return gap + text
}

// lockedOut says how long a key that has used everything is denied, or is "" if that is no number.
func (s *Subject) lockedOut() string {
	var list []string
	for _, n := range s.Numbers {
		if n.Name != nextToken || n.New == nil || n.Plan != "" && !s.planChanges(n.Plan) && equal(n.Old, n.New) {
			continue
		}
		text := n.format(n.New)
		switch {
		case n.Old == nil:
		case equal(n.Old, n.New):
			text += " (as before)"
		default:
			text += " (before: " + n.format(n.Old) + ")"
		}
		list = append(list, text+after(" for ", n.Plan))
	}
	const most = 4
	if len(list) == 0 || len(list) > most {
		return ""
	}
	return "Whoever hits the limit gets the next token after at most " + words.List(list, "and") + "."
}

// summary counts the subjects by whether they let more or less through: "4 changes: 2 looser, 1 tighter, 1 other".
func (r *Review) summary() string {
	names := []string{"looser", "tighter", "looser and tighter", "new", "removed", "other"}
	counts := map[string]int64{}
	for i := range r.Subjects {
		counts[r.Subjects[i].direction()]++
	}
	var list []string
	for _, name := range names {
		if n := counts[name]; n > 0 {
			list = append(list, words.Number(n)+" "+name)
		}
	}
	if len(r.Subjects) == 1 {
		return "1 change: " + r.Subjects[0].direction()
	}
	return fmt.Sprintf("%s changes: %s", words.Number(int64(len(r.Subjects))), strings.Join(list, ", "))
}

// direction is the name under which summary counts a subject.
func (s *Subject) direction() string {
	classes := s.Classes()
	has := func(class Class) bool { return slices.Contains(classes, class) }
	switch {
	case s.added():
		return "new"
	case s.removed():
		return "removed"
	case has(Loosened) && has(Tightened):
		return "looser and tighter"
	case has(Loosened):
		return "looser"
	case has(Tightened):
		return "tighter"
	}
	return "other"
}
