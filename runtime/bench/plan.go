package main

import (
	"slices"
	"time"
)

// plan is what a run measures.
type plan struct {
	heats []heat
	// turns is how many rounds each contender runs in a heat, and pace how long they are.
	turns int
	pace  pace
	// idleKeys is how many keys are asked for once to see what they leave in memory.
	idleKeys int
	// bigTable is how many rows the large table has that is compared with one of 1,000, if not 0.
	bigTable int
}

// planOf returns the plan that the options ask for.
func planOf(o options) plan {
	p := plan{
		heats: usual(), turns: 15, idleKeys: 100_000, bigTable: o.rows,
		pace: pace{leadIn: 50 * time.Millisecond, length: 200 * time.Millisecond, stride: 1},
	}
	switch {
	case o.quick:
		p.heats, p.idleKeys = []heat{{64, 1000, namesOf(anyone)}}, 20_000
		p.turns, p.pace.leadIn, p.pace.length = 7, 30*time.Millisecond, 120*time.Millisecond
	case o.all:
		p.heats = everything()
	}
	for _, r := range ratios {
		p.heats = with(p.heats, r)
	}
	return p
}

// usual returns the heats of a run without options.
func usual() []heat {
	all := namesOf(anyone)
	return []heat{
		{1, 1000, all}, {2, 1000, all}, {64, 1, all}, {64, 1000, all}, {512, 1, all}, {512, 1000, all},
		{512, 10_000, all}, {512, 100_000, all},
	}
}

// everything returns a heat of all contenders for every number of callers and keys.
func everything() (heats []heat) {
	all := namesOf(anyone)
	for _, callers := range []int{1, 2, 64, 512} {
		for _, keys := range []int{1, 1000, 10_000, 100_000} {
			heats = append(heats, heat{callers, keys, all})
		}
	}
	return heats
}

// with returns heats in which both sides of a ratio run.
func with(heats []heat, r ratio) []heat {
	i := slices.IndexFunc(heats, func(h heat) bool { return h.callers == r.callers && h.keys == r.keys })
	if i < 0 {
		i, heats = len(heats), append(heats, heat{callers: r.callers, keys: r.keys})
	}
	for _, name := range []string{r.ours, r.theirs} {
		if !slices.Contains(heats[i].names, name) {
			heats[i].names = append(heats[i].names, name)
		}
	}
	return heats
}

// maxKeys returns the largest number of keys of a heat.
func (p plan) maxKeys() (most int) {
	for _, h := range p.heats {
		most = max(most, h.keys)
	}
	return most
}

// paceOf returns the pace for a contender.
func (p plan) paceOf(name string) pace {
	if c, _ := find(name); c.kind == memory || c.kind == mostlyMemory {
		p.pace.stride = 64
	}
	return p.pace
}
