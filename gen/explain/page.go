package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
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
