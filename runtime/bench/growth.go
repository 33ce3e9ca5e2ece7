package main

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// weigh measures what keys that nobody asks for any more leave in the memory of the process, for the
// contenders that have an aim for it or have nothing but memory.
func (r *report) weigh(ctx context.Context, s *site, p plan) error {
	say("memory per idle key, %d keys", p.idleKeys)
	empty := &site{servers: s.servers, dir: s.dir}
	for _, c := range contenders {
		t := r.Tallies[c.name]
		hasAim := slices.ContainsFunc(memoryAims, func(a countAim) bool { return a.contender == c.name })
		if t == nil || r.NotRun[c.name] != "" || !hasAim && c.kind != memory {
			continue
		}
		bytes, err := weighOne(ctx, empty, c, p.idleKeys)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		t.BytesPerKey = bytes
	}
	return ctx.Err()
}

// weighOne returns the bytes that each of n keys leaves, after others have made the contender as large as it
// is in use.
func weighOne(ctx context.Context, s *site, c contender, n int) (float64, error) {
	o, err := c.open(ctx, s, plenty)
	if err != nil {
		return 0, err
	}
	defer o.close()
	if err := askEach(ctx, o.ask, n/10, keyOf); err != nil {
		return 0, err
	}
	before := live()
	if err := askEach(ctx, o.ask, n, func(i int) string { return keyOf(n/10 + i) }); err != nil {
		return 0, err
	}
	// Other objects may have gone meanwhile.
	return max(0, float64(live()-before)/float64(n)), nil
}

// live returns the bytes of the objects that are in use.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// growth is what many rows cost: decisions for keys all over a table of many rows, against a table of 1,000.
type growth struct {
	Contender string `json:"contender"`
	Rows      int    `json:"rows"`
	// Fill is how long it took to fill the large table, in seconds.
	Fill float64 `json:"fill"`
	// Ratio is how many times as long a decision takes in the large table: the median of the ratios of the
	// p50 of the turns.
	Ratio float64 `json:"ratio"`
	// Small and Big are the rounds of the two tables.
	Small cell `json:"small"`
	Big   cell `json:"big"`
}

// grown are the contenders whose growth is measured.
var grown = []string{oursSQLite, oursPostgres}

// compareRows measures the growth, by one caller.
func (r *report) compareRows(ctx context.Context, s *site, p plan) error {
	if p.bigTable == 0 {
		return nil
	}
	for _, name := range grown {
		c, _ := find(name)
		if r.NotRun[c.name] != "" || ctx.Err() != nil {
			continue
		}
		say("%s: a table of %d rows", c.name, p.bigTable)
		g, err := grow(ctx, s, p, c)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		r.Growth = append(r.Growth, g)
	}
	return ctx.Err()
}

// The small table has smallRows rows. Of the large one, at most askedRows are asked for, spread evenly: they
// are on as many pages as all of them, or nearly, and fit into the memory of the run.
const (
	smallRows = 1000
	askedRows = 100_000
)

// grow fills two tables, asks for every key once, so that what is in memory is what is in use, and measures
// them in turns.
func grow(ctx context.Context, s *site, p plan, c contender) (growth, error) {
	g := growth{Contender: c.name, Rows: p.bigTable}
	var tables [2]*opened
	var loads [2]load
	for i, rows := range []int{smallRows, p.bigTable} {
		began := time.Now()
		o, err := c.open(ctx, &site{servers: s.servers, dir: s.dir, rows: rows}, plenty)
		if err != nil {
			return growth{}, err
		}
		defer o.close()
		g.Fill = time.Since(began).Seconds()
		tables[i], loads[i] = o, load{1, keysOf(min(rows, askedRows), rows), true}
		keys := loads[i].keys
		if err := askEach(ctx, o.ask, len(keys), func(i int) string { return keys[i] }); err != nil {
			return growth{}, err
		}
	}
	say("%s: filled in %.1fs", c.name, g.Fill)
	var rounds [2][]round
	for turn := range 2 * p.turns {
		for i := range tables {
			if ctx.Err() != nil {
				return growth{}, ctx.Err()
			}
			i = (i + turn) % len(tables)
			r, err := measure(tables[i].ask, loads[i], p.pace)
			if err != nil {
				return growth{}, err
			}
			rounds[i] = append(rounds[i], r)
		}
	}
	g.Small, g.Big = newCell(c.name, loads[0], rounds[0]), newCell(c.name, loads[1], rounds[1])
	g.Ratio = median(quotients(p50s(rounds[1]), p50s(rounds[0])))
	return g, nil
}

// p50s returns the median latencies of rounds.
func p50s(rounds []round) (all []float64) {
	for _, r := range rounds {
		all = append(all, float64(r.p50))
	}
	return all
}
