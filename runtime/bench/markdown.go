package main

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// markdown returns the report as Markdown tables.
func (r *report) markdown() string {
	var parts []string
	for _, part := range []string{r.Machine.String(), r.verdictTable(), r.cellTable(), r.tallyTable(), r.costTable()} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "\n")
}

func (m machine) String() string {
	if m.Go == "" {
		return ""
	}
	lines := []string{fmt.Sprintf("%s on %s/%s, %s.", m.Go, m.OS, m.Arch, plural(m.CPUs, "CPU"))}
	for _, name := range slices.Sorted(maps.Keys(m.Servers)) {
		lines = append(lines, m.Servers[name]+".")
	}
	return strings.Join(lines, "\n") + "\n"
}

// cellTable is the results of every contender under every load.
func (r *report) cellTable() string {
	rows := [][]string{{"callers", "keys", "contender", "decisions/s", "p50", "p99", "failed", "own CPU, µs", "database CPU, µs"}}
	for _, c := range r.Cells {
		keys := digits(c.Keys)
		if c.Denied {
			keys += ", exhausted"
		}
		own, database := "", ""
		if c.HasCPU {
			own, database = micros(c.Own), micros(c.Server)
		}
		rows = append(rows, []string{
			digits(c.Callers), keys, c.Contender, digits(int(c.PerSecond)), brief(c.P50), brief(c.P99), percent(c.Failed),
			own, database,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(r.NotRun)) {
		rows = append(rows, []string{"", "", name, "not run: " + r.NotRun[name], "", "", "", "", ""})
	}
	return markdownTable(rows)
}

// costTable is the costs of a statement, in microseconds, and the ratios to its floor.
func (r *report) costTable() string {
	head := []string{"statement", "fixed, µs", "a row, µs", "database CPU, fixed", "database CPU, a row"}
	for _, n := range floorSizes {
		head = append(head, fmt.Sprintf("bare upsert of %s: time, CPU", plural(n, "row")))
	}
	rows := [][]string{head}
	for _, d := range costed {
		if c, ok := r.Costs[d.name]; ok {
			row := []string{d.contender, micros(c.Fixed), micros(c.PerRow), "", ""}
			if c.CPU != nil {
				row[3], row[4] = micros(c.CPU.Fixed), micros(c.CPU.PerRow)
			}
			for _, n := range floorSizes {
				row = append(row, againstFloor(batch(c.Batches, n), batch(c.Floor, n)))
			}
			rows = append(rows, row)
		}
	}
	return markdownTable(rows)
}

// againstFloor returns the time and the processor time of the floor divided by those of ours.
func againstFloor(ours, floor *batchCost) string {
	if ours == nil || floor == nil {
		return ""
	}
	text := ratioText(floor.Seconds / ours.Seconds)
	if ours.CPU > 0 && floor.CPU > 0 {
		text += ", " + ratioText((floor.Own+floor.CPU)/(ours.Own+ours.CPU))
	}
	return text
}

func ratioText(figure float64) string { return strconv.FormatFloat(figure, 'f', 2, 64) }

func micros(seconds float64) string { return strconv.FormatFloat(seconds*1e6, 'f', 1, 64) }

// tallyTable is the counts of every contender.
func (r *report) tallyTable() string {
	rows := [][]string{{"contender", "round trips", "allocations", "bytes per idle key"}}
	for _, c := range contenders {
		if t := r.Tallies[c.name]; t != nil {
			rows = append(rows, []string{c.name, count(t.Trips), count(t.Allocations), count(t.BytesPerKey)})
		}
	}
	return markdownTable(rows)
}

// verdictTable is the aims and the verdicts.
func (r *report) verdictTable() string {
	rows := [][]string{{"ratio", "aim", "figure", "verdict", "CPU, µs", "CPU of the other, µs"}}
	for _, v := range r.Verdicts {
		figure := ""
		if v.Figure != nil {
			figure = ratioText(*v.Figure)
		}
		rows = append(rows, []string{v.What, v.Aim, figure, v.String(), v.Ours.String(), v.Theirs.String()})
	}
	return markdownTable(rows)
}

// String returns the processor time of both sides in microseconds, or "" if it was not measured.
func (p *perDecision) String() string {
	if p == nil {
		return ""
	}
	return micros(p.Own) + " + " + micros(p.Server)
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

// The tables of a run are between these lines of README.md.
const (
	tablesBegin = "<!-- tables -->\n"
	tablesEnd   = "<!-- /tables -->\n"
)

// withTables replaces the tables in a text.
func withTables(text, tables string) (string, error) {
	before, rest, begins := strings.Cut(text, tablesBegin)
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return "", fmt.Errorf("no line %q with a line %q after it",
			strings.TrimSpace(tablesBegin), strings.TrimSpace(tablesEnd))
	}
	// The lines stay, so that the next run finds them.
	return before + tablesBegin + tables + tablesEnd + after, nil
}

func writeTables(path, tables string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	replaced, err := withTables(string(text), tables)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(replaced), 0o644)
}
