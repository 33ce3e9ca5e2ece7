package main

import (
	"context"
	"time"
)

// heat is a race of contenders under the same load, in turns: in each turn every one of them runs a short
// round, so that whatever else the machine does hits all.
type heat struct {
	callers, keys int
	// names are the contenders who run.
	names []string
}

// cell is what one contender did in a heat.
type cell struct {
	Contender string `json:"contender"`
	Callers   int    `json:"callers"`
	Keys      int    `json:"keys"`
	// Denied says that every decision was a denial.
	Denied bool `json:"denied,omitempty"`
	// PerSecond, P50, P99 and Failed are the medians of the rounds. Latencies are in nanoseconds.
	PerSecond float64       `json:"perSecond"`
	P50       time.Duration `json:"p50"`
	P99       time.Duration `json:"p99"`
	Failed    float64       `json:"failed"`
	// Error is one of the errors of those that failed.
	Error string `json:"error,omitempty"`
	// Turns are the decisions per second of each turn.
	Turns []float64 `json:"turns"`
}

// run runs the heat, with the contenders that are open. The next turn begins with the next contender. The
// second result has the reasons of those that could not go on.
func (h heat) run(ctx context.Context, open field, l load, p plan) ([]cell, map[string]error) {
	rounds, out := map[string][]round{}, map[string]error{}
	for turn := range p.turns {
		for i := range h.names {
			name := h.names[(turn+i)%len(h.names)]
			o, ok := open[name]
			if !ok || out[name] != nil || ctx.Err() != nil {
				continue
			}
			r, err := measure(o.ask, l, p.paceOf(name))
			rounds[name], out[name] = append(rounds[name], r), err
		}
	}
	var cells []cell
	for _, name := range h.names {
		if out[name] == nil && len(rounds[name]) == p.turns {
			cells = append(cells, newCell(name, l, rounds[name]))
		}
	}
	return cells, out
}

// newCell returns the medians of rounds.
func newCell(name string, l load, rounds []round) cell {
	c := cell{Contender: name, Callers: l.callers, Keys: len(l.keys), Denied: !l.allowed}
	var p50, p99 []time.Duration
	var failed []float64
	for _, r := range rounds {
		c.Turns = append(c.Turns, r.perSecond)
		p50, p99, failed = append(p50, r.p50), append(p99, r.p99), append(failed, r.failed)
		if r.err != nil {
			c.Error = r.err.Error()
		}
	}
	c.PerSecond, c.P50, c.P99, c.Failed = median(c.Turns), median(p50), median(p99), median(failed)
	return c
}
