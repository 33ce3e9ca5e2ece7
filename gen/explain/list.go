package explain

import (
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// WriteList prints the limits of a file, a line each. It returns the error of w.
func WriteList(w io.Writer, file *spec.File, color bool) error {
	p := newPage(color)
	rows := [][]string{{"limit", "key", "kind", "rate", "at once"}}
	for _, l := range file.Limits {
		policy := &l.Policy
		rate := spec.Grouped(policy.Rate) + " per " + spec.PeriodInWords(policy.Period)
		rows = append(rows, []string{policy.Name, strings.Join(names(l), ", "), policy.Kind.String(), rate, spec.Grouped(policy.Capacity)})
	}
	p.table(rows)
	fmt.Fprint(p, "\nratelimitgen explain LIMIT says more about one of them.\n")
	return p.writeTo(w)
}

// table prints rows of cells below their heads, the last column to the right.
func (p *page) table(rows [][]string) {
	widths := fitting(rows)
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

// shortest is how far a column is cut at most.
const shortest = 5

// fitting returns the widths of columns that fit into a line. What must be is cut from the keys, then from the
// rates, and from the names last.
func fitting(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	sum := 2 * (len(widths) - 1)
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], cells.Of(row[i]))
		}
		sum += widths[i]
	}
	for _, i := range []int{1, 3, 0} {
		over := max(0, min(sum-cells.Line, widths[i]-shortest))
		widths[i] -= over
		sum -= over
	}
	return widths
}
