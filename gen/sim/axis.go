package sim

import (
	"slices"
	"strings"
	"time"
)

// mostColumns is how many columns a plot has at most.
const mostColumns = 66

// columnWidths are the widths that the columns of a plot can have: round ones, of which each that is wide
// enough is a multiple of the bins.
var columnWidths = []time.Duration{
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	1 * day, 2 * day, 5 * day, 10 * day, 20 * day, 50 * day, 100 * day, 200 * day, 500 * day, 1000 * day, 2000 * day,
}

// axis is the time that plots show, by columns.
type axis struct {
	first, last int64
	width       time.Duration
}

// newAxis returns the axis from first to last with the narrowest columns that fit and that timelines with bins
// of a width can be shown by.
func newAxis(first, last, bins int64) axis {
	for _, width := range columnWidths {
		a := axis{first, last, width}
		if int64(width)%bins == 0 && a.columns() <= mostColumns {
			return a
		}
	}
	return axis{first, last, columnWidths[len(columnWidths)-1]}
}

func (a axis) columns() int64 { return a.last/int64(a.width) - a.first/int64(a.width) + 1 }

// labels returns a line with the times at which columns begin, those of round times.
func (a axis) labels() string {
	form := a.form()
	every := a.every(2 + len(form))
	first := a.first / int64(a.width)
	start := (every - first%every) % every
	if start >= a.columns() {
		start = 0
	}
	var out strings.Builder
	for i := start; i < a.columns() && i+int64(len(form)) <= mostColumns; i += every {
		out.WriteString(strings.Repeat(" ", int(i)-out.Len()))
		at := (first + i) * int64(a.width)
		out.WriteString(time.Unix(0, at).UTC().Format(form))
	}
	return out.String()
}

// every returns how many columns there are from one label to the next: at least least, and so many that their
// width is round too if there is such a number.
func (a axis) every(least int) int64 {
	for n := least; n <= 2*least; n++ {
		if slices.Contains(columnWidths, a.width*time.Duration(n)) {
			return int64(n)
		}
	}
	return int64(least)
}

// form is how the times of the labels are written, as package time has it.
func (a axis) form() string {
	oneDay := a.first/int64(day) == a.last/int64(day)
	switch {
	case a.width >= day:
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
