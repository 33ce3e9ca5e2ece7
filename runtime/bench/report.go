package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ratio compares two contenders under one load. Both run in one heat.
type ratio struct {
	ours, theirs  string
	callers, keys int
	by            basis
}

// basis is what a ratio compares.
type basis int

const (
	// speed is decisions per second: ours divided by theirs.
	speed basis = iota
	// cpu is processor time for a decision: theirs divided by ours.
	cpu
)

var ratios = []ratio{
	{oursSQLite, floorSQLite, 1, 1000, cpu},
	{oursPostgres, floorPostgres, 1, 1000, cpu},
	{oursMariaDB, floorMariaDB, 1, 1000, cpu},
	{oursMySQL, floorMySQL, 1, 1000, cpu},
	{oursPostgres, floorPostgres, 4, 1000, speed},
	{oursMariaDB, floorMariaDB, 4, 1000, speed},
	{oursMySQL, floorMySQL, 4, 1000, speed},
	{oursPostgres + farAway, floorPostgres + farAway, 4, 1000, speed},
	{oursMariaDB + farAway, floorMariaDB + farAway, 4, 1000, speed},
	{oursMySQL + farAway, floorMySQL + farAway, 4, 1000, speed},
	{oursPostgres, floorPostgres, 16, 1000, speed},
	{oursPostgres, naivePostgres, 64, 1, speed},
	{oursSQLite, redisRate, 64, 1000, speed},
	{oursSQLite, redisRate, 512, 1, speed},
	{oursPostgres, redisRate, 512, 10_000, speed},
	{oursLeased, xTimeRate, 1, 1000, speed},
	{oursLeased, xTimeRate, 64, 1000, speed},
}

func (q ratio) String() string {
	what := fmt.Sprintf("%s against %s, %s", q.ours, q.theirs, loadName(q.callers, q.keys))
	if q.by == cpu {
		what += ", CPU"
	}
	return what
}

// of returns the results of both sides, and false if one was not measured.
func (q ratio) of(r *report) (ours, theirs *cell, ok bool) {
	ours, theirs = r.cell(q.ours, q.callers, q.keys), r.cell(q.theirs, q.callers, q.keys)
	return ours, theirs, ours != nil && theirs != nil && (q.by == speed || ours.HasCPU && theirs.HasCPU)
}

func (q ratio) figure(ours, theirs *cell) float64 {
	if q.by == cpu {
		return theirs.busy() / ours.busy()
	}
	// The median over the turns, because both sides of a turn ran shortly after each other.
	return median(quotients(ours.Turns, theirs.Turns))
}

// report is the results of a run.
type report struct {
	// Machine describes the machine and its servers.
	Machine string
	Cells   []cell
	// Tallies is by contender.
	Tallies map[string]*tally
	// NotRun is why contenders have not run.
	NotRun map[string]string
}

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

// add adds results. A contender without decisions in most rounds has none.
func (r *report) add(cells ...cell) {
	for _, c := range cells {
		if c.PerSecond == 0 {
			r.skip(c.Contender, errNoAnswer)
			continue
		}
		r.Cells = append(r.Cells, c)
	}
}

func loadName(callers, keys int) string {
	return fmt.Sprintf("%s, %s", plural(callers, "caller"), plural(keys, "key"))
}

// quotients divides the values of a by those of b, pairwise.
func quotients(a, b []float64) (q []float64) {
	for i := range min(len(a), len(b)) {
		q = append(q, a[i]/b[i])
	}
	return q
}

// percentile returns the smallest value that at least p percent of sorted do not exceed, and 0 if sorted is empty.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// median returns the middle value, the lower one of two, and the zero value if there are no values.
func median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	values = slices.Sorted(slices.Values(values))
	return values[(len(values)-1)/2]
}
