package cells

import "strings"

// Ink is the escape codes that set the color of a text and, with Off, reset it. The zero Ink writes no codes.
type Ink struct{ Bold, Faint, Red, Green, Yellow, Blue, Off string }

// InkFor returns the codes of a terminal if color is set, and otherwise the zero Ink.
func InkFor(color bool) Ink {
	if !color {
		return Ink{}
	}
	return Ink{
		Bold: "\x1b[1m", Faint: "\x1b[2m", Red: "\x1b[1;31m", Green: "\x1b[1;32m", Yellow: "\x1b[1;33m", Blue: "\x1b[1;34m",
		Off: "\x1b[0m",
	}
}

// narrowest is the width below which [Table] cuts no column.
const narrowest = 5

// Table returns rows as lines of aligned columns, two spaces apart, each line after the indent. Align has one letter
// for each column: 'l' or 'r'. If a line would be longer than [Line], the cut columns are narrowed in the given order
// and their cells end in "…". All rows have as many cells as align has letters.
func Table(rows [][]string, align, indent string, cut ...int) string {
	widths := columnWidths(rows, len(align), Of(indent), cut)
	var out strings.Builder
	for _, row := range rows {
		line := indent
		for i, cell := range row {
			if i > 0 {
				line += "  "
			}
			cell = Fit(cell, widths[i])
			if align[i] == 'r' {
				text := strings.TrimRight(cell, " ")
				cell = strings.Repeat(" ", len(cell)-len(text)) + text
			}
			line += cell
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}

// columnWidths returns the width of each column once the cut columns are narrowed.
func columnWidths(rows [][]string, columns, indent int, cut []int) []int {
	widths := make([]int, columns)
	sum := indent + 2*(columns-1)
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], Of(row[i]))
		}
		sum += widths[i]
	}
	for _, i := range cut {
		over := max(0, min(sum-Line, widths[i]-narrowest))
		widths[i] -= over
		sum -= over
	}
	return widths
}
