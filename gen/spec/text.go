package spec

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// WriteText prints the diagnostics for people: for each the place, the message and the id, the line with
// carets under what is wrong, notes and help; then how many there are. Nothing is printed for none.
// It returns the error of w.
func (ds Diagnostics) WriteText(w io.Writer, color bool) error {
	if len(ds) == 0 {
		return nil
	}
	var out bytes.Buffer
	ink := plain
	if color {
		ink = colored
	}
	for _, d := range ds {
		d.write(&out, ink)
	}
	fmt.Fprintf(&out, "%s in %s\n", words.Count(int64(len(ds)), "error"), printable.Line(ds[0].File))
	_, err := w.Write(out.Bytes())
	return err
}

// ink is the escape codes around the parts of a diagnostic; the zero ink has none.
type ink struct{ bold, red, blue, off string }

var (
	plain   = ink{}
	colored = ink{bold: "\x1b[1m", red: "\x1b[1;31m", blue: "\x1b[1;34m", off: "\x1b[0m"}
)

func (d Diagnostic) write(out *bytes.Buffer, ink ink) {
	file := printable.Line(d.File)
	fmt.Fprintf(out, "%s%s:%d:%d:%s %serror:%s %s%s%s [%s]\n", ink.bold, file, d.Pos.Line, d.Pos.Column, ink.off,
		ink.red, ink.off, ink.bold, d.Message, ink.off, d.ID)
	snippet(out, d.Pos.Line, d.shown, "^", "~", ink.red, ink)
	for _, n := range d.Notes {
		fmt.Fprintf(out, "%s%s:%d:%d:%s %snote:%s %s\n", ink.bold, file, n.Pos.Line, n.Pos.Column, ink.off, ink.blue, ink.off, n.Message)
		snippet(out, n.Pos.Line, n.shown, "-", "-", ink.blue, ink)
	}
	if d.Help != "" {
		fmt.Fprintf(out, "%s = %shelp:%s %s\n", strings.Repeat(" ", digits(d.Pos.Line)), ink.bold, ink.off, d.Help)
	}
}

func digits(line int) int { return len(strconv.Itoa(line)) }

// snippet prints the line with the mark under what the diagnostic is about: "^~~~" or "----".
func snippet(out *bytes.Buffer, line int, shown excerpt, mark, more string, color string, ink ink) {
	if shown == (excerpt{}) {
		return
	}
	gutter := strings.Repeat(" ", digits(line))
	underline := mark + strings.Repeat(more, max(0, cells.Of(shown.marked)-1))
	fmt.Fprintf(out, "%s%s |%s\n", ink.blue, gutter, ink.off)
	fmt.Fprintf(out, "%s%d |%s %s\n", ink.blue, line, ink.off, shown.before+shown.marked+shown.after)
	fmt.Fprintf(out, "%s%s |%s %s%s%s%s\n", ink.blue, gutter, ink.off, cells.Blank(shown.before), color, underline, ink.off)
}
