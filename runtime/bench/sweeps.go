package main

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// The load during a sweep.
const (
	sweepCallers = 4
	sweepKeys    = 1000
)

// fullAge is how long ago the rows that are swept were used. A sweep leaves those of the last hour.
const fullAge = 2 * time.Hour

// leastSweepTurns is how many turns a sweep must last, so that their median means something.
const leastSweepTurns = 3

func duringSweep(contender string) string  { return contender + ", during a sweep" }
func withoutSweep(contender string) string { return contender + ", without a sweep" }

// measureSweeps measures calls with and without a sweep over a large table.
func (r *report) measureSweeps(ctx context.Context, s *site, p plan) error {
	for _, db := range databases {
		name := db.name
		c, _ := find(name)
		if r.NotRun[name] != "" || ctx.Err() != nil || !p.only.MatchString(duringSweep(name)) {
			continue
		}
		logf("%s: a sweep over %s", name, plural(p.sweepRows, "row"))
		if err := r.measureSweep(ctx, s, p, c); err != nil {
			r.skip(duringSweep(name), err)
		}
	}
	return ctx.Err()
}

func (r *report) measureSweep(ctx context.Context, s *site, p plan, c contender) error {
	o, err := c.open(ctx, &site{servers: s.servers, dir: s.dir, rows: p.sweepRows, age: fullAge}, plenty)
	if err != nil {
		return err
	}
	defer o.close()
	o.meter = s.meterOf(c.server)
	// The keys of the calls are all over the table, so that the sweep meets them. Once used, their rows stay.
	l := load{sweepCallers, keysOf(sweepKeys, p.sweepRows)}
	if err := takeEach(ctx, o.take, l.keys); err != nil {
		return err
	}
	// Longer rounds than in a heat, because a page of a sweep takes a good part of one.
	p.pace.length *= 3
	var without, during []round
	deleted, ended := 0, false
	for turn := 0; turn < p.turns && !ended; turn++ {
		var pair [2]round
		for i := range pair {
			// In alternating order, so that neither is always on the warmer machine.
			var err error
			if i == turn%2 {
				pair[0], err = measure(o, l, p.pace, nil)
			} else {
				var n int
				pair[1], n, ended, err = measureDuring(ctx, o, l, p.pace)
				deleted += n
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("after %d turns and %d deleted rows: %w", turn, deleted, err)
			}
		}
		without, during = append(without, pair[0]), append(during, pair[1])
	}
	logf("%s: %d turns, %s deleted", c.name, len(during), plural(deleted, "row"))
	if len(during) < min(p.turns, leastSweepTurns) {
		return fmt.Errorf("the sweep ended after %d turns and %d deleted rows", len(during), deleted)
	}
	r.add(newCell(withoutSweep(c.name), l, without), newCell(duringSweep(c.name), l, during))
	return nil
}

// measureDuring measures a round during a sweep, which begins with it. The round ends when the sweep has deleted all rows,
// so that it has no calls without a sweep. If the round is over earlier, measureDuring stops the sweep; the next one goes
// on, because the rows are deleted.
func measureDuring(ctx context.Context, o *instance, l load, p pace) (r round, deleted int, ended bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	var failed error
	r, err = measure(o, l, p, func() <-chan struct{} {
		go func() {
			defer close(done)
			deleted, failed = o.sweep(ctx)
		}()
		return done
	})
	select {
	case <-done:
		ended = true
	default:
		stop()
		<-done
		// Its error is that it was stopped.
		failed = nil
	}
	return r, deleted, ended, cmp.Or(err, failed)
}
