package spec

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// Diagnostic is one error in a limits.yaml. There are no warnings: a file with a diagnostic is not valid.
type Diagnostic struct {
	// ID is that of the broken rule, one of [Rules]: "unknown-field". It never changes.
	ID string
	// File is the name passed to [Parse].
	File string
	// Pos is the first wrong rune, and End the one after the last, on the same line.
	Pos, End Pos
	// Message describes the error in one line that can be understood without the source.
	Message string
	// Help is the remedy; "" if the message implies it.
	Help string
	// Notes are the other places that contribute to the error.
	Notes []Note

	shown excerpt
	// meant are replacements for the text from Pos to End, the likeliest first.
	meant []string
}

// Note is a second place of a [Diagnostic], in the same file.
type Note struct {
	Pos, End Pos
	Message  string

	shown excerpt
}

// Diagnostics are all errors of a file, in the order of their positions.
type Diagnostics []Diagnostic

// suggest replaces the help of those with offers by a question.
func (ds Diagnostics) suggest() {
	for i, d := range ds {
		if len(d.meant) > 0 {
			ds[i].Help = "did you mean " + words.List(d.meant, "or") + "?"
		}
	}
}

func (ds Diagnostics) sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
}

// WriteText prints the diagnostics for people: for each the place, the message and the id, the line with carets under
// the error, notes and help; then their number. Without diagnostics it prints nothing. It returns the error of w.
func (ds Diagnostics) WriteText(w io.Writer, color bool) error {
	if len(ds) == 0 {
		return nil
	}
	var out bytes.Buffer
	ink := cells.InkFor(color)
	for _, d := range ds {
		d.write(&out, ink)
	}
	fmt.Fprintf(&out, "%s in %s\n", words.Count(int64(len(ds)), "error"), printable.Line(ds[0].File))
	_, err := w.Write(out.Bytes())
	return err
}

func (d Diagnostic) write(out *bytes.Buffer, ink cells.Ink) {
	file := printable.Line(d.File)
	fmt.Fprintf(out, "%s%s:%d:%d:%s %serror:%s %s%s%s [%s]\n", ink.Bold, file, d.Pos.Line, d.Pos.Column, ink.Off,
		ink.Red, ink.Off, ink.Bold, d.Message, ink.Off, d.ID)
	snippet(out, d.Pos.Line, d.shown, "^", "~", ink.Red, ink)
	for _, n := range d.Notes {
		fmt.Fprintf(out, "%s%s:%d:%d:%s %snote:%s %s\n", ink.Bold, file, n.Pos.Line, n.Pos.Column, ink.Off, ink.Blue, ink.Off, n.Message)
		snippet(out, n.Pos.Line, n.shown, "-", "-", ink.Blue, ink)
	}
	if d.Help != "" {
		fmt.Fprintf(out, "%s = %shelp:%s %s\n", strings.Repeat(" ", digits(d.Pos.Line)), ink.Bold, ink.Off, d.Help)
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
	fmt.Fprintf(out, "%s%d |%s %s\n", ink.Blue, line, ink.Off, shown.before+shown.marked+shown.after)
	fmt.Fprintf(out, "%s%s |%s %s%s%s%s\n", ink.Blue, gutter, ink.Off, cells.Blank(shown.before), color, underline, ink.Off)
}

// describe names the value of a node in the words of YAML's users.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "null"
	case n.Tag == "!!int", n.Tag == "!!float":
		return "the number " + clip(n.Value)
	case n.Tag == "!!timestamp":
		return "the date " + clip(n.Value)
	case n.Tag == "!!bool":
		return n.Value
	}
	return quote(n.Value)
}

// longest is the most runes of the file that a message quotes.
const longest = 48

func clip(text string) string { return words.Clip(text, longest) }

// label returns a name from the file, in quotes unless it is an identifier.
func label(name string) string {
	if identifierForm.MatchString(name) {
		return clip(name)
	}
	return quote(name)
}

// quote returns a text in quotes, and points out a letter of another script, which may look like an ASCII letter.
func quote(text string) string {
	quoted := strconv.Quote(clip(text))
	if r, at, ok := lookAlike(text); ok {
		quoted += fmt.Sprintf(" (character %d is %U)", at, r)
	}
	return quoted
}

// lookAlike returns the first letter of another script in a text with ASCII letters, and its position, counted in
// characters from 1.
func lookAlike(text string) (r rune, at int, ok bool) {
	if strings.IndexFunc(text, func(r rune) bool { return r < utf8.RuneSelf && unicode.IsLetter(r) }) < 0 {
		return 0, 0, false
	}
	for _, r := range text {
		if at++; r >= utf8.RuneSelf && unicode.IsLetter(r) && (!unicode.Is(unicode.Latin, r) || r >= '\uFF00') {
			return r, at, true
		}
	}
	return 0, 0, false
}
