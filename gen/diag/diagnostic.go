// Package diag describes errors of a text: where they are, what is wrong, and the remedy.
package diag

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// MaxDiagnostics is how many errors of a file are described. A file of 4 MiB can have 400,000.
const MaxDiagnostics = 100

// Diagnostic is one error in a limits.yaml. There are no warnings: a file with a diagnostic is not valid.
type Diagnostic struct {
	// ID is the id of the broken rule, one of ids.Rules: "unknown-field". It never changes.
	ID string
	// File is the name passed to fields.Parse.
	File string
	// Note is the wrong text, with a message in one line that can be understood without the source.
	Note
	// Help is the remedy; "" if the message implies it.
	Help string
	// Notes are the other places that contribute to the error.
	Notes []Note
	// More is how many errors of the file are left out after this one, the last.
	More int
	// Meant are replacements for the text from Pos to End, the likeliest first.
	Meant []string
}

// Diagnostics are the errors of a file, in the order of their positions: all or, of more than 100, the first.
type Diagnostics []Diagnostic

// Described reports whether the first n diagnostics have messages.
func (ds Diagnostics) Described(n int) bool {
	return !slices.ContainsFunc(ds[:n], func(d Diagnostic) bool { return d.Message == "" })
}

// First returns the first n diagnostics that have a message. The others are only counted.
func (ds Diagnostics) First(n int) Diagnostics {
	if len(ds) <= n {
		return ds
	}
	described := make(Diagnostics, 0, n)
	for _, d := range ds {
		if d.Message != "" && len(described) < n {
			described = append(described, d)
		}
	}
	described[len(described)-1].More = len(ds) - len(described)
	return described
}

// Errors returns how many errors the file has.
func (ds Diagnostics) Errors() int {
	if len(ds) == 0 {
		return 0
	}
	return len(ds) + ds[len(ds)-1].More
}

// Suggest replaces the help of those with offers by a question.
func (ds Diagnostics) Suggest() {
	for i, d := range ds {
		if len(d.Meant) > 0 {
			ds[i].Help = OneLine("did you mean " + words.List(d.Meant, "or") + "?")
		}
	}
}

// Sort sorts the diagnostics by their positions.
func (ds Diagnostics) Sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int { return a.Pos.Compare(b.Pos) })
}

// WriteText prints the diagnostics for people: for each the place, the message and the id, the line with carets under
// the error, notes and help; then their number. Without diagnostics it prints nothing. It returns the error of w.
func (ds Diagnostics) WriteText(w io.Writer, color bool) error {
	_, err := io.WriteString(w, ds.text(cells.InkFor(color), strings.Clone))
	return err
}

// Folded is the text of [Diagnostics.WriteText] without color, with each line folded that shows no line of a file.
func (ds Diagnostics) Folded(fold func(line string) string) string { return ds.text(cells.Ink{}, fold) }

func (ds Diagnostics) text(ink cells.Ink, fold func(string) string) string {
	if len(ds) == 0 {
		return ""
	}
	var out bytes.Buffer
	for _, d := range ds {
		d.write(&out, ink, fold)
	}
	end := fmt.Sprintf("%s in %s", words.Count(int64(ds.Errors()), "error"), printable.Line(ds[0].File))
	if more := ds.Errors() - len(ds); more > 0 {
		end += fmt.Sprintf(", %s of them not shown", words.Number(int64(more)))
	}
	out.WriteString(fold(end + "\n"))
	return out.String()
}

func (d Diagnostic) write(out *bytes.Buffer, ink cells.Ink, fold func(string) string) {
	file := printable.Line(d.File)
	line := func(format string, args ...any) { out.WriteString(fold(fmt.Sprintf(format, args...))) }
	line("%s%s:%d:%d:%s %serror:%s %s%s%s [%s]\n", ink.Bold, file, d.Pos.Line, d.Pos.Column, ink.Off,
		ink.Red, ink.Off, ink.Bold, d.Message, ink.Off, d.ID)
	snippet(out, d.Pos.Line, d.Shown, "^", "~", ink.Red, ink)
	for _, n := range d.Notes {
		line("%s%s:%d:%d:%s %snote:%s %s\n", ink.Bold, file, n.Pos.Line, n.Pos.Column, ink.Off, ink.Blue, ink.Off, n.Message)
		snippet(out, n.Pos.Line, n.Shown, "-", "-", ink.Blue, ink)
	}
	if d.Help != "" {
		line("%s = %shelp:%s %s\n", strings.Repeat(" ", digits(d.Pos.Line)), ink.Bold, ink.Off, d.Help)
	}
}

func digits(line int) int { return len(strconv.Itoa(line)) }

// snippet prints the line with a mark under the place: "^~~~" for an error or "----" for a note.
func snippet(out *bytes.Buffer, line int, shown excerpt, mark, more string, color string, ink cells.Ink) {
	// An empty file has no line to show.
	if shown == (excerpt{}) {
		return
	}
	gutter := strings.Repeat(" ", digits(line))
	// A wide character needs a mark of two cells.
	underline := mark + strings.Repeat(more, max(0, cells.Of(shown.marked)-1))
	fmt.Fprintf(out, "%s%s |%s\n", ink.Blue, gutter, ink.Off)
	fmt.Fprintf(out, "%s%d |%s %s\n", ink.Blue, line, ink.Off, shown.Before+shown.marked+shown.after)
	fmt.Fprintf(out, "%s%s |%s %s%s%s%s\n", ink.Blue, gutter, ink.Off, cells.Blank(shown.Before), color, underline, ink.Off)
}
