package main

import (
	"cmp"
	"fmt"
)

// verdict says whether an aim was reached.
type verdict struct {
	What string `json:"what"`
	Aim  string `json:"aim"`
	// Figure is nil if there is none.
	Figure  *float64 `json:"figure,omitempty"`
	Reached bool     `json:"reached"`
	// NotRun says why there is no figure.
	NotRun string `json:"notRun,omitempty"`
}

func (v verdict) is(figure float64, reached bool) verdict {
	v.Figure, v.Reached = &figure, reached
	return v
}

func (v verdict) notRun(why string) verdict {
	v.NotRun = why
	return v
}

// String says it in words.
func (v verdict) String() string {
	switch {
	case v.Figure == nil:
		return "not run: " + v.NotRun
	case v.Reached:
		return "reached"
	}
	return "not reached"
}

// judge compares what was measured with every aim.
func (r *report) judge() {
	r.Verdicts = nil
	for _, a := range tripAims {
		r.Verdicts = append(r.Verdicts, a.judge(r))
	}
	for _, q := range ratios {
		r.Verdicts = append(r.Verdicts, q.judge(r))
	}
	r.Verdicts = append(r.Verdicts, allocationAim.judge(r))
	for _, name := range grown {
		r.Verdicts = append(r.Verdicts, r.judgeGrowth(name))
	}
	for _, a := range memoryAims {
		r.Verdicts = append(r.Verdicts, a.judge(r))
	}
}

// countAim is an aim for what is counted.
type countAim struct {
	contender string
	what      string
	atMost    float64
	// noise is what the figure may be more: what goes on beside the decisions is counted too.
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
	allocationAim = countAim{oursLeased, "allocations of a decision", 0, 0.01, allocations}
	// A key that is kept costs its text and more: what is less than a byte keeps none.
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
		return v.notRun(r.whyNot(a.contender))
	}
	return v.is(a.of(t), a.of(t) <= a.atMost+a.noise)
}

// maxGrowth is how many times as long a decision may take in a large table.
const maxGrowth = 1.3

// judgeGrowth compares a decision in a large table with one in a small one.
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
		return v.notRun("ask for it with -rows 10000000")
	}
	return v.notRun(r.NotRun[name])
}
