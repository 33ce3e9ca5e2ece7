package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// markdown returns the report as Markdown tables.
func (r *report) markdown() string {
	var parts []string
	for _, part := range []string{r.Machine, r.ratioTable(), r.cellTable(), r.tallyTable()} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "\n")
}

// cellTable is the results of every contender under every load.
func (r *report) cellTable() string {
	rows := [][]string{{"callers", "keys", "contender", "decisions/s", "p50", "p99", "failed", "own CPU, µs", "database CPU, µs"}}
	for _, c := range r.Cells {
		own, database := "", ""
		if c.HasCPU {
			own, database = micros(c.Own), micros(c.Server)
		}
		rows = append(rows, []string{
			digits(c.Callers), digits(c.Keys), c.Contender, digits(int(c.PerSecond)), brief(c.P50), brief(c.P99), percent(c.Failed),
			own, database,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(r.NotRun)) {
		rows = append(rows, []string{"", "", name, "not run: " + r.NotRun[name], "", "", "", "", ""})
	}
	return markdownTable(rows)
}

func ratioText(figure float64) string { return strconv.FormatFloat(figure, 'f', 2, 64) }

func micros(seconds float64) string { return strconv.FormatFloat(seconds*1e6, 'f', 1, 64) }

// tallyTable is the counts of every contender.
func (r *report) tallyTable() string {
	rows := [][]string{{"contender", "round trips", "allocations"}}
	for _, c := range contenders {
		if t := r.Tallies[c.name]; t != nil {
			rows = append(rows, []string{c.name, count(t.Trips), count(t.Allocations)})
		}
	}
	return markdownTable(rows)
}

// ratioTable is the ratios that were measured.
func (r *report) ratioTable() string {
	rows := [][]string{{"ratio", "figure", "CPU, µs", "CPU of the other, µs"}}
	for _, q := range slices.Concat(ratios, sweepRatios()) {
		if ours, theirs, ok := q.of(r); ok {
			rows = append(rows, []string{q.String(), ratioText(q.figure(ours, theirs)), ours.cpu(), theirs.cpu()})
		}
	}
	return markdownTable(rows)
}

// cpu returns the processor time of a decision in microseconds, own and database's, or "" if it was not measured.
func (c *cell) cpu() string {
	if !c.HasCPU {
		return ""
	}
	return micros(c.Own) + " + " + micros(c.Server)
}

// markdownTable returns rows as a Markdown table whose head is the first row, or "" if there are no other rows.
func markdownTable(rows [][]string) string {
	if len(rows) == 1 {
		return ""
	}
	rows = slices.Insert(rows, 1, slices.Repeat([]string{"---"}, len(rows[0])))
	var b strings.Builder
	// Errors of drivers may have line breaks, and a pipe would begin another cell.
	escape := strings.NewReplacer("|", "\\|", "\n", " ")
	for _, row := range rows {
		b.WriteString("|")
		for _, field := range row {
			fmt.Fprintf(&b, " %s |", escape.Replace(field))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// digits returns a number with commas, as "1,000".
func digits(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return digits(n) + " " + thing
}

// brief returns a duration with three significant digits.
func brief(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// percent returns a fraction as a percentage, or "" for 0.
func percent(part float64) string {
	if part == 0 {
		return ""
	}
	return strconv.FormatFloat(100*part, 'f', 1, 64) + "%"
}

// count returns a count with up to two decimals, or "" for -1, which means not measured.
func count(n float64) string {
	if n == -1 {
		return ""
	}
	return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
}
