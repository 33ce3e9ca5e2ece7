package main

import "fmt"

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
