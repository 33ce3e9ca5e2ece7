package model

import (
	"context"
	"math/rand/v2"
	goruntime "runtime"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// departure is when the context of a caller ends: before its request, when the store reads its clock for the nth time
// while the request is executed, some turns of other goroutines later, or when the store has returned.
type departure struct {
	cancel context.CancelFunc
	when   string
	reads  atomic.Int64
	turns  int
}

// departs returns a context that ends at a random instant of the requests that get it or contexts made from it.
func departs(r *rand.Rand, ctx context.Context, remote bool) (context.Context, *departure) {
	ctx, cancel := context.WithCancel(ctx)
	d := &departure{cancel: cancel, when: oneOf(r, "before", "while the clock is read", "while the clock is read", "after"),
		turns: r.IntN(1 << r.IntN(15))}
	if remote && r.IntN(3) > 0 {
		// In this process, when that is could not be repeated.
		d.when = "meanwhile"
	}
	d.reads.Store(int64(1 + r.IntN(3)))
	return context.WithValue(ctx, departing{}, d), d
}

// departing is the key of a departure in the values of a context.
type departing struct{}

// during has a request executed, and the context end.
func (d *departure) during(clock *Clock, do func() ([]runtime.Answer, error)) ([]runtime.Answer, error) {
	switch d.when {
	case "before":
		d.cancel()
	case "while the clock is read":
		defer d.duringReads(clock)()
	case "meanwhile":
		go d.afterTurns()
	case "after":
		defer d.cancel()
	}
	return do()
}

// afterTurns ends the context after some turns of other goroutines.
func (d *departure) afterTurns() {
	for range d.turns {
		goruntime.Gosched()
	}
	d.cancel()
}

// duringReads ends the context when the clock is read, until the function that it returns is called.
func (d *departure) duringReads(clock *Clock) (stop func()) {
	return clock.watch(func() {
		if d.reads.Add(-1) == 0 {
			d.cancel()
		}
	})
}
