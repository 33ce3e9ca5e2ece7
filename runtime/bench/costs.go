package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// cost is the cost of a statement that takes a token from each of some rows, with one caller. All times are in seconds.
type cost struct {
	line
	// CPU is the time of the database's processor, nil if it cannot be measured. For SQLite it is that of this process.
	CPU *line `json:"cpu,omitempty"`
	// Batches are the measured points, through which the lines are fitted.
	Batches []batchCost `json:"batches"`
}

// batchCost is the cost of a statement with Rows rows.
type batchCost struct {
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu,omitempty"`
}

// costed are the contenders whose costs are measured, with their names in the JSON results.
var costed = []struct{ name, contender string }{
	{"sqlite", oursSQLite},
	{"postgres", oursPostgres},
	{"postgresRelaxed", oursRelaxed},
	{"mariadb", oursMariaDB},
	{"mysql", oursMySQL},
}

// batchSizes are the numbers of rows that are measured.
var batchSizes = []int{1, 2, 8, 64, 512}

// costRows is the size of the table.
const costRows = 10_000

func (r *report) measureCosts(ctx context.Context, s *site, p plan) error {
	r.Costs = map[string]cost{}
	alone := &site{servers: s.servers, dir: s.dir, rows: costRows, conns: 1}
	for _, d := range costed {
		c, _ := find(d.contender)
		if r.NotRun[c.name] != "" || ctx.Err() != nil {
			continue
		}
		logf("%s: costs", c.name)
		priced, err := costOf(ctx, alone, c, p)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		r.Costs[d.name] = priced
	}
	return ctx.Err()
}

// costOf measures a contender, in turns of all sizes.
func costOf(ctx context.Context, s *site, c contender, p plan) (cost, error) {
	o, err := c.open(ctx, s, plenty)
	if err != nil {
		return cost{}, err
	}
	defer o.close()
	usage, err := cpuOf(ctx, o)
	if err != nil {
		logf("%s: no CPU times: %v", c.name, err)
	}
	meters := make([]meter, len(batchSizes))
	for turn := range p.turns {
		for i := range meters {
			// Each turn begins with another size, as in heats.
			i = (i + turn) % len(meters)
			if err := meters[i].run(ctx, o, batchSizes[i], p.pace, usage); err != nil {
				return cost{}, err
			}
		}
	}
	return newCost(meters, usage != nil), nil
}

// meter adds up the costs of statements of one size.
type meter struct {
	// seconds is the time of a statement, in each turn.
	seconds []float64
	// cpu is the processor time of all statements.
	cpu        time.Duration
	statements int
}

// run runs statements for a turn, at least one.
func (m *meter) run(ctx context.Context, o *instance, rows int, p pace, usage cpuTime) error {
	var done int
	var began time.Time
	var before time.Duration
	for start := time.Now(); done == 0 || time.Since(start) < p.leadIn+p.length; {
		// The lead-in ends between statements, so that no statement is measured in part.
		if began.IsZero() && time.Since(start) >= p.leadIn {
			began, before = time.Now(), usage.now()
		}
		if err := o.takeAll(ctx, anyKeys(rows)); err != nil {
			return err
		}
		if !began.IsZero() {
			done++
		}
	}
	m.seconds = append(m.seconds, time.Since(began).Seconds()/float64(done))
	m.cpu, m.statements = m.cpu+usage.now()-before, m.statements+done
	return nil
}

// anyKeys returns n different keys of the table.
func anyKeys(n int) []string {
	keys := make([]string, n)
	// Spread over the table, because neighbours share pages.
	first, stride := rand.IntN(costRows), costRows/n
	for i := range keys {
		keys[i] = keyOf((first + i*stride) % costRows)
	}
	return keys
}

// newCost fits the lines through the measurements of all sizes.
func newCost(meters []meter, hasCPU bool) (c cost) {
	var rows, seconds, cpu []float64
	for i, m := range meters {
		b := batchCost{Rows: batchSizes[i], Seconds: median(m.seconds)}
		if hasCPU {
			// The kernel counts in ticks: a total below one is estimated as half of it, because a fit cannot use 0.
			b.CPU = max(m.cpu, tick/2).Seconds() / float64(m.statements)
			cpu = append(cpu, b.CPU)
		}
		rows, seconds = append(rows, float64(b.Rows)), append(seconds, b.Seconds)
		c.Batches = append(c.Batches, b)
	}
	c.line = fit(rows, seconds)
	if hasCPU {
		l := fit(rows, cpu)
		c.CPU = &l
	}
	return c
}

// line is a cost that is linear in the number of rows: Fixed + rows*PerRow, in seconds.
type line struct {
	Fixed  float64 `json:"fixed"`
	PerRow float64 `json:"perRow"`
}

// fit returns the line with the least squares of the relative errors, so that small statements count as much as large
// ones. It needs at least two different numbers of rows.
func fit(rows, seconds []float64) line {
	var w, x, y, xx, xy float64
	for i, n := range rows {
		weight := 1 / (seconds[i] * seconds[i])
		w += weight
		x += weight * n
		y += weight * seconds[i]
		xx += weight * n * n
		xy += weight * n * seconds[i]
	}
	perRow := (w*xy - x*y) / (w*xx - x*x)
	return line{Fixed: (y - perRow*x) / w, PerRow: perRow}
}

// tick is the unit of processor time in /proc: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// cpuTime returns the processor time of a process so far. It is nil if that cannot be measured.
type cpuTime func() (time.Duration, error)

// now returns the time, or 0 if it cannot be measured.
func (c cpuTime) now() time.Duration {
	if c == nil {
		return 0
	}
	busy, err := c()
	if err != nil {
		logf("no CPU time: %v", err)
	}
	return busy
}

// cpuOf returns the processor time of the process that works for a contender. It must run on this machine, under Linux.
func cpuOf(ctx context.Context, o *instance) (cpuTime, error) {
	pid, err := o.pid(ctx)
	if err != nil {
		return nil, err
	}
	usage := cpuTime(func() (time.Duration, error) { return busyTime(pid) })
	_, err = usage()
	if err != nil {
		return nil, err
	}
	return usage, nil
}

// busyTime returns the user and system time of a process.
func busyTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// parseStat returns the sum of utime and stime in /proc/PID/stat.
func parseStat(text string) (time.Duration, error) {
	// The name of the process, in parentheses, may have spaces and parentheses, so the fields are counted after it.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, errors.New("/proc/PID/stat has too few fields")
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	kernel, err := strconv.Atoi(fields[12])
	return time.Duration(user+kernel) * tick, err
}

// pid returns the process that works for the table: in Postgres that of its only connection, otherwise the server.
func (t *table) pid(ctx context.Context) (pid int, err error) {
	if t.dialect.Name == sqlstore.Postgres.Name {
		err = t.db.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid)
		if err != nil {
			return 0, err
		}
		return pid, isCalled(pid, "postgres")
	}
	var file string
	if err := t.db.QueryRowContext(ctx, "SELECT @@pid_file").Scan(&file); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// isCalled returns an error unless the process has this name. A server on another machine returns an id that belongs to
// another process here.
func isCalled(pid int, name string) error {
	found, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(found)) != name {
		return fmt.Errorf("process %d is not %s: the server runs elsewhere", pid, name)
	}
	return nil
}
