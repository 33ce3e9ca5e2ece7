package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// page is the text of one explanation, in lines of at most [cells.Line] cells.
type page struct {
	bytes.Buffer
	ink cells.Ink
}

func newPage(color bool) *page { return &page{ink: cells.InkFor(color)} }

func (p *page) writeTo(w io.Writer) error {
	_, err := w.Write(p.Bytes())
	return err
}

func (p *page) title(format string, args ...any) {
	fmt.Fprintf(p, "%s%s%s\n", p.ink.Bold, fmt.Sprintf(format, args...), p.ink.Off)
}

// paragraph prints a label and a text after it, whose other lines are aligned with its first.
func (p *page) paragraph(label, text string) {
	below := strings.Repeat(" ", len("  "+label+": "))
	lines := cells.Wrap(printable.Flat(text), below)
	fmt.Fprintf(p, "  %s%s:%s %s", p.ink.Bold, label, p.ink.Off, lines[len(below):])
}

// block prints a label and lines below it, which it does not wrap.
func (p *page) block(label, lines string) {
	fmt.Fprintf(p, "\n  %s%s:%s\n", p.ink.Bold, label, p.ink.Off)
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

// WriteList prints the limits of a file, one per line, and then the groups with their limits. It returns the error of w.
func WriteList(w io.Writer, file *spec.File, color bool) error {
	p := newPage(color)
	rows := [][]string{{"limit", "key", "kind", "rate", "at once"}}
	for _, l := range file.Limits {
		policy := &l.Policy
		for i, of := range l.Each() {
			rate, atOnce := unlimited, unlimited
			if !of.Unlimited() {
				rate = words.Number(of.Policy.Rate) + " per " + spec.PeriodOf(&of.Policy)
				atOnce = words.Number(of.Policy.Capacity)
			}
			row := []string{policy.Name, strings.Join(keyNames(l), ", "), policy.Kind.String(), rate, atOnce}
			if of.Plan != "" {
				if row[3] = of.Plan + ": " + rate; i > 0 {
					row[0], row[1], row[2] = "", "", ""
				}
			}
			rows = append(rows, row)
		}
	}
	// A line that is too long loses letters of the keys first, then of the rates. The names are cut last, because the
	// command below needs them.
	head, list, _ := strings.Cut(cells.Table(rows, "llllr", "", 1, 3, 0), "\n")
	fmt.Fprintf(p, "%s%s%s\n%s", p.ink.Bold, head, p.ink.Off, list)
	p.groups(file.Groups)
	p.WriteString("\nFor more about one limit, run ratelimitgen explain LIMIT.\n")
	return p.writeTo(w)
}
