package main

import (
	"context"
	"runtime"
	"slices"
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
