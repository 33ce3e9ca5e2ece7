package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/printable"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// page is the text of one explanation, in lines of at most [cells.Line] cells.
type page struct {
	bytes.Buffer
	// bold and off are the escape codes around titles and labels, or empty.
	bold, off string
}

func newPage(color bool) *page {
	if color {
		return &page{bold: "\x1b[1m", off: "\x1b[0m"}
	}
	return &page{}
}

func (p *page) writeTo(w io.Writer) error {
	_, err := w.Write(p.Bytes())
	return err
}

func (p *page) title(format string, args ...any) {
	fmt.Fprintf(p, "%s%s%s\n", p.bold, fmt.Sprintf(format, args...), p.off)
}

// paragraph prints a label and a text after it, whose other lines are aligned with its first.
func (p *page) paragraph(label, text string) {
	below := strings.Repeat(" ", len("  "+label+": "))
	lines := cells.Wrap(printable.Line(strings.Join(strings.Fields(text), " ")), below)
	fmt.Fprintf(p, "  %s%s:%s %s", p.bold, label, p.off, lines[len(below):])
}

// block prints a label and lines below it, which it does not wrap.
func (p *page) block(label, lines string) {
	fmt.Fprintf(p, "\n  %s%s:%s\n", p.bold, label, p.off)
	for line := range strings.SplitSeq(strings.TrimSuffix(lines, "\n"), "\n") {
		// An empty line of the file would be four spaces, which a copied example should not have.
		p.WriteString(strings.TrimRight(indent+printable.Text(line), " ") + "\n")
	}
}

// indent is the indentation of the lines of a block.
const indent = "    "

// narrow wraps the lines that are too wide for a block.
func narrow(lines string) string {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		// Wrapping an excerpt of a file ("7 | rate: 10") would move the caret below it away from its column.
		if cells.Of(indent+line) > cells.Line && !strings.Contains(line, " | ") {
			line = strings.ReplaceAll(strings.TrimSpace(cells.Wrap(line, indent+"  ")), "\n"+indent, "\n") + "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// WriteList prints the limits of a file, one per line. It returns the error of w.
func WriteList(w io.Writer, file *spec.File, color bool) error {
	p := newPage(color)
	rows := [][]string{{"limit", "key", "kind", "rate", "at once"}}
	for _, l := range file.Limits {
		policy := &l.Policy
		rate := spec.Grouped(policy.Rate) + " per " + spec.PeriodInWords(policy.Period)
		rows = append(rows, []string{policy.Name, strings.Join(keyNames(l), ", "), policy.Kind.String(), rate, spec.Grouped(policy.Capacity)})
	}
	p.table(rows)
	fmt.Fprint(p, "\nFor more about one limit, run ratelimitgen explain LIMIT.\n")
	return p.writeTo(w)
}

// table prints rows below a header row, with the last column aligned to the right.
func (p *page) table(rows [][]string) {
	widths := columnWidths(rows)
	last := len(widths) - 1
	for n, row := range rows {
		line := ""
		for i, cell := range row[:last] {
			line += cells.Fit(cell, widths[i]) + "  "
		}
		line += strings.Repeat(" ", widths[last]-cells.Of(row[last])) + row[last]
		if n == 0 {
			line = p.bold + line + p.off
		}
		p.WriteString(line + "\n")
	}
}

// minColumn is the width below which no column is cut.
const minColumn = 5

// columnWidths returns widths that fit into a line.
func columnWidths(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	sum := 2 * (len(widths) - 1)
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], cells.Of(row[i]))
		}
		sum += widths[i]
	}
	// The keys are cut first, then the rates. The names are cut last, because WriteLimit needs them.
	for _, i := range []int{1, 3, 0} {
		over := max(0, min(sum-cells.Line, widths[i]-minColumn))
		widths[i] -= over
		sum -= over
	}
	return widths
}
