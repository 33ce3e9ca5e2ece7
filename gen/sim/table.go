package sim

import (
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
)

// table is text in columns: the first to the left, the others to the right.
type table [][]string

// write prints the table, each line after the indent. The first column is cut if the lines are too wide.
func (t table) write(out io.Writer, indent string) {
	widths := t.widths()
	others := len(indent)
	for _, w := range widths[1:] {
		others += 2 + w
	}
	widths[0] = min(widths[0], max(cells.Line-others, 5))
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
