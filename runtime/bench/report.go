package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report is the results of a run.
type report struct {
	// Machine describes the machine and its servers.
	Machine string
	Cells   []cell
	// NotRun is why contenders have not run.
	NotRun map[string]string
}

func newReport() *report { return &report{NotRun: map[string]string{}} }

// skip records why a contender has not run. Later reasons are dropped, because they follow from the first.
func (r *report) skip(name string, err error) {
	if _, ok := r.NotRun[name]; !ok {
		r.NotRun[name] = err.Error()
		logf("%s: not run: %v", name, err)
	}
}

// cell returns the result of a contender under a load, or nil.
func (r *report) cell(name string, callers, keys int) *cell {
	i := slices.IndexFunc(r.Cells, func(c cell) bool {
		return c.Contender == name && c.Callers == callers && c.Keys == keys
	})
	if i < 0 {
		return nil
	}
	return &r.Cells[i]
}

// errNoAnswer means that no call ended in most rounds.
var errNoAnswer = errors.New("no call was answered in time")

// add adds results. A contender without decisions in most rounds has none under this load.
func (r *report) add(cells ...cell) {
	for _, c := range cells {
		if c.PerSecond == 0 {
			r.skip(c.Contender+", "+loadName(c.Callers, c.Keys), errNoAnswer)
			continue
		}
		r.Cells = append(r.Cells, c)
	}
}

// contenderTable has a row for each contender, and a column for each load with the rate and the processor times.
func (r *report) contenderTable(loads []heat) string {
	rows := [][]string{{"decisions/s · CPU of one, µs"}}
	for _, h := range loads {
		rows[0] = append(rows[0], loadName(h.callers, h.keys))
	}
	first := loads[0]
	name := loadName(first.callers, first.keys)
	rows[0] = append(rows[0], "p99, "+name, "allocations, "+name)
	for _, c := range contenders {
		row, measured := []string{c.name}, false
		for _, h := range loads {
			cell := r.cell(c.name, h.callers, h.keys)
			row, measured = append(row, cell.rate()), measured || cell != nil
		}
		p99, allocations := "", ""
		if cell := r.cell(c.name, first.callers, first.keys); cell != nil {
			p99, allocations = brief(cell.latency.P99), fmt.Sprintf("%.0f, %s B", cell.Objects, digits(int(math.Round(cell.Bytes))))
		}
		if measured {
			rows = append(rows, append(row, p99, allocations))
		}
	}
	return markdownTable(rows)
}

// rate returns the decisions per second and the processor times of one in microseconds, of this process and of the server.
func (c *cell) rate() string {
	if c == nil {
		return ""
	}
	text := digits(int(c.PerSecond))
	switch {
	case c.HasCPU && c.Server > 0:
		text += " · " + micros(c.Own) + " + " + micros(c.Server)
	case c.HasCPU:
		text += " · " + micros(c.Own)
	}
	if c.Failed > 0 {
		text += " · " + percent(c.Failed) + " failed"
	}
	return text
}

// againstTable compares the processor time of a decision on each database with the database's floor, and with the cheapest
// contenders on a Redis without durability, under each load.
func (r *report) againstTable(loads []heat) string {
	rows := [][]string{{"CPU of a decision, as a ratio"}}
	for _, h := range loads {
		rows[0] = append(rows[0], loadName(h.callers, h.keys))
	}
	for _, db := range databases {
		of := [][]string{{db.name + " ÷ its floor"}, {"token bucket on Redis ÷ " + db.name}, {"window on Redis ÷ " + db.name}}
		measured := false
		for _, h := range loads {
			ours, floor := r.cell(db.name, h.callers, h.keys), r.cell(floorOf(db.name), h.callers, h.keys)
			measured = measured || ours != nil
			of[0] = append(of[0], quotient(ours, floor))
			of[1] = append(of[1], quotient(r.bestOnRedis(h, false), ours))
			of[2] = append(of[2], quotient(r.bestOnRedis(h, true), ours))
		}
		if measured {
			rows = append(rows, of...)
		}
	}
	return markdownTable(rows)
}

// bestOnRedis returns the contender on a Redis without durability that takes the least processor time, or nil.
func (r *report) bestOnRedis(h heat, window bool) (best *cell) {
	for _, c := range contenders {
		cell := r.cell(c.name, h.callers, h.keys)
		if c.server != redisDB || c.window != window || cell == nil || !cell.HasCPU {
			continue
		}
		if best == nil || cell.busy() < best.busy() {
			best = cell
		}
	}
	return best
}

// quotient returns the processor time of a decision of one contender divided by another's, or "" if one was not measured.
func quotient(of, by *cell) string {
	if of == nil || by == nil || !of.HasCPU || !by.HasCPU {
		return ""
	}
	return strconv.FormatFloat(of.busy()/by.busy(), 'f', 2, 64)
}

// callTable has the processor times of each call on each database, and their ratios to the first call's.
func (r *report) callTable() string {
	rows := [][]string{{"CPU of a decision, µs · as a ratio"}}
	for _, c := range calls {
		rows = append(rows, []string{c.name})
	}
	for _, db := range databases {
		for _, callers := range callLoads {
			first := r.cell(callName(db.name, calls[0].name), callers, callKeys)
			rows[0] = append(rows[0], fmt.Sprintf("%s, %s", db.name, plural(callers, "caller")))
			for i, c := range calls {
				cell, text := r.cell(callName(db.name, c.name), callers, callKeys), ""
				if cell != nil && cell.HasCPU {
					text = micros(cell.busy())
				}
				if ratio := quotient(cell, first); i > 0 && ratio != "" {
					text += " · " + ratio
				}
				rows[i+1] = append(rows[i+1], text)
			}
		}
	}
	return markdownTable(rows)
}

// arrivalTable has the latencies and processor times of calls that arrive at a part of a contender's rate.
func (r *report) arrivalTable() string {
	rows := [][]string{{"p50 · p99 · p99.9 · CPU of one, µs"}}
	for _, part := range arrivalParts {
		rows[0] = append(rows[0], part.name)
	}
	for _, name := range arriving {
		row, measured := []string{name}, false
		for _, part := range arrivalParts {
			text := ""
			if c := r.cell(arrivalName(name, part.name), 0, arrivalLoad.keys); c != nil {
				measured = true
				text = digits(int(c.PerSecond)) + "/s: " + brief(c.latency.P50) + " · " + brief(c.latency.P99) + " · " +
					brief(c.latency.P999)
				if c.HasCPU {
					text += " · " + micros(c.busy())
				}
				if c.Failed > 0 {
					text += " · " + percent(c.Failed) + " failed"
				}
			}
			row = append(row, text)
		}
		if measured {
			rows = append(rows, row)
		}
	}
	return markdownTable(rows)
}

// sweepTable has the rates and processor times without and during a sweep, and the ratio of the rates.
func (r *report) sweepTable() string {
	rows := [][]string{{"decisions/s · CPU of one, µs", "without a sweep", "during a sweep", "ratio"}}
	for _, db := range databases {
		without, during := r.cell(withoutSweep(db.name), sweepCallers, sweepKeys),
			r.cell(duringSweep(db.name), sweepCallers, sweepKeys)
		if without != nil && during != nil {
			// The median over the turns, because both rounds of a turn ran shortly after each other.
			ratio := median(quotients(during.Turns, without.Turns))
			rows = append(rows, []string{db.name, without.rate(), during.rate(), strconv.FormatFloat(ratio, 'f', 2, 64)})
		}
	}
	return markdownTable(rows)
}

// spread describes how much the turns of the contenders whose names match differ.
func (r *report) spread(of func(name string) bool) string {
	var spreads []float64
	var worst cell
	for _, c := range r.Cells {
		if of(c.Contender) {
			spreads = append(spreads, c.Spread)
			if c.Spread >= worst.Spread {
				worst = c
			}
		}
	}
	if len(spreads) == 0 {
		return ""
	}
	return fmt.Sprintf("Half of the turns are within %s of the median of a rate, at worst within %s (%s, %s).\n",
		percent(median(spreads)), percent(worst.Spread), worst.Contender, loadName(worst.Callers, worst.Keys))
}

// notRun lists the contenders that have not run, and why.
func (r *report) notRun() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.NotRun)) {
		fmt.Fprintf(&b, "Not run: %s: %s\n", name, strings.ReplaceAll(r.NotRun[name], "\n", " "))
	}
	return b.String()
}

// replaceSection returns a document with the lines between <!-- name --> and <!-- end --> replaced.
func replaceSection(document, name, text string) (string, error) {
	begin := "<!-- " + name + " -->\n"
	before, rest, found := strings.Cut(document, begin)
	_, after, ended := strings.Cut(rest, "<!-- end -->")
	if !found || !ended {
		return "", fmt.Errorf("the document has no lines %q and <!-- end -->", strings.TrimSpace(begin))
	}
	return before + begin + "\n" + strings.TrimSpace(text) + "\n\n<!-- end -->" + after, nil
}

// markdownTable returns rows as a Markdown table whose head is the first row, or "" if there are no other rows.
func markdownTable(rows [][]string) string {
	if len(rows) == 1 {
		return ""
	}
	rows = slices.Insert(rows, 1, slices.Repeat([]string{"---"}, len(rows[0])))
	var b strings.Builder
	for _, row := range rows {
		b.WriteString("|")
		for _, field := range row {
			fmt.Fprintf(&b, " %s |", field)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func loadName(callers, keys int) string {
	return fmt.Sprintf("%s, %s", plural(callers, "caller"), plural(keys, "key"))
}

func micros(seconds float64) string {
	return strconv.FormatFloat(seconds*1e6, 'f', decimals(seconds*1e6), 64)
}

// decimals returns how many decimals a number of microseconds needs: those below 1 need a second one.
func decimals(n float64) int {
	if n < 1 {
		return 2
	}
	return 1
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

// percent returns a fraction as a percentage.
func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + " %" }

// quotients divides the values of a by those of b, pairwise.
func quotients(a, b []float64) (q []float64) {
	for i := range min(len(a), len(b)) {
		q = append(q, a[i]/b[i])
	}
	return q
}

// percentile returns the smallest value that at least p thousandths of sorted do not exceed, and 0 if sorted is empty.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+999)/1000-1)]
}

// median returns the middle value, the lower one of two, and the zero value if there are no values.
func median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	values = slices.Sorted(slices.Values(values))
	return values[(len(values)-1)/2]
}
