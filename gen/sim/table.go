package sim

import (
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
)

// mostCells is how wide a line of a report is at most.
const mostCells = 80

// table is text in columns: the first to the left, the others to the right.
type table [][]string

// write prints the table, each line after the indent. The first column is cut if the lines are too wide.
func (t table) write(out io.Writer, indent string) {
	widths := t.widths()
	others := len(indent)
	for _, w := range widths[1:] {
		others += 2 + w
	}
	widths[0] = min(widths[0], max(mostCells-others, 5))
	for _, row := range t {
		line := indent + padded(shown(row[0], widths[0]), widths[0])
		for i, cell := range row[1:] {
			line += strings.Repeat(" ", 2+widths[i+1]-cells.Of(cell)) + cell
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

// widths returns the width of each column.
func (t table) widths() []int {
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], cells.Of(cell))
		}
	}
	return widths
}

// wrapped breaks a text into lines, each after the indent.
func wrapped(text, indent string) string {
	var out strings.Builder
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && cells.Of(indent+line+" "+word) > mostCells {
			out.WriteString(indent + line + "\n")
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return out.String() + indent + line + "\n"
}
