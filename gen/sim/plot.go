package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// timeline counts decisions over time in at most maxBins bins. When the time outgrows them, the bins are joined into
// wider ones, so that a trace of any length takes the same memory in one pass.
type timeline struct {
	// scale is the index in binWidths of the bins' width.
	scale int
	// first is the number of the first bin, counted from 1970 UTC.
	first int64
	bins  []bin
}

// bin counts the decisions in a stretch of time by their outcome.
type bin [Outcomes]int64

// maxBins leaves enough bins after each joining that a plot can choose among columns of several round widths.
const maxBins = 600

// binWidths are the possible widths of bins. Each divides the next, so that bins can be joined without splitting one.
var binWidths = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond,
	time.Second, 10 * time.Second, time.Minute, 10 * time.Minute,
	time.Hour, 6 * time.Hour, words.Day, 10 * words.Day, 100 * words.Day, 1000 * words.Day,
}

func (t *timeline) width() int64 { return int64(binWidths[t.scale]) }

// add counts an outcome at an instant no earlier than that of the first one.
func (t *timeline) add(at int64, o Outcome) {
	if len(t.bins) == 0 {
		t.first = at / t.width()
	}
	for at/t.width()-t.first >= maxBins {
		t.widen()
	}
	i := int(at/t.width() - t.first)
	for len(t.bins) <= i { // also the empty ones since the last decision
		t.bins = append(t.bins, bin{})
	}
	t.bins[i][o]++
}

// widen joins the bins into bins of the next width.
func (t *timeline) widen() {
	factor := int64(binWidths[t.scale+1] / binWidths[t.scale])
	first := t.first / factor
	n := 0
	for i, b := range t.bins {
		to := int((t.first+int64(i))/factor - first)
		if to == n {
			t.bins[n] = bin{} // in place: n never passes i, and b is a copy
			n++
		}
		t.bins[to].join(b)
	}
	t.scale++
	t.first, t.bins = first, t.bins[:n]
}

func (b *bin) join(o bin) {
	for i, n := range o {
		b[i] += n
	}
}

// columns joins the bins into columns of a width that is a multiple of theirs, from the column that contains the
// instant first to the one that contains last.
func (t *timeline) columns(first, last, width int64) []bin {
	columns := make([]bin, last/width-first/width+1)
	for i, b := range t.bins {
		at := (t.first + int64(i)) * t.width()
		columns[at/width-first/width].join(b)
	}
	return columns
}

// axis is the time axis of plots, divided into columns.
type axis struct {
	first, last int64
	width       time.Duration
}

// maxColumns is the number of columns that fit into a line after plotIndent.
const maxColumns = 66

// columnWidths are the possible widths of columns: round ones, so that labels are round times.
var columnWidths = []time.Duration{
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	1 * words.Day, 2 * words.Day, 5 * words.Day, 10 * words.Day, 20 * words.Day, 50 * words.Day,
	100 * words.Day, 200 * words.Day, 500 * words.Day, 1000 * words.Day, 2000 * words.Day,
}

// newAxis returns the axis from first to last with the narrowest columns that fit into a line and into which bins of
// a width can be joined.
func newAxis(first, last, bins int64) axis {
	for _, width := range columnWidths {
		a := axis{first, last, width}
		if int64(width)%bins == 0 && a.columns() <= maxColumns {
			return a
		}
	}
	// The widest columns are enough for all instants of a trace, which end in 2200.
	return axis{first, last, columnWidths[len(columnWidths)-1]}
}

func (a axis) columns() int64 { return a.last/int64(a.width) - a.first/int64(a.width) + 1 }

// labels returns a line with the times at which some columns begin.
func (a axis) labels() string {
	format := a.format()
	every := a.every(2 + len(format))
	first := a.first / int64(a.width)
	// Label the columns whose number since 1970 is a multiple: these begin at the roundest times.
	start := (every - first%every) % every
	if start >= a.columns() {
		start = 0
	}
	var out strings.Builder
	for i := start; i < a.columns() && i+int64(len(format)) <= maxColumns; i += every {
		out.WriteString(strings.Repeat(" ", int(i)-out.Len())) // labels are ASCII, so that Len counts cells
		at := (first + i) * int64(a.width)
		out.WriteString(time.Unix(0, at).UTC().Format(format))
	}
	return out.String()
}

// every returns the number of columns from one label to the next: at least least, and if possible so that the time
// between two labels is round too.
func (a axis) every(least int) int64 {
	for n := least; n <= 2*least; n++ {
		if slices.Contains(columnWidths, a.width*time.Duration(n)) {
			return int64(n)
		}
	}
	return int64(least)
}

// format returns the layout of package time with the precision that the columns need.
func (a axis) format() string {
	oneDay := a.first/int64(words.Day) == a.last/int64(words.Day)
	switch {
	case a.width >= words.Day:
		return "2006-01-02"
	case !oneDay && a.width >= 10*time.Second:
		return "01-02 15:04"
	case a.width >= time.Minute:
		return "15:04"
	case a.width >= time.Second:
		return "15:04:05"
	}
	return "15:04:05.000"
}

// plotRows are the bar charts of a plot, from top to bottom.
var plotRows = []struct {
	outcome Outcome
	height  int
	color   func(cells.Ink) string
}{
	{Allowed, 3, func(i cells.Ink) string { return i.Green }},
	{Delayed, 2, func(i cells.Ink) string { return i.Yellow }},
	{Denied, 3, func(i cells.Ink) string { return i.Red }},
	{Shadowed, 3, func(i cells.Ink) string { return i.Yellow }},
}

// plotIndent is the indentation of everything in a plot but its labels.
const plotIndent = "            "

// writePlots draws the decisions of a limit over time, all to the same scale.
func writePlots(out *bytes.Buffer, a axis, t *timeline, ink cells.Ink) {
	columns := t.columns(a.first, a.last, int64(a.width))
	highest := int64(0)
	for i := range columns {
		b := &columns[i]
		b[Allowed], b[Partly] = b[Allowed]+b[Partly], 0 // one row
		highest = max(highest, slices.Max(b[:]))
	}
	for _, p := range plotRows {
		values, sum := make([]int64, len(columns)), int64(0)
		for i, b := range columns {
			values[i] = b[p.outcome]
			sum += values[i]
		}
		if sum == 0 {
			continue
		}
		for i, line := range bars(values, highest, p.height) {
			label := ""
			if i == p.height-1 {
				label = p.outcome.String()
			}
			if line != "" || label != "" { // no empty lines above low bars
				fmt.Fprintf(out, "  %-8s  %s%s%s\n", label, p.color(ink), line, ink.Off)
			}
		}
	}
	fmt.Fprintf(out, "%s%s%s%s\n", ink.Faint, plotIndent, a.labels(), ink.Off)
	fmt.Fprintf(out, "%seach column is %s; the highest bar is %s\n", plotIndent, roundedDuration(a.width),
		words.Count(highest, "request"))
}

// blocks are a cell filled from the bottom, by eighths.
var blocks = []rune(" ▁▂▃▄▅▆▇█")

const eighths = 8

// bars draws values as a bar chart of height lines, from the top. A bar of highest fills the height.
func bars(values []int64, highest int64, height int) []string {
	lines := make([]string, height)
	for row := range lines {
		var line strings.Builder
		below := (height - 1 - row) * eighths
		for _, v := range values {
			level := (v*int64(height*eighths) + highest - 1) / highest // rounded up, so that even one request is visible
			line.WriteRune(blocks[min(max(int(level)-below, 0), eighths)])
		}
		lines[row] = strings.TrimRight(line.String(), " ")
	}
	return lines
}
