package main

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// measureMemory measures the memory of keys that are no longer used, for contenders that have an aim for it and those in
// memory.
func (r *report) measureMemory(ctx context.Context, s *site, p plan) error {
	logf("memory per idle key, %d keys", p.idleKeys)
	empty := &site{servers: s.servers, dir: s.dir}
	for _, c := range contenders {
		t := r.Tallies[c.name]
		hasAim := slices.ContainsFunc(memoryAims, func(a countAim) bool { return a.contender == c.name })
		if t == nil || r.NotRun[c.name] != "" || !p.runs(c.name) || !hasAim && c.kind != memory {
			continue
		}
		bytes, err := memoryPerKey(ctx, empty, c, p.idleKeys)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		t.BytesPerKey = bytes
	}
	return ctx.Err()
}

// memoryPerKey returns the bytes of memory that each of n keys leaves.
func memoryPerKey(ctx context.Context, s *site, c contender, n int) (float64, error) {
	o, err := c.open(ctx, s, plenty)
	if err != nil {
		return 0, err
	}
	defer o.close()
	// Other keys come first, so that buffers and pools have the size that they have in use.
	if err := takeEach(ctx, o.take, n/10, keyOf); err != nil {
		return 0, err
	}
	before := liveBytes()
	if err := takeEach(ctx, o.take, n, func(i int) string { return keyOf(n/10 + i) }); err != nil {
		return 0, err
	}
	// Below 0 if other objects have been freed meanwhile.
	return max(0, float64(liveBytes()-before)/float64(n)), nil
}

func liveBytes() int64 {
	// Twice, because objects with finalizers and pools survive the first collection.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// growth compares decisions in a table of many rows, for keys all over it, with those in a table of 1,000.
type growth struct {
	Contender string `json:"contender"`
	Rows      int    `json:"rows"`
	// Fill is the time to fill the large table, in seconds.
	Fill float64 `json:"fill"`
	// Ratio is the latency in the large table divided by that in the small one: the median over the turns of the ratio of
	// their p50.
	Ratio float64 `json:"ratio"`
	// Small and Big are the rounds of the two tables.
	Small cell `json:"small"`
	Big   cell `json:"big"`
}

var growthContenders = []string{oursSQLite, oursPostgres}

func (r *report) measureGrowth(ctx context.Context, s *site, p plan) error {
	if p.bigTable == 0 {
		return nil
	}
	for _, name := range growthContenders {
		c, _ := find(name)
		if r.NotRun[c.name] != "" || ctx.Err() != nil || !p.runs(c.name) {
			continue
		}
		logf("%s: a table of %d rows", c.name, p.bigTable)
		g, err := growthOf(ctx, s, p, c)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		r.Growth = append(r.Growth, g)
	}
	return ctx.Err()
}

// smallRows is the size of the small table.
const smallRows = 1000

// usedRows is how many rows of the large table are used at most, spread evenly: their keys fit into memory, and they are on
// nearly as many pages as all rows.
const usedRows = 100_000

// growthOf fills two tables and measures them in turns, with one caller.
func growthOf(ctx context.Context, s *site, p plan, c contender) (growth, error) {
	g := growth{Contender: c.name, Rows: p.bigTable}
	var tables [2]*instance
	var loads [2]load
	for i, rows := range []int{smallRows, p.bigTable} {
		began := time.Now()
		o, err := c.open(ctx, &site{servers: s.servers, dir: s.dir, rows: rows}, plenty)
		if err != nil {
			return growth{}, err
		}
		defer o.close()
		g.Fill = time.Since(began).Seconds()
		tables[i], loads[i] = o, load{callers: 1, keys: keysOf(min(rows, usedRows), rows), allowed: true}
		// Each key is used once, so that the caches of the database hold the pages in use, not the last ones filled.
		keys := loads[i].keys
		if err := takeEach(ctx, o.take, len(keys), func(i int) string { return keys[i] }); err != nil {
			return growth{}, err
		}
	}
	logf("%s: filled in %.1fs", c.name, g.Fill)
	var rounds [2][]round
	for turn := range 2 * p.turns {
		for i := range tables {
			if ctx.Err() != nil {
				return growth{}, ctx.Err()
			}
			// In alternating order, so that neither table always has the warmer caches.
			i = (i + turn) % len(tables)
			r, err := measure(tables[i].take, loads[i], p.pace, nil)
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

func p50s(rounds []round) (all []float64) {
	for _, r := range rounds {
		all = append(all, float64(r.p50))
	}
	return all
}
