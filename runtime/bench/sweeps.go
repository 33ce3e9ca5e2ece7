package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// swept are the contenders whose calls are measured during a sweep.
var swept = []string{oursSQLite, oursPostgres, oursMariaDB, oursMySQL}

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

// sweepRatios compare calls during a sweep with those without.
func sweepRatios() (all []ratio) {
	for _, name := range swept {
		all = append(all, ratio{duringSweep(name), withoutSweep(name), sweepCallers, sweepKeys, speed})
	}
	return all
}

// measureSweeps measures calls with and without a sweep over a large table.
func (r *report) measureSweeps(ctx context.Context, s *site, p plan) error {
	for _, name := range swept {
		c, _ := find(name)
		if r.NotRun[name] != "" || ctx.Err() != nil || !p.runs(duringSweep(name)) {
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
	if o.meter, err = s.meterOf(ctx, c.server); err != nil {
		logf("%s: no CPU times: %v", c.name, err)
	}
	// The keys of the calls are all over the table, so that the sweep meets them. Once used, their rows stay.
	l := load{sweepCallers, keysOf(sweepKeys, p.sweepRows)}
	if err := takeEach(ctx, o.take, len(l.keys), func(i int) string { return l.keys[i] }); err != nil {
		return err
	}
	// Longer rounds than in a heat, because a page of a sweep takes a good part of one.
	p.pace.length *= 3
	var rounds [2][]round
	deleted := 0
	for turn := range p.turns {
		pair, n, err := sweepTurn(ctx, o, l, p.pace, turn%2 == 1)
		deleted += n
		if errors.Is(err, errSweepEnded) && len(rounds[0]) >= leastSweepTurns {
			break
		}
		if err != nil {
			return fmt.Errorf("after %d turns and %d deleted rows: %w", turn, deleted, err)
		}
		for i := range rounds {
			rounds[i] = append(rounds[i], pair[i])
		}
	}
	logf("%s: %d turns, %s deleted", c.name, len(rounds[0]), plural(deleted, "row"))
	r.add(newCell(withoutSweep(c.name), l, rounds[0]), newCell(duringSweep(c.name), l, rounds[1]))
	return nil
}

// errSweepEnded means that a sweep has deleted all rows before its round ended.
var errSweepEnded = errors.New("the sweep ended before its round")

// sweepTurn measures a round without a sweep and one during a sweep, in this order or in the other. It stops the sweep after
// its round. The next one goes on, because the rows are deleted.
func sweepTurn(ctx context.Context, o *instance, l load, p pace, sweepFirst bool) (rounds [2]round, deleted int, err error) {
	for i := range rounds {
		during := (i == 1) != sweepFirst
		if !during {
			rounds[0], err = measureStalls(o.take, l, p, o.meter)
		} else {
			rounds[1], deleted, err = measureDuring(ctx, o, l, p)
		}
		if err != nil {
			return rounds, deleted, err
		}
	}
	return rounds, deleted, ctx.Err()
}

// measureDuring measures a round during a sweep.
func measureDuring(ctx context.Context, o *instance, l load, p pace) (r round, deleted int, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		var err error
		deleted, err = o.sweep(ctx)
		ended <- err
	}()
	r, err = measureStalls(o.take, l, p, o.meter)
	select {
	case failed := <-ended:
		return r, deleted, cmp.Or(err, failed, errSweepEnded)
	default:
	}
	stop()
	// Its error is that it was canceled.
	<-ended
	return r, deleted, err
}
