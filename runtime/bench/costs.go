package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// cost is the cost of a statement that takes a token from each of some rows, with one caller. All times are in seconds.
type cost struct {
	line
	// CPU is the time of the database's processor, nil if it cannot be measured. For SQLite it is that of this process.
	CPU *line `json:"cpu,omitempty"`
	// Batches are the measured points, through which the lines are fitted.
	Batches []batchCost `json:"batches"`
	// Floor is the measured costs of the cheapest statement that writes as many rows without a decision.
	Floor []batchCost `json:"floor,omitempty"`
}

// batchCost is the cost of a statement with Rows rows.
type batchCost struct {
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
	// CPU is the processor time of the database, and Own that of this process. With SQLite, all of it is in CPU.
	CPU float64 `json:"cpu,omitempty"`
	Own float64 `json:"own,omitempty"`
}

// costed are the contenders whose costs are measured, with their names in the JSON results, and their floors.
var costed = []struct{ name, contender, floor string }{
	{"sqlite", oursSQLite, floorSQLite},
	{"postgres", oursPostgres, floorPostgres},
	{"postgresRelaxed", oursRelaxed, ""},
	{"mariadb", oursMariaDB, floorMariaDB},
	{"mysql", oursMySQL, floorMySQL},
}

var (
	// batchSizes are the numbers of rows that are measured, and floorSizes those for which the floor is measured too.
	batchSizes = []int{1, 2, 8, 64, 512}
	floorSizes = []int{1, 64, 512}
)

// costRows is the size of the table.
const costRows = 10_000

// batchesOf returns the name by which -only selects the costs of a contender.
func batchesOf(contender string) string { return contender + ", batches" }

func (r *report) measureCosts(ctx context.Context, s *site, p plan) error {
	r.Costs = map[string]cost{}
	alone := &site{servers: s.servers, dir: s.dir, rows: costRows, conns: 1}
	for _, d := range costed {
		if r.NotRun[d.contender] != "" || ctx.Err() != nil || !p.runs(batchesOf(d.contender)) {
			continue
		}
		logf("%s: costs", d.contender)
		priced, err := costOf(ctx, alone, d.contender, d.floor, p)
		if err != nil {
			r.skip(d.contender, err)
			continue
		}
		r.Costs[d.name] = priced
	}
	return ctx.Err()
}

// costOf measures a contender and its floor, in turns of all sizes.
func costOf(ctx context.Context, s *site, contender, floor string, p plan) (cost, error) {
	o, err := openCosted(ctx, s, contender)
	if err != nil {
		return cost{}, err
	}
	defer o.close()
	meters := make([]meter, len(batchSizes))
	for i, rows := range batchSizes {
		meters[i] = meter{of: o, rows: rows}
	}
	if floor != "" {
		f, err := openCosted(ctx, s, floor)
		if err != nil {
			return cost{}, err
		}
		defer f.close()
		for _, rows := range floorSizes {
			// Next to the statement that it is compared with.
			i := slices.IndexFunc(meters, func(m meter) bool { return m.rows == rows })
			meters = slices.Insert(meters, i, meter{of: f, rows: rows, floor: true})
		}
	}
	for turn := range p.turns {
		for i := range meters {
			// Each turn begins with another size, as in heats.
			if err := meters[(i+turn)%len(meters)].run(ctx, p.pace); err != nil {
				return cost{}, err
			}
		}
	}
	return newCost(meters), nil
}

// openCosted opens a contender, and its meter if processor time can be measured.
func openCosted(ctx context.Context, s *site, contender string) (*instance, error) {
	c, ok := find(contender)
	if !ok {
		return nil, fmt.Errorf("no contender is called %q", contender)
	}
	o, err := c.open(ctx, s, plenty)
	if err != nil {
		return nil, err
	}
	if o.meter, err = o.alone(ctx); err != nil {
		logf("%s: no CPU times: %v", contender, err)
	}
	return o, nil
}

// meter adds up the costs of statements of one size.
type meter struct {
	of    *instance
	rows  int
	floor bool
	// seconds is the time of a statement, in each turn.
	seconds []float64
	// used is the processor time of all statements.
	used       split
	statements int
}

// run runs statements for a turn, at least one.
func (m *meter) run(ctx context.Context, p pace) error {
	var done int
	var began time.Time
	var before split
	for start := time.Now(); done == 0 || time.Since(start) < p.leadIn+p.length; {
		// The lead-in ends between statements, so that no statement is measured in part.
		if began.IsZero() && time.Since(start) >= p.leadIn {
			began, before = time.Now(), m.of.meter.now()
		}
		if err := m.of.takeAll(ctx, anyKeys(m.rows)); err != nil {
			return err
		}
		if !began.IsZero() {
			done++
		}
	}
	m.seconds = append(m.seconds, time.Since(began).Seconds()/float64(done))
	m.used, m.statements = m.used.plus(m.of.meter.now().minus(before)), m.statements+done
	return nil
}

// costKeys is made once, because making the keys of a batch is no part of its cost.
var costKeys = sync.OnceValue(func() []string { return keysOf(costRows, costRows) })

// anyKeys returns n different keys of the table.
func anyKeys(n int) []string {
	keys := make([]string, n)
	// Spread over the table, because neighbours share pages.
	first, stride := rand.IntN(costRows), costRows/n
	for i := range keys {
		keys[i] = costKeys()[(first+i*stride)%costRows]
	}
	return keys
}

// cost returns what a statement has cost.
func (m *meter) cost() batchCost {
	b := batchCost{Rows: m.rows, Seconds: median(m.seconds)}
	if m.of.meter != nil {
		// The kernel counts in ticks: a total below one is estimated as half of it, because a fit cannot use 0.
		b.CPU = max(m.used.server, tick/2).Seconds() / float64(m.statements)
		b.Own = m.used.own.Seconds() / float64(m.statements)
	}
	return b
}

// newCost fits the lines through the measurements of all sizes.
func newCost(meters []meter) (c cost) {
	var rows, seconds, cpu []float64
	for _, m := range meters {
		b := m.cost()
		if m.floor {
			c.Floor = append(c.Floor, b)
			continue
		}
		rows, seconds, cpu = append(rows, float64(b.Rows)), append(seconds, b.Seconds), append(cpu, b.CPU)
		c.Batches = append(c.Batches, b)
	}
	c.line = fit(rows, seconds)
	if cpu[0] > 0 {
		l := fit(rows, cpu)
		c.CPU = &l
	}
	return c
}

// batch returns the cost of a statement with some rows, or nil if it was not measured.
func batch(of []batchCost, rows int) *batchCost {
	i := slices.IndexFunc(of, func(b batchCost) bool { return b.Rows == rows })
	if i < 0 {
		return nil
	}
	return &of[i]
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
