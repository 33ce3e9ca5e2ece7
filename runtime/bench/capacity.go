package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// capacityPage is the page whose tables are calculated from those of the contenders.
const capacityPage = "../sqlstore/CAPACITY.md"

// What the page assumes: a server of some cores, and hosts with so many calls at a time.
const (
	roundTrip = 500 * time.Microsecond
	cores     = 8
	hostCalls = 64
	manyHosts = 100
)

// perSecond is how many nanoseconds there are in a second.
const perSecond = float64(time.Second)

// statementCost is what a statement costs a server: the processor time of one and of each of its rows, and what its commit
// waits for the disk.
type statementCost struct {
	name                  string
	statement, row, flush time.Duration
}

// postgresCosts returns the costs from the tables of a document, as [report.contenderTable] writes them: with one caller, a
// statement has one row, and nothing waits for the disk if the commits are relaxed; with 512 callers, the time is nearly all
// that of rows.
func postgresCosts(document string) (costs []statementCost, err error) {
	var calls []time.Duration
	for _, name := range []string{oursPostgres, oursRelaxed} {
		alone, err := readCell(document, name, loadName(1, 1000))
		if err != nil {
			return nil, err
		}
		many, err := readCell(document, name, loadName(512, 10_000))
		if err != nil {
			return nil, err
		}
		calls = append(calls, time.Duration(perSecond/alone.rate))
		costs = append(costs, statementCost{name: name, statement: alone.server - many.server, row: many.server})
	}
	costs[0].flush = calls[0] - calls[1]
	return costs, nil
}

// numbers are those of a field: decisions in a second, and the server's processor time of one.
type numbers struct {
	rate   float64
	server time.Duration
}

// readCell reads a field of the first table of a document whose head has the column.
func readCell(document, row, column string) (n numbers, err error) {
	at := -1
	for line := range strings.Lines(document) {
		fields := strings.Split(strings.Trim(line, "| \n"), " | ")
		if at < 0 {
			for i, field := range fields {
				if field == column {
					at = i
				}
			}
		} else if fields[0] == row && at < len(fields) {
			rate, rest, _ := strings.Cut(fields[at], " · ")
			_, server, _ := strings.Cut(rest, " + ")
			if n.rate, err = strconv.ParseFloat(strings.ReplaceAll(rate, ",", ""), 64); err != nil {
				return n, err
			}
			if server == "" { // SQLite runs in this process
				return n, nil
			}
			var micros float64
			micros, err = strconv.ParseFloat(server, 64)
			n.server = time.Duration(micros * float64(time.Microsecond))
			return n, err
		}
	}
	return n, fmt.Errorf("the document has no table with the row %q and the column %q", row, column)
}

// processor is the server's processor time of a statement.
func (c statementCost) processor(rows int) time.Duration {
	return c.statement + time.Duration(rows)*c.row
}

// decisions is how many decisions in a second a server makes for hosts, each of which has one statement in flight: bound by
// those, by its processors, and, if all statements want one row, by its lock.
func (c statementCost) decisions(hosts, rows int) float64 {
	processor := c.processor(rows)
	least := min(float64(hosts)/float64(roundTrip+processor+c.flush), cores/float64(processor))
	if rows == 1 {
		least = min(least, 1/float64(processor+c.flush))
	}
	return hostCalls * perSecond * least
}

// enough is from how many hosts on another one adds nothing.
func (c statementCost) enough(rows int) int {
	return int(math.Ceil(c.decisions(math.MaxInt32, rows) / c.decisions(1, rows)))
}

// capacityTables returns the sections of the page by their names.
func capacityTables(costs []statementCost) map[string]string {
	of := [][]string{{"", "processor, a statement", "and each row", "flush", "round trip"}}
	decisions := [][]string{{"", "calls and rows of a statement", "1 host", fmt.Sprintf("%d hosts", manyHosts), "enough hosts"}}
	blocks := [][]string{{"", "blocks of 10", "blocks of 100", "blocks of 1,000"}}
	for _, c := range costs {
		of = append(of, []string{c.name, about(c.statement), about(c.row), about(c.flush), about(roundTrip)})
		block := []string{c.name}
		for _, tokens := range []float64{10, 100, 1000} {
			block = append(block, rounded(tokens*perSecond/float64(c.processor(1)+c.flush)))
		}
		blocks = append(blocks, block)
	}
	for _, keys := range []struct {
		name string
		rows int
	}{{"one hot key", 1}, {"many keys", hostCalls}} {
		for _, c := range costs {
			decisions = append(decisions, []string{
				c.name + ", " + keys.name, fmt.Sprintf("%d, %d", hostCalls, keys.rows),
				rounded(c.decisions(1, keys.rows)), rounded(c.decisions(manyHosts, keys.rows)), digits(c.enough(keys.rows)),
			})
		}
	}
	return map[string]string{"costs": markdownTable(of), "decisions": markdownTable(decisions), "blocks": markdownTable(blocks)}
}

// about returns a time in microseconds with two digits, if it has no more before the point.
func about(d time.Duration) string {
	micros := float64(d) / float64(time.Microsecond)
	if micros > 0 && micros < 10 {
		return strconv.FormatFloat(micros, 'f', 1, 64) + " µs"
	}
	return strconv.FormatFloat(micros, 'f', 0, 64) + " µs"
}

// rounded returns a number with two digits other than zero at its end.
func rounded(n float64) string {
	step := math.Pow(10, math.Floor(math.Log10(n))-1)
	return digits(int(math.Round(n/step) * step))
}

// withCapacity returns the page with the tables that follow from those of a document.
func withCapacity(page, document string) (string, error) {
	costs, err := postgresCosts(document)
	if err != nil {
		return "", err
	}
	for name, table := range capacityTables(costs) {
		if page, err = replaceSection(page, name, table); err != nil {
			return "", err
		}
	}
	return page, nil
}

// updateCapacity writes the tables that follow from those of a document into the page.
func updateCapacity(document string) error {
	page, err := os.ReadFile(capacityPage)
	if err != nil {
		return err
	}
	text, err := withCapacity(string(page), document)
	if err != nil {
		return fmt.Errorf("%s: %w", capacityPage, err)
	}
	return os.WriteFile(capacityPage, []byte(text), 0o666)
}
