package explain

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// WriteTerminal prints pages for a terminal, in lines of at most [cells.Line] cells; lines of a file are not wrapped. Unsafe
// characters are escaped. It returns the error of w.
func WriteTerminal(w io.Writer, pages []Page, o render.Options) error {
	out := terminalWriter{ink: cells.InkFor(o.Color)}
	for _, p := range pages {
		if p.Title != "" {
			fmt.Fprintf(&out, "%s%s%s\n", out.ink.Bold, printable.Line(p.Title), out.ink.Off)
		}
		for i, s := range p.Sections {
			out.section(s, i == 0)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

type terminalWriter struct {
	bytes.Buffer
	ink cells.Ink
}

// section prints a section below its label, or without one after an empty line.
func (w *terminalWriter) section(s Section, first bool) {
	switch {
	case s.File != "":
		w.lines(s.Label, s.File)
		return
	case len(s.Lines) > 0 || len(s.Diagnostics) > 0:
		w.lines(s.Label, strings.Join(words.Of(s.Lines, func(line string) string { return narrow(line + "\n") }), "")+
			s.Diagnostics.Folded(narrow))
		return
	case s.Label == "" && !first:
		w.WriteString("\n")
	}
	if s.Label != "" {
		label := "  " + s.Label + ":"
		text := "\n"
		if s.Text != "" {
			// The other lines are aligned with the first.
			text = cells.Wrap(printable.Flat(s.Text), strings.Repeat(" ", len(label)+1))[len(label):]
		}
		fmt.Fprintf(w, "  %s%s:%s%s", w.ink.Bold, s.Label, w.ink.Off, text)
	} else if s.Text != "" {
		w.WriteString(printable.Flat(s.Text) + "\n")
	}
	w.table(s.Table, s.Label == "")
}

// lines prints a label and lines below it, which it does not wrap.
func (w *terminalWriter) lines(label, lines string) {
	fmt.Fprintf(w, "\n  %s%s:%s\n", w.ink.Bold, label, w.ink.Off)
	for line := range strings.SplitSeq(strings.TrimSuffix(lines, "\n"), "\n") {
		// An empty line of the file would be four spaces, which a copied example should not have.
		w.WriteString(strings.TrimRight(indent+printable.Text(line), " ") + "\n")
	}
}

// indent is the indentation of lines and tables below a label.
const indent = "    "

// widest is how many columns a table has side by side, besides the first.
const widest = 4

// table prints a table, with a bold head if it has no label, which would be bold.
func (w *terminalWriter) table(t Table, alone bool) {
	switch {
	case alone && len(t.Rows) > 0:
		head, rows, _ := strings.Cut(cells.Table(slices.Concat([][]string{t.Head}, t.Rows), t.align, "", t.cut...), "\n")
		fmt.Fprintf(w, "%s%s%s\n%s", w.ink.Bold, head, w.ink.Off, rows)
	case t.Head == nil:
		w.WriteString(cells.Table(t.Rows, t.align, indent, t.cut...))
	default:
		for from := 1; from < len(t.Head); from += widest {
			to := min(from+widest, len(t.Head))
			rows := columns(slices.Concat([][]string{t.Head}, t.Rows), from, to)
			w.WriteString(cells.Table(rows, t.align[:1]+t.align[from:to], indent, t.cut...))
		}
	}
}

// columns returns the first column and those of a range, without the rows that are empty in these.
func columns(rows [][]string, from, to int) (some [][]string) {
	for _, row := range rows {
		if strings.Join(row[from:to], "") != "" {
			some = append(some, append([]string{row[0]}, row[from:to]...))
		}
	}
	return some
}

// narrow wraps a line with its newline that is too wide below a label.
func narrow(line string) string {
	if cells.Of(indent+strings.TrimSuffix(line, "\n")) <= cells.Line {
		return line
	}
	return strings.ReplaceAll(strings.TrimSpace(cells.Wrap(line, indent+"  ")), "\n"+indent, "\n") + "\n"
}
