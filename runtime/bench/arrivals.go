package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// arrivalLoad is the load whose rate the arrivals are a part of.
var arrivalLoad = heat{callers: 64, keys: 1000}

// arrivalParts are the parts of the rate of arrivalLoad at which calls arrive.
var arrivalParts = []struct {
	part float64
	name string
}{{0.5, "half of its rate"}, {0.9, "nine tenths of its rate"}}

// arriving are the contenders that have calls arrive, in the order of the table.
var arriving = []string{oursSQLite, oursPostgres, byUpsert, oursMariaDB, oursMySQL, "rueidis: GCRA", "redis_rate"}

// arrivalName returns the name of a contender with calls that arrive at a part of its rate in reports.
func arrivalName(contender, part string) string { return contender + ", " + part }

// measureArrivals measures calls that arrive at random, whatever the earlier ones do.
func (r *report) measureArrivals(ctx context.Context, s *site, p plan) error {
	h := arrivalLoad
	for _, name := range arriving {
		if p.only.MatchString(name) {
			h.names = append(h.names, name)
		}
	}
	s.rows = h.keys
	open := r.openAll(ctx, s, h.names)
	defer open.close()
	keys := keysOf(h.keys, h.keys)
	closed := loadName(h.callers, h.keys)
	logf("arrivals: the rates of %s", closed)
	open.warm(ctx, h.names, keys)
	rates := r.turns(ctx, h.names, closed, open, p.turns, func(_ string, o *instance) (round, error) {
		return measure(o, load{h.callers, keys}, p.pace, nil)
	})
	// A round must have enough calls that one in a thousand means something.
	p.pace.length *= 3
	for _, part := range arrivalParts {
		logf("arrivals: %s", part.name)
		rounds := r.turns(ctx, h.names, part.name, open, p.turns, func(name string, o *instance) (round, error) {
			rate := part.part * newCell(name, load{}, rates[name]).PerSecond
			if rate == 0 {
				return round{}, errNoAnswer
			}
			return arrive(o, keys, rate, p.pace)
		})
		for _, name := range h.names {
			if got := rounds[name]; len(got) == p.turns {
				r.add(newCell(arrivalName(name, part.name), load{0, keys}, got))
			}
		}
	}
	return ctx.Err()
}

// mostUnanswered is how many calls may be without an answer. One that arrives when there are as many fails.
const mostUnanswered = 1 << 15

var errUnanswered = fmt.Errorf("%s were without an answer", plural(mostUnanswered, "call"))

// arrivals are the calls of a round that arrive at random, each in a goroutine of its own, as in a server.
type arrivals struct {
	o     *instance
	keys  []string
	ctxs  [64]context.Context
	began time.Time

	unanswered, failed, wrong atomic.Int64
	err                       atomic.Pointer[error]
	all                       sync.WaitGroup
}

// arrive runs a round in which perSecond calls arrive in a second on average, with exponential gaps, as of many callers that
// know nothing of each other. A latency is the time from the instant at which a call was to arrive to its answer, so that a
// stall counts for all calls that arrive during it, and the lateness of this program counts too. The calls that were to
// arrive after the lead-in are measured.
func arrive(o *instance, keys []string, perSecond float64, p pace) (round, error) {
	a := &arrivals{o: o, keys: keys, began: time.Now()}
	for i := range a.ctxs {
		// As every HTTP request has one.
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		a.ctxs[i] = ctx
	}
	random := rand.New(rand.NewPCG(1, uint64(p.length)))
	samples := make([]time.Duration, 0, int(2*perSecond*p.length.Seconds())+64)
	runtime.GC()
	var spent func() (charge func(r *round))
	due, end := time.Duration(0), p.leadIn+p.length
	for {
		due += time.Duration(random.ExpFloat64() / perSecond * float64(time.Second))
		if late := time.Since(a.began) - due; late < 0 {
			time.Sleep(-late)
		}
		if due >= end || len(samples) == cap(samples) {
			break
		}
		if spent == nil && due >= p.leadIn {
			spent = o.account()
		}
		sample := new(time.Duration)
		if spent != nil {
			samples = samples[:len(samples)+1]
			sample = &samples[len(samples)-1]
		}
		key, ctx, at := keys[random.IntN(len(keys))], a.ctxs[random.IntN(len(a.ctxs))], due
		a.all.Go(func() { a.call(ctx, key, at, sample) })
	}
	// The calls that are under way are as many as at the beginning, more or less.
	if spent == nil {
		spent = o.account()
	}
	charge := spent()
	a.all.Wait()
	r, err := a.sum(samples, p.length)
	charge(&r)
	return r, err
}

// call makes a call that was to arrive at an instant after the beginning, and stores its latency, or a negative one if it
// failed.
func (a *arrivals) call(ctx context.Context, key string, due time.Duration, latency *time.Duration) {
	*latency = -1
	if a.unanswered.Add(1) > mostUnanswered {
		a.fail(errUnanswered)
	} else if right, err := a.o.take(ctx, key); err != nil {
		a.fail(err)
	} else {
		if !right {
			a.wrong.Add(1)
		}
		*latency = time.Since(a.began) - due
	}
	a.unanswered.Add(-1)
}

func (a *arrivals) fail(err error) {
	a.failed.Add(1)
	a.err.Store(&err)
}

// sum returns the result of the calls with these latencies.
func (a *arrivals) sum(samples []time.Duration, took time.Duration) (r round, err error) {
	if wrong := a.wrong.Load(); wrong > 0 {
		return round{}, fmt.Errorf("%d calls were decided wrongly", wrong)
	}
	if first := a.err.Load(); first != nil {
		r.err = *first
	}
	arrived := len(samples)
	samples = slices.DeleteFunc(samples, func(d time.Duration) bool { return d < 0 })
	if len(samples) == 0 {
		return round{}, fmt.Errorf("no call succeeded: %w", r.err)
	}
	slices.Sort(samples)
	r.decisions = len(samples)
	r.perSecond = float64(r.decisions) / took.Seconds()
	r.failed = float64(arrived-r.decisions) / float64(arrived)
	r.latency = latenciesOf(samples)
	return r, nil
}
