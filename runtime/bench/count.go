package main

import (
	"context"
	"io"
	"runtime"
	"time"
)

// tally is what is counted of a contender, not timed: it is the same on every machine.
type tally struct {
	// Trips is round trips to the server for a decision, or statements of SQLite; -1 if there is neither.
	Trips float64 `json:"trips"`
	// Allocations is how many objects a decision allocates.
	Allocations float64 `json:"allocations"`
	// BytesPerKey is what a key that was asked for once leaves in the memory of the process; -1 if that
	// was not measured.
	BytesPerKey float64 `json:"bytesPerKey"`
}

// Before count counts, unhurried asks make connections, prepared statements and measured clocks. It counts
// those of counted asks, or of as many as are answered in a second, if they are more than the first.
const (
	unhurried = 100
	counted   = 1000
)

// count counts the round trips and allocations of every contender, by one caller for one key.
func (r *report) count(ctx context.Context, s *site, _ plan) error {
	say("round trips and allocations")
	r.Tallies = map[string]*tally{}
	for _, c := range contenders {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t, err := countOne(ctx, s, c)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		r.Tallies[c.name] = t
	}
	return nil
}

// countOne counts what one decision of a contender takes.
func countOne(ctx context.Context, s *site, c contender) (*tally, error) {
	small := &site{servers: s.servers, dir: s.dir, rows: 1, conns: 1}
	trips, stop, err := small.watch(c)
	if err != nil {
		return nil, err
	}
	defer stop.Close()
	o, err := c.open(ctx, small, plenty)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if _, err := askTimes(ctx, o.ask, unhurried); err != nil {
		return nil, err
	}
	before, objects := trips(), allocated()
	asked, err := askTimes(ctx, o.ask, counted)
	if err != nil {
		return nil, err
	}
	t := &tally{Trips: -1, BytesPerKey: -1, Allocations: float64(allocated()-objects) / asked}
	if c.kind != memory {
		t.Trips = float64(trips()-before) / asked
	}
	return t, nil
}

// watch returns how many round trips a contender has made, or statements, from when it is opened at the
// site.
func (s *site) watch(c contender) (trips func() int64, stop io.Closer, err error) {
	if c.server == "" {
		statements.traced.Store(true)
		return statements.count.Load, closer(func() { statements.traced.Store(false) }), nil
	}
	address, err := s.servers.address(c.server)
	if err != nil {
		return nil, nil, err
	}
	p, err := newProxy(address)
	if err != nil {
		return nil, nil, err
	}
	if s.servers, err = s.servers.through(c.server, p.address()); err != nil {
		return nil, nil, err
	}
	return p.trips.Load, p, nil
}

// closer is a function that is an io.Closer.
type closer func()

func (c closer) Close() error { c(); return nil }

// askTimes asks for one key, at most n times, and returns how often it did.
func askTimes(ctx context.Context, ask askFunc, n int) (asked float64, err error) {
	key := keyOf(0)
	start := time.Now()
	for i := range n {
		if i >= unhurried && time.Since(start) > time.Second {
			return float64(i), nil
		}
		if _, err := ask(ctx, key); err != nil {
			return 0, err
		}
	}
	return float64(n), nil
}

// allocated returns how many objects the process has allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
