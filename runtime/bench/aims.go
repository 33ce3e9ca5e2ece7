package main

import (
	"cmp"
	"fmt"
	"slices"
)

// verdict is whether an aim was reached.
type verdict struct {
	What string `json:"what"`
	// Aim is empty for a figure that is only reported.
	Aim string `json:"aim"`
	// Figure is nil if it was not measured.
	Figure  *float64 `json:"figure,omitempty"`
	Reached bool     `json:"reached"`
	// NotRun is why there is no figure.
	NotRun string `json:"notRun,omitempty"`
	// Ours and Theirs are the processor times of both sides of a ratio, for a decision or, in batches, for a statement.
	Ours   *perDecision `json:"ours,omitempty"`
	Theirs *perDecision `json:"theirs,omitempty"`
}

// perDecision is processor time in seconds: of this process, and of the database's processes.
type perDecision struct {
	Own    float64 `json:"own"`
	Server float64 `json:"server"`
}

func (p perDecision) sum() float64 { return p.Own + p.Server }

func (v verdict) is(figure float64, reached bool) verdict {
	v.Figure, v.Reached = &figure, reached
	return v
}

func (v verdict) notRun(why string) verdict {
	v.NotRun = why
	return v
}

func (v verdict) String() string {
	switch {
	case v.Figure == nil:
		return "not run: " + v.NotRun
	case v.Aim == "":
		return ""
	case v.Reached:
		return "reached"
	}
	return "not reached"
}

// judge compares the results with every aim.
func (r *report) judge() {
	r.Verdicts = nil
	for _, a := range tripAims {
		r.Verdicts = append(r.Verdicts, a.judge(r))
	}
	for _, q := range ratios {
		r.Verdicts = append(r.Verdicts, q.judge(r))
	}
	for _, a := range batchAims {
		r.Verdicts = append(r.Verdicts, a.judge(r))
	}
	for _, q := range slices.Concat(sweepRatios(), processRatios()) {
		r.Verdicts = append(r.Verdicts, q.judge(r))
	}
	for _, a := range allocationAims {
		r.Verdicts = append(r.Verdicts, a.judge(r))
	}
	for _, name := range growthContenders {
		r.Verdicts = append(r.Verdicts, r.judgeGrowth(name))
	}
	for _, a := range memoryAims {
		r.Verdicts = append(r.Verdicts, a.judge(r))
	}
}

// keepMeasured drops the verdicts without a figure, which were not asked for in a run with -only or -loads.
func (r *report) keepMeasured() {
	r.Verdicts = slices.DeleteFunc(r.Verdicts, func(v verdict) bool { return v.Figure == nil })
}

// countAim is an aim for a count.
type countAim struct {
	contender string
	what      string
	atMost    float64
	// noise is added to atMost, because background work is counted too.
	noise float64
	of    func(*tally) float64
}

var (
	tripAims = []countAim{
		{oursPostgres, "round trips of a decision", 1, 0.01, trips},
		{oursMariaDB, "round trips of a decision", 1, 0.01, trips},
		{oursSQLite, "statements of a decision", 1, 0.01, trips},
		{oursMySQL, "round trips of a decision", 1, 0.01, trips},
	}
	allocationAims = []countAim{
		{oursLeased, "allocations of a decision", 0, 0.01, allocations},
		{oursSQLite, "allocations of a decision", 15, 0.5, allocations},
		{oursPostgres, "allocations of a decision", 30, 0.5, allocations},
		{oursMariaDB, "allocations of a decision", 30, 0.5, allocations},
		{oursMySQL, "allocations of a decision", 20, 0.5, allocations},
	}
	// A key in memory needs at least the bytes of its text, so less than a byte means that none is kept.
	memoryAims = []countAim{
		{oursSQLite, "bytes of memory per idle key", 0, 0.99, bytesPerKey},
		{oursPostgres, "bytes of memory per idle key", 0, 0.99, bytesPerKey},
		{oursMariaDB, "bytes of memory per idle key", 0, 0.99, bytesPerKey},
	}
)

func trips(t *tally) float64       { return t.Trips }
func allocations(t *tally) float64 { return t.Allocations }
func bytesPerKey(t *tally) float64 { return t.BytesPerKey }

func (a countAim) judge(r *report) verdict {
	v := verdict{What: a.contender + ", " + a.what, Aim: fmt.Sprintf("at most %g", a.atMost)}
	t := r.Tallies[a.contender]
	if t == nil || a.of(t) == -1 {
		return v.notRun(r.reasonNotRun(a.contender))
	}
	return v.is(a.of(t), a.of(t) <= a.atMost+a.noise)
}

// maxGrowth is the aim for [growth.Ratio].
const maxGrowth = 1.3

func (r *report) judgeGrowth(name string) verdict {
	v := verdict{
		What: fmt.Sprintf("%s, p50 in a table of %s rows against %s", name,
			digits(cmp.Or(r.bigTable(), 10_000_000)), digits(smallRows)),
		Aim: fmt.Sprintf("at most %g", maxGrowth),
	}
	for _, g := range r.Growth {
		if g.Contender == name {
			return v.is(g.Ratio, g.Ratio <= maxGrowth)
		}
	}
	if r.NotRun[name] == "" {
		return v.notRun("measure it with -rows 10000000")
	}
	return v.notRun(r.NotRun[name])
}

// batchAim is an aim for a statement of many rows: the processor time of the cheapest statement that writes as many rows,
// divided by that of ours.
type batchAim struct {
	contender string
	atLeast   float64
}

// aimedRows is the number of rows of the statements with an aim.
const aimedRows = 512

var batchAims = []batchAim{{oursSQLite, 0.75}, {oursPostgres, 0.8}, {oursMariaDB, 0.7}, {oursMySQL, 0.65}}

func (a batchAim) judge(r *report) verdict {
	v := verdict{Aim: fmt.Sprintf("at least %g", a.atLeast)}
	for _, d := range costed {
		if d.contender != a.contender {
			continue
		}
		v.What = fmt.Sprintf("%s against %s, a statement of %s, CPU", a.contender, d.floor, plural(aimedRows, "row"))
		ours, theirs := batch(r.Costs[d.name].Batches, aimedRows), batch(r.Costs[d.name].Floor, aimedRows)
		switch {
		case ours == nil || theirs == nil:
			return v.notRun(r.reasonNotRun(a.contender))
		case ours.CPU == 0 || theirs.CPU == 0:
			return v.notRun(noCPU)
		}
		v.Ours, v.Theirs = &perDecision{ours.Own, ours.CPU}, &perDecision{theirs.Own, theirs.CPU}
		figure := v.Theirs.sum() / v.Ours.sum()
		return v.is(figure, figure >= a.atLeast)
	}
	return v.notRun("its costs are not measured")
}

// ratio compares two contenders under one load.
type ratio struct {
	ours, theirs  string
	callers, keys int
	// aim is 0 if the figure is only reported.
	aim float64
	by  basis
}

// basis is what a ratio compares.
type basis int

const (
	// speed is decisions per second: ours divided by theirs, at least.
	speed basis = iota
	// cpu is processor time for a decision: theirs divided by ours, at least.
	cpu
	// cpuTimes is the same: ours divided by theirs, at most.
	cpuTimes
	// serverTimes is the processor time of the database for a decision: ours divided by theirs, at most.
	serverTimes
)

// ratios are the aims. Both sides of a ratio run in one heat.
var ratios = []ratio{
	{oursSQLite, floorSQLite, 1, 1000, 1, cpu},
	{oursPostgres, floorPostgres, 1, 1000, 0.85, cpu},
	{oursMariaDB, floorMariaDB, 1, 1000, 0.85, cpu},
	{oursMySQL, floorMySQL, 1, 1000, 0.9, cpu},
	{oursPostgres, floorPostgres, 4, 1000, 1, speed},
	{oursMariaDB, floorMariaDB, 4, 1000, 1, speed},
	{oursMySQL, floorMySQL, 4, 1000, 1, speed},
	{oursPostgres + farAway, floorPostgres + farAway, 4, 1000, 1, speed},
	{oursMariaDB + farAway, floorMariaDB + farAway, 4, 1000, 1, speed},
	{oursMySQL + farAway, floorMySQL + farAway, 4, 1000, 1, speed},
	{oursPostgres, floorPostgres, 16, 1000, 1.8, speed},
	{oursPostgres, naivePostgres, 64, 1, 40, speed},
	{oursSQLite, handedOver, 64, 1, 3, cpuTimes},
	{oursSQLite, handedOver, 512, 1, 3, cpuTimes},
	{oursSQLite, redisRate, 64, 1000, 2, speed},
	{oursSQLite, redisRate, 512, 1, 20, speed},
	{oursPostgres, redisRate, 512, 10_000, 2.5, speed},
	{oursLeased, xTimeRate, 1, 1000, 0.5, speed},
	{oursLeased, xTimeRate, 64, 1000, 0.5, speed},
}

func (q ratio) String() string {
	what := fmt.Sprintf("%s against %s, %s", q.ours, q.theirs, loadName(q.callers, q.keys))
	switch q.by {
	case cpu, cpuTimes:
		what += ", CPU"
	case serverTimes:
		what += ", database CPU"
	}
	return what
}

const noCPU = "processor time was not measured"

func (q ratio) judge(r *report) verdict {
	atMost := q.by == cpuTimes || q.by == serverTimes
	v := verdict{What: q.String()}
	switch {
	case q.aim > 0 && atMost:
		v.Aim = fmt.Sprintf("at most %g", q.aim)
	case q.aim > 0:
		v.Aim = fmt.Sprintf("at least %g", q.aim)
	}
	ours, theirs := r.cell(q.ours, q.callers, q.keys), r.cell(q.theirs, q.callers, q.keys)
	switch {
	case ours == nil:
		return v.notRun(r.reasonNotRun(q.ours))
	case theirs == nil:
		return v.notRun(r.reasonNotRun(q.theirs))
	case q.by != speed && !(ours.HasCPU && theirs.HasCPU):
		return v.notRun(noCPU)
	}
	if ours.HasCPU && theirs.HasCPU {
		v.Ours, v.Theirs = &perDecision{ours.Own, ours.Server}, &perDecision{theirs.Own, theirs.Server}
	}
	figure := q.figure(ours, theirs)
	if atMost {
		return v.is(figure, figure <= q.aim)
	}
	return v.is(figure, figure >= q.aim)
}

func (q ratio) figure(ours, theirs *cell) float64 {
	switch q.by {
	case cpu:
		return theirs.busy() / ours.busy()
	case cpuTimes:
		return ours.busy() / theirs.busy()
	case serverTimes:
		return ours.Server / theirs.Server
	}
	// The median over the turns, because both sides of a turn ran shortly after each other.
	return median(quotients(ours.Turns, theirs.Turns))
}
