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

// cost is what a statement costs that takes a token from each of some rows, with one caller. All times are in
// seconds.
type cost struct {
	line
	// CPU is what it costs the processor of the database, nil if that cannot be known. Of SQLite it is all
	// that the process does.
	CPU *line `json:"cpu,omitempty"`
	// Batches are what was measured, and what the lines were drawn through.
	Batches []batchCost `json:"batches"`
}

// batchCost is what a statement costs of so many rows.
type batchCost struct {
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu,omitempty"`
}

// costed are the contenders whose costs are measured, and how each is called in the results.
var costed = []struct{ name, contender string }{
	{"sqlite", oursSQLite},
	{"postgres", oursPostgres},
	{"postgresRelaxed", oursRelaxed},
	{"mariadb", oursMariaDB},
	{"mysql", oursMySQL},
}

// batchSizes are the numbers of rows that are measured, and costRows how many rows the table has of which they
// are.
var batchSizes = []int{1, 2, 8, 64, 512}

const costRows = 10_000

// price measures the costs.
func (r *report) price(ctx context.Context, s *site, p plan) error {
	r.Costs = map[string]cost{}
	alone := &site{servers: s.servers, dir: s.dir, rows: costRows, conns: 1}
	for _, d := range costed {
		c, _ := find(d.contender)
		if r.NotRun[c.name] != "" || ctx.Err() != nil {
			continue
		}
		say("%s: costs", c.name)
		priced, err := priceOne(ctx, alone, c, p)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		r.Costs[d.name] = priced
	}
	return ctx.Err()
}

// priceOne measures the costs of a contender, in turns of all sizes.
func priceOne(ctx context.Context, s *site, c contender, p plan) (cost, error) {
	o, err := c.open(ctx, s, plenty)
	if err != nil {
		return cost{}, err
	}
	defer o.close()
	usage, err := cpuOf(ctx, o)
	if err != nil {
		say("%s: no CPU times: %v", c.name, err)
	}
	meters := make([]meter, len(batchSizes))
	for turn := range p.turns {
		for i := range meters {
			i = (i + turn) % len(meters)
			if err := meters[i].run(ctx, o, batchSizes[i], p.pace, usage); err != nil {
				return cost{}, err
			}
		}
	}
	return newCost(meters, usage != nil), nil
}

// meter sums up what statements of one size have cost.
type meter struct {
	// seconds are those of a statement, in each turn.
	seconds []float64
	// cpu is the processor's time of all statements, which are so many.
	cpu        time.Duration
	statements int
}

// run runs statements for a turn, and one at least.
func (m *meter) run(ctx context.Context, o *opened, rows int, p pace, usage cpuTime) error {
	var done int
	var began time.Time
	var before time.Duration
	for start := time.Now(); done == 0 || time.Since(start) < p.leadIn+p.length; {
		if began.IsZero() && time.Since(start) >= p.leadIn {
			began, before = time.Now(), usage.now()
		}
		if err := o.askAll(ctx, anyKeys(rows)); err != nil {
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
	first, stride := rand.IntN(costRows), costRows/n
	for i := range keys {
		keys[i] = keyOf((first + i*stride) % costRows)
	}
	return keys
}

// newCost draws the lines through what the meters of all sizes show.
func newCost(meters []meter, hasCPU bool) (c cost) {
	var rows, seconds, cpu []float64
	for i, m := range meters {
		b := batchCost{Rows: batchSizes[i], Seconds: median(m.seconds)}
		if hasCPU {
			// Less than a tick of the kernel's clock was not seen.
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

// line is what something costs that is done to a number of rows, in seconds: Fixed, and PerRow more for each.
type line struct {
	Fixed  float64 `json:"fixed"`
	PerRow float64 `json:"perRow"`
}

// fit returns the line with the least squares of the errors, each as a part of what was measured: so what is
// cheap counts as much as what is dear. Two different numbers of rows are the least that it needs.
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

// tick is the unit of processor time in /proc, a hundredth of a second on every Linux.
const tick = 10 * time.Millisecond

// cpuTime returns how long a processor has been busy for a process; nil is not known.
type cpuTime func() (time.Duration, error)

// now returns the time, 0 if it is not known.
func (c cpuTime) now() time.Duration {
	if c == nil {
		return 0
	}
	busy, err := c()
	if err != nil {
		say("no CPU time: %v", err)
	}
	return busy
}

// cpuOf returns the processor time of the process that works for a contender: it must run on this machine,
// which must be Linux.
func cpuOf(ctx context.Context, o *opened) (cpuTime, error) {
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

// busyTime returns how long a processor has been busy for a process, itself and in the kernel.
func busyTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// parseStat reads /proc/PID/stat. The name of the process, in parentheses, may have spaces; utime and stime are
// the 12th and 13th fields after it.
func parseStat(text string) (time.Duration, error) {
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

// pid returns the process of the server that works for the table: in Postgres that of its one connection, and
// otherwise the server itself.
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

// isCalled returns an error unless a process has a name: a server elsewhere has numbers of its own.
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
