package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// page is what is printed, in lines of at most [cells.Line] cells.
type page struct {
	bytes.Buffer
	// bold and off are the escape codes around what stands out; without colors there are none.
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

// title prints what the page is about.
func (p *page) title(format string, args ...any) {
	fmt.Fprintf(p, "%s%s%s\n", p.bold, fmt.Sprintf(format, args...), p.off)
}

// say prints a text about something, with its lines below each other.
func (p *page) say(about, text string) {
	below := strings.Repeat(" ", len("  "+about+": "))
	lines := cells.Wrap(printable.Line(strings.Join(strings.Fields(text), " ")), below)
	fmt.Fprintf(p, "  %s%s:%s %s", p.bold, about, p.off, lines[len(below):])
}

// show prints lines as they are, below what they are.
func (p *page) show(about, lines string) {
	fmt.Fprintf(p, "\n  %s%s:%s\n", p.bold, about, p.off)
	for line := range strings.SplitSeq(strings.TrimSuffix(lines, "\n"), "\n") {
		p.WriteString(strings.TrimRight(indent+printable.Text(line), " ") + "\n")
	}
}

// indent stands before the lines that are shown.
const indent = "    "

// narrow breaks the lines of a text that are too wide to be shown, but for those of a file: "7 | rate: 10".
func narrow(lines string) string {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		if cells.Of(indent+line) > cells.Line && !strings.Contains(line, " | ") {
			line = strings.ReplaceAll(strings.TrimSpace(cells.Wrap(line, indent+"  ")), "\n"+indent, "\n") + "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}
