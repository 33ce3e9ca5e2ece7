package main

import (
	"context"
	"math/rand/v2"
	"time"
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
