package sim

import (
	"bytes"
	"fmt"
	"strings"
)

// plotted are the rows of a plot.
var plotted = []struct {
	name   string
	height int
	color  func(ink) string
	count  func(bin) int64
}{
	{"allowed", 3, func(i ink) string { return i.green }, func(b bin) int64 { return b.allowed }},
	{"delayed", 2, func(i ink) string { return i.yellow }, func(b bin) int64 { return b.delayed }},
	{"denied", 3, func(i ink) string { return i.red }, func(b bin) int64 { return b.denied }},
}

// plotIndent stands before what goes with a plot.
const plotIndent = "            "

// writePlots draws what became of a limit's requests over time, all to the same scale.
func writePlots(out *bytes.Buffer, a axis, t *timeline, ink ink) {
	columns := t.columns(a.first, a.last, int64(a.width))
	top := int64(0)
	for _, b := range columns {
		top = max(top, b.allowed, b.delayed, b.denied)
	}
	for _, p := range plotted {
		values, sum := make([]int64, len(columns)), int64(0)
		for i, b := range columns {
			values[i] = p.count(b)
			sum += values[i]
		}
		if sum == 0 {
			continue
		}
		for i, line := range bars(values, top, p.height) {
			label := ""
			if i == p.height-1 {
				label = p.name
			}
			if line != "" || label != "" {
				fmt.Fprintf(out, "  %-8s  %s%s%s\n", label, p.color(ink), line, ink.off)
			}
		}
	}
	fmt.Fprintf(out, "%s%s%s%s\n", ink.faint, plotIndent, a.labels(), ink.off)
	fmt.Fprintf(out, "%sa column is %s; the highest is %s\n", plotIndent, length(a.width), plural(top, "request"))
}

// blocks are the signs for nothing to eight eighths of a cell.
var blocks = []rune(" ▁▂▃▄▅▆▇█")

const eighths = 8

// bars draws values as bars, in lines from the top. The bar of most fills the height; one of more than nothing
// can be seen.
func bars(values []int64, most int64, height int) []string {
	lines := make([]string, height)
	for row := range lines {
		var line strings.Builder
		below := (height - 1 - row) * eighths
		for _, v := range values {
			level := (v*int64(height*eighths) + most - 1) / most
			line.WriteRune(blocks[min(max(int(level)-below, 0), eighths)])
		}
		lines[row] = strings.TrimRight(line.String(), " ")
	}
	return lines
}
