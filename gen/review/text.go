package review

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// ink is the escape codes around the parts of a review; the zero ink has none.
type ink struct{ bold, red, yellow, blue, off string }

var colored = ink{bold: "\x1b[1m", red: "\x1b[1;31m", yellow: "\x1b[1;33m", blue: "\x1b[1;34m", off: "\x1b[0m"}

// width is how many cells of a terminal a line of text has.
const width = 80

// WriteText prints the review for people: which limits are in which class, and then for each subject its
// place, its changes with their ids, its numbers, and what comes of it. It returns the error of w.
func (r *Review) WriteText(w io.Writer, color bool) error {
	out := textWriter{}
	if color {
		out.ink = colored
	}
	out.review(r)
	_, err := w.Write(out.Bytes())
	return err
}

type textWriter struct {
	bytes.Buffer
	ink ink
}

func (w *textWriter) review(r *Review) {
	fmt.Fprintf(w, "%s%s%s against %s\n", w.ink.bold, oneLine(r.New), w.ink.off, oneLine(r.Old))
	if r.Remark != "" {
		w.wrapped("", 0, r.Remark)
	}
	if len(r.Subjects) == 0 {
		fmt.Fprintln(w, unchanged)
		return
	}
	classes, names := r.headings()
	for _, class := range classes {
		mark := w.class(class) + strings.Repeat(" ", len("stored-state")-len(class))
		w.wrapped("  "+mark+"  ", len("  stored-state  "), some(names[class], 12))
	}
	for _, s := range r.bySeverity() {
		w.WriteString("\n")
		w.subject(r, s)
	}
}

func (w *textWriter) subject(r *Review, s *Subject) {
	file, at := r.New, s.New
	if s.gone() {
		file, at = r.Old, s.Old
	}
	place := fmt.Sprintf("%s:%d:%d:", oneLine(file), max(1, at.Line), max(1, at.Column))
	marks := make([]string, 0, 4)
	for _, class := range s.Classes() {
		marks = append(marks, w.class(class))
	}
	fmt.Fprintf(w, "%s%s%s %s%s:%s %s\n", w.ink.bold, place, w.ink.off, w.ink.bold, s.name(), w.ink.off, strings.Join(marks, ", "))
	w.body(s)
}

func (w *textWriter) body(s *Subject) {
	for _, f := range s.Findings {
		w.finding(f)
	}
	w.numbers(s)
	for _, n := range s.Notes {
		mark := n.About + ": "
		w.wrapped("  "+w.ink.bold+mark+w.ink.off, 2+len(mark), n.Text)
	}
	for _, q := range s.SQL {
		w.wrapped("  "+w.ink.bold+"sql: "+w.ink.off, len("  sql: "), q.Why+":")
		fmt.Fprintf(w, "    %s\n", q.Text)
	}
}

// class returns a class in its color: yellow for what lets more through, red for what breaks, blue for what
// lets less through.
func (w *textWriter) class(class Class) string {
	switch class {
	case Loosened:
		return w.ink.yellow + string(class) + w.ink.off
	case Breaking, Removed:
		return w.ink.red + string(class) + w.ink.off
	case Tightened:
		return w.ink.blue + string(class) + w.ink.off
	}
	return string(class)
}

// finding prints the changes of one id: each on a line if it fits, and otherwise one side below the other.
func (w *textWriter) finding(f Finding) {
	line := ""
	for i, c := range f.Changes {
		if i > 0 {
			fmt.Fprintln(w, line)
		}
		old, new := clip(value(c, c.Old)), clip(value(c, c.New))
		if line = before + change(c, old, new); cells.Of(line) > width-4 {
			fmt.Fprintf(w, "%s%s\n", before, c.Field)
			w.wrapped("    - ", 6, old)
			w.wrapped("    + ", 6, new)
			line = ""
		}
	}
	w.ended(line, "["+f.ID+"] "+classList(f.Classes))
}

// change says what has changed; nothing of a limit that was added or removed.
func change(c spec.Change, old, new string) string {
	switch {
	case old == "" || new == "":
		return ""
	case c.Field == "":
		return "name " + old + " → " + new
	}
	return c.Field + " " + old + " → " + new
}

// before stands before a change, and column is where its end begins, after a gap.
const (
	before = "  "
	column = 46
	gap    = 2
)

// ended prints a line with something at its end, which begins in the same column for all changes, below the line
// if that is too long. Where nothing has changed but that there is a limit, it is all that there is.
func (w *textWriter) ended(line, end string) {
	at := cells.Of(line)
	switch {
	case line == before:
		w.wrapped(before, at, end)
		return
	case at+gap > column:
		fmt.Fprintln(w, line)
		line, at = "", 0
	}
	w.wrapped(line+strings.Repeat(" ", column-at), column, end)
}

// numbers prints a table of what was and what is; of a limit that was added, of what is.
func (w *textWriter) numbers(s *Subject) {
	numbers := s.Telling()
	if len(numbers) > 0 {
		w.wrapped("    ", 4, "for "+s.party()+", at most:")
	}
	var name, old, new int
	for _, n := range numbers {
		name, old, new = max(name, cells.Of(n.Name)), max(old, len(n.words(n.Old))), max(new, len(n.words(n.New)))
	}
	for _, n := range numbers {
		if s.added() {
			fmt.Fprintf(w, "    %-*s  %*s\n", name, n.Name, new, n.words(n.New))
			continue
		}
		line := fmt.Sprintf("    %-*s  %*s → %*s  %s", name, n.Name, old, n.words(n.Old), new, n.words(n.New), n.ratio())
		w.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// wrapped prints a text after a mark of some cells, and as many lines as it takes below it.
func (w *textWriter) wrapped(mark string, indent int, text string) {
	w.WriteString(mark)
	at := indent
	for i, word := range fitting(strings.Fields(text), width-indent) {
		length := cells.Of(word)
		switch {
		case i == 0:
		case at+1+length > width:
			w.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			w.WriteString(" ")
			at++
		}
		w.WriteString(word)
		at += length
	}
	w.WriteString("\n")
}

// fitting returns words of which those that are longer than a line are cut into several.
func fitting(words []string, most int) (list []string) {
	for _, word := range words {
		from, length := 0, 0
		for i, r := range word {
			if length += cells.Rune(r); length > most {
				list = append(list, word[from:i])
				from, length = i, cells.Rune(r)
			}
		}
		list = append(list, word[from:])
	}
	return list
}

// Title names the subject and its classes: "sendMessage: loosened".
func (s *Subject) Title() string { return s.name() + ": " + classList(s.Classes()) }

// Lines returns what is said about the subject below its title, a line each, however long.
func (s *Subject) Lines() (lines []string) {
	for _, f := range s.Findings {
		for _, c := range f.Changes {
			what := change(c, clip(value(c, c.Old)), clip(value(c, c.New)))
			lines = append(lines, strings.TrimSpace(what+" ["+f.ID+"] "+classList(f.Classes)))
		}
	}
	for _, n := range s.Telling() {
		if s.added() {
			lines = append(lines, n.Name+": "+n.words(n.New))
			continue
		}
		lines = append(lines, n.Name+": "+n.change())
	}
	for _, n := range s.Notes {
		lines = append(lines, n.About+": "+n.Text)
	}
	for _, q := range s.SQL {
		lines = append(lines, "sql, "+q.Why+": "+q.Text)
	}
	return lines
}
