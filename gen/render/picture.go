package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
)

// mostPictures is how many sections of a review as Markdown have a picture, and mostIntervals how many pairs of bars a
// picture has.
const mostPictures, mostIntervals = 20, 8

// barLength is the length of the longer bar of a pair in characters: a picture fits into a comment of 80 characters.
const barLength = 32

// pictureOf draws the most tokens in intervals of some lengths, before and after, as pairs of bars in a code block of the
// language diff, in which GitHub colors the old bar red and the new one green. The
// longer bar of each pair has the same length, because a day has a thousand times the tokens of a minute: only old and new
// are compared. It is empty if none of these numbers has changed.
//
// Bars of block characters were chosen over a chart of Mermaid, whose lines have no numbers and almost no color for the old
// side, and which e-mails do not show.
func pictureOf(s *review.Subject) string {
	shown := pictured(s)
	if len(shown) == 0 {
		return ""
	}
	var rows [][]string
	for _, n := range shown {
		old, new := barsOf(n)
		rows = append(rows, []string{"- " + n.Label(), old + " " + n.Format(n.Old)},
			[]string{"+", new + " " + n.Format(n.New) + after("  ", n.Ratio())})
	}
	return "```diff\n" + cells.Table(rows, "ll", "") + "```\n"
}

// pictured returns the numbers in the picture of a subject.
func pictured(s *review.Subject) (shown []review.Number) {
	for i, n := range s.Numbers {
		switch {
		case s.Repeats(i) || n.Unit != review.Tokens || n.Name == review.LargestReservation || n.Old == nil || n.New == nil:
			continue
		case strings.HasSuffix(n.Name, review.Unreserved) && review.Equal(n.Old, n.New),
			review.IsUnbounded(*n.Old) && review.IsUnbounded(*n.New), n.Plan != "" && !planChanges(s, n.Plan):
			continue
		}
		shown = append(shown, n)
	}
	if !slices.ContainsFunc(shown, func(n review.Number) bool { return !review.Equal(n.Old, n.New) }) {
		return nil
	}
	return shown[:min(len(shown), mostIntervals)]
}

// planChanges reports whether one of the bounds of tokens of a plan has changed.
func planChanges(s *review.Subject, plan string) bool {
	return slices.ContainsFunc(s.Numbers, func(n review.Number) bool {
		return n.Plan == plan && n.Unit == review.Tokens && !review.Equal(n.Old, n.New)
	})
}

// barsOf returns the two bars. No number is as long as no bound, which has an arrow.
func barsOf(n review.Number) (old, new string) {
	const endless = "▶"
	switch {
	case review.IsUnbounded(*n.Old):
		return bar(barLength-1, 1, 1) + endless, bar(barLength/4, *n.New, *n.New)
	case review.IsUnbounded(*n.New):
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
func lockedOut(s *review.Subject) string {
	var list []string
	for _, n := range s.Numbers {
		if n.Name != review.NextToken || n.New == nil || n.Plan != "" && !planChanges(s, n.Plan) && review.Equal(n.Old, n.New) {
			continue
		}
		text := n.Format(n.New)
		switch {
		case n.Old == nil:
		case review.Equal(n.Old, n.New):
			text += " (as before)"
		default:
			text += " (before: " + n.Format(n.Old) + ")"
		}
		list = append(list, text+after(" for ", n.Plan))
	}
	const most = 4
	if len(list) == 0 || len(list) > most {
		return ""
	}
	return "Whoever hits the limit gets the next token after at most " + words.List(list, "and") + "."
}

// summaryOf counts the subjects by whether they let more or less through: "4 changes: 2 looser, 1 tighter, 1 other".
func summaryOf(r *review.Review) string {
	names := []string{"looser", "tighter", mixed, "new", "removed", "other"}
	counts := map[string]int64{}
	for i := range r.Subjects {
		counts[directionOf(&r.Subjects[i])]++
	}
	var list []string
	for _, name := range names {
		if n := counts[name]; n > 0 {
			list = append(list, words.Number(n)+" "+name)
		}
	}
	if len(r.Subjects) == 1 {
		return "1 change: " + strings.Replace(directionOf(&r.Subjects[0]), mixed, "looser and tighter", 1)
	}
	return fmt.Sprintf("%s changes: %s", words.Number(int64(len(r.Subjects))), strings.Join(list, ", "))
}

// mixed is for a subject that is looser in some respect and tighter in another.
const mixed = "mixed"

// directionOf is the name under which summary counts a subject.
func directionOf(s *review.Subject) string {
	classes := s.Classes()
	has := func(class review.Class) bool { return slices.Contains(classes, class) }
	switch {
	case s.Added():
		return "new"
	case s.Removed():
		return "removed"
	case has(review.Loosened) && has(review.Tightened):
		return mixed
	case has(review.Loosened):
		return "looser"
	case has(review.Tightened):
		return "tighter"
	}
	return "other"
}
