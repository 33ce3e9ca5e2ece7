package render

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// WriteText prints the review for people: the limits of each class, and then for each subject its position, its changes
// with their ids, its numbers, and its notes.
func WriteText(w io.Writer, r *review.Review, o Options) error {
	out := textWriter{ink: cells.InkFor(o.Color)}
	out.summary(r)
	// Each subject is written before the next, because the text of thousands would need as much memory as their review.
	for _, s := range r.BySeverity() {
		if _, err := out.WriteTo(w); err != nil {
			return err
		}
		out.WriteString("\n")
		out.subject(r, s)
	}
	_, err := out.WriteTo(w)
	return err
}

type textWriter struct {
	bytes.Buffer
	ink cells.Ink
}

func (w *textWriter) summary(r *review.Review) {
	fmt.Fprintf(w, "%s%s%s against %s\n", w.ink.Bold, printable.Flat(r.New), w.ink.Off, printable.Flat(r.Old))
	if len(r.Subjects) > 0 {
		fmt.Fprintln(w, summaryOf(r))
	}
	if r.Remark != "" {
		w.wrapped("", 0, r.Remark)
	}
	if len(r.Subjects) == 0 {
		fmt.Fprintln(w, unchanged)
		return
	}
	classes, names := namesByClass(r)
	for _, class := range classes {
		mark := w.class(class) + strings.Repeat(" ", len(review.StoredState)-len(class)) // the longest class
		w.wrapped("  "+mark+"  ", len("    "+review.StoredState), firstNames(names[class], 12))
	}
	for i, line := range risksOf(r, func(name string) string { return name }) {
		if i == 0 {
			fmt.Fprintf(w, "%s%s:%s\n", w.ink.Bold, risksHeading, w.ink.Off)
		}
		w.wrapped("  ", 4, line)
	}
}

// unchanged is the whole review of files without changes.
const unchanged = "No limit has changed."

func (w *textWriter) subject(r *review.Review, s *review.Subject) {
	file, at := r.New, s.New
	if s.Removed() {
		file, at = r.Old, s.Old
	}
	// The file itself has no position, but editors need one to open it.
	place := fmt.Sprintf("%s:%d:%d:", printable.Flat(file), max(1, at.Line), max(1, at.Column))
	marks := make([]string, 0, 4)
	for _, class := range s.Classes() {
		marks = append(marks, w.class(class))
	}
	fmt.Fprintf(w, "%s%s%s %s%s:%s %s\n", w.ink.Bold, place, w.ink.Off, w.ink.Bold, NameOf(s), w.ink.Off,
		strings.Join(marks, ", "))
	for _, f := range s.Findings {
		w.finding(f)
	}
	w.numbers(s)
	for _, n := range s.Notes {
		mark := n.About + ": "
		w.wrapped("  "+w.ink.Bold+mark+w.ink.Off, 2+len(mark), n.Text)
	}
	for _, q := range s.SQL {
		w.wrapped("  "+w.ink.Bold+"sql: "+w.ink.Off, len("  sql: "), q.Why+":")
		fmt.Fprintf(w, "    %s\n", q.Text) // never wrapped, so that it can be copied
	}
}

// class colors a class: yellow if it lets more through, red if it breaks callers, blue if it lets less through.
func (w *textWriter) class(class review.Class) string {
	switch class {
	case review.Loosened:
		return w.ink.Yellow + string(class) + w.ink.Off
	case review.Breaking, review.Removed:
		return w.ink.Red + string(class) + w.ink.Off
	case review.Tightened:
		return w.ink.Blue + string(class) + w.ink.Off
	}
	return string(class)
}

// finding prints the changes of one id, each on a line if it fits, and otherwise with the new value below the old one. The
// classes are behind the last of the changes that have them.
func (w *textWriter) finding(f review.Finding) {
	for i, c := range f.Changes {
		old, new := shortValue(c.Change, c.Old), shortValue(c.Change, c.New)
		line := changeIndent + change(c.Change, old, new)
		// A long change is easier to compare as two lines than as one that wraps.
		if cells.Of(line) > cells.Line-4 {
			fmt.Fprintf(w, "%s%s\n", changeIndent, review.Planned(c.Plan, c.Field))
			w.wrapped("    - ", 6, old)
			w.wrapped("    + ", 6, new)
			line = ""
		}
		if i+1 < len(f.Changes) && slices.Equal(c.Classes, f.Changes[i+1].Classes) {
			fmt.Fprintln(w, line)
			continue
		}
		w.withEnd(line, endOf(f, c))
	}
}

// endOf returns the id and the classes of a change.
func endOf(f review.Finding, c review.Change) string {
	return "[" + f.Kind.ID + "] " + review.ClassList(c.Classes)
}

// change is empty for a limit that was added or removed.
func change(c diff.Change, old, new string) string {
	switch {
	case c.Field == "" && c.Plan != "" && (old == "" || new == ""):
		return "plan " + c.Plan
	case old == "" || new == "":
		return ""
	case c.Field == "" && c.Plan != "":
		return "plan " + old + " → " + new
	case c.Field == "":
		return "name " + old + " → " + new
	}
	return review.Planned(c.Plan, c.Field+" "+old+" → "+new)
}

const (
	changeIndent = "  "
	// endColumn is where the id of every change starts, at least endGap after the change.
	endColumn = 46
	endGap    = 2
)

// withEnd prints a line with an end at endColumn. The end is on a line of its own if the line is too long.
func (w *textWriter) withEnd(line, end string) {
	at := cells.Of(line)
	switch {
	case line == changeIndent: // a limit that was added or removed has no change to print
		w.wrapped(changeIndent, at, end)
		return
	case at+endGap > endColumn:
		fmt.Fprintln(w, line)
		line, at = "", 0
	}
	w.wrapped(line+strings.Repeat(" ", endColumn-at), endColumn, end)
}

// numbers prints a table of the numbers before and after, or of those of an added limit.
func (w *textWriter) numbers(s *review.Subject) {
	numbers := s.ShownNumbers()
	if len(numbers) == 0 {
		return
	}
	w.wrapped("    ", 4, "for "+words.Holder(s.Per)+", at most:")
	var rows [][]string
	for _, n := range numbers {
		if s.Added() {
			rows = append(rows, []string{n.Label(), n.Format(n.New), "", ""})
			continue
		}
		if review.Equal(n.Old, n.New) {
			rows = append(rows, []string{n.Label(), "", n.Format(n.New), "as before"})
			continue
		}
		rows = append(rows, []string{n.Label(), n.Format(n.Old) + " →", n.Format(n.New), n.Ratio()})
	}
	w.WriteString(cells.Table(rows, "lrrl", "    "))
}

// wrapped prints a text after a mark, which may have escape codes, and continues it below the text with an indent of as
// many cells as the mark has. Unlike [cells.Wrap] it cuts words that are longer than a line.
func (w *textWriter) wrapped(mark string, indent int, text string) {
	blank := strings.Repeat(" ", indent)
	short := strings.Join(cutWords(strings.Fields(text), cells.Line-indent), " ")
	w.WriteString(mark + strings.TrimPrefix(cells.Wrap(short, blank), blank))
}

// cutWords cuts words that are longer than a number of cells, such as text in a language without spaces.
func cutWords(list []string, most int) (short []string) {
	for _, word := range list {
		from, length := 0, 0
		for i, r := range word {
			if length += cells.Rune(r); length > most {
				short = append(short, word[from:i])
				from, length = i, cells.Rune(r)
			}
		}
		short = append(short, word[from:])
	}
	return short
}

// LinesOf returns the risks, changes, numbers, notes and statements of the subject, one line each, however long.
func LinesOf(s *review.Subject) (lines []string) {
	for _, risk := range RisksOf(s) {
		lines = append(lines, "risk: "+risk+".")
	}
	for _, f := range s.Findings {
		for _, c := range f.Changes {
			text := change(c.Change, shortValue(c.Change, c.Old), shortValue(c.Change, c.New))
			lines = append(lines, strings.TrimSpace(text+" "+endOf(f, c)))
		}
	}
	for _, n := range s.ShownNumbers() {
		lines = append(lines, n.Label()+": "+valueOf(s, n))
	}
	for _, n := range s.Notes {
		lines = append(lines, n.About+": "+n.Text)
	}
	for _, q := range s.SQL {
		lines = append(lines, "sql, "+q.Why+": "+q.Text)
	}
	return lines
}

// valueOf writes a number before and after, or that of an added limit.
func valueOf(s *review.Subject, n review.Number) string {
	if s.Added() {
		return n.Format(n.New)
	}
	return n.Change()
}

// shortValue returns one side of a change on one line, safe to print.
func shortValue(c diff.Change, side diff.Side) string {
	text := side.Value
	if c.Field == "rate" || c.Field == "capacity" || c.Field == "maxReserved" {
		// The numbers below are grouped as well.
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			text = words.Number(n)
		}
	}
	if text == "" {
		text = defaultInWords(c, side)
	}
	return words.Clip(printable.Flat(text), longestValue)
}

// defaultInWords says what applies if a field has no value.
func defaultInWords(c diff.Change, side diff.Side) string {
	switch c.Field {
	case "":
		return ""
	case "durability":
		return "database default"
	case "start":
		switch {
		case compare.HasCalendar(&side.Limit.Policy):
			return "midnight of the first day"
		case !compare.Windowed(&side.Limit.Policy):
			return "none"
		case len(side.Limit.Key) == 0:
			return "derived from the name"
		}
		return "derived from the key"
	}
	return "none"
}

// numberCell returns one side of a number, or "" if it does not apply.
func numberCell(n review.Number, value *int64) string {
	if value == nil {
		return ""
	}
	return n.Format(value)
}

// fieldName names what a change is of: a field, or all of a plan, a group or a limit.
func fieldName(s *review.Subject, c diff.Change) string {
	switch {
	case c.Field != "":
		return review.Planned(c.Plan, c.Field)
	case c.Plan != "":
		return "plan"
	case s.Group != "":
		return "group"
	}
	return "limit"
}
