package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

// load is what is asked of a contender: by how many callers, each of whom asks again as soon as it is
// answered, for which of the keys, at random.
type load struct {
	callers int
	keys    []string
	// allowed is what every answer must be.
	allowed bool
}

// pace is how long a round is.
type pace struct {
	// leadIn comes first and is not measured: caches, connections and queues fill.
	leadIn, length time.Duration
	// stride is of how many calls one is timed. It is more than 1 where reading the clock would cost as
	// much as the call.
	stride int
}

// round is what was measured in one.
type round struct {
	// perSecond is how many decisions were made.
	perSecond float64
	p50, p99  time.Duration
	// failed is the part of the calls that returned an error, which are no decisions; err is one of them.
	failed float64
	err    error
}

// samplesInAll bounds the memory for latencies; the last of each caller are kept.
const samplesInAll = 1 << 20

// measure runs a round.
func measure(ask askFunc, l load, p pace) (round, error) {
	callers := make([]*caller, l.callers)
	for i := range callers {
		callers[i] = &caller{
			load: l, ask: ask, stride: p.stride,
			random:  rand.New(rand.NewPCG(uint64(i), uint64(p.length))),
			samples: make([]time.Duration, max(64, samplesInAll/l.callers)),
		}
	}
	runtime.GC()
	var all sync.WaitGroup
	began := time.Now()
	for _, c := range callers {
		c.began, c.from, c.to = began, p.leadIn, p.leadIn+p.length
		all.Go(c.run)
	}
	all.Wait()
	return sum(callers, p.length)
}

// sum puts together what the callers have seen.
func sum(callers []*caller, length time.Duration) (round, error) {
	var calls, failed, wrong int
	var r round
	var samples []time.Duration
	for _, c := range callers {
		calls, failed, wrong = calls+c.calls, failed+c.failed, wrong+c.wrong
		samples = append(samples, c.samples[:min(c.taken, len(c.samples))]...)
		if c.err != nil {
			r.err = c.err
		}
	}
	if wrong > 0 {
		return round{}, fmt.Errorf("%d of %d calls were decided wrongly", wrong, calls)
	}
	if calls == failed {
		return round{}, errors.Join(errors.New("no call was answered in time"), r.err)
	}
	slices.Sort(samples)
	r.perSecond = float64(calls-failed) / length.Seconds()
	r.failed = float64(failed) / float64(calls)
	r.p50, r.p99 = percentile(samples, 50), percentile(samples, 99)
	return r, nil
}

// caller asks again and again.
type caller struct {
	load
	ask    askFunc
	stride int
	random *rand.Rand
	// began is when the round began; what ends between from and to is measured.
	began    time.Time
	from, to time.Duration

	calls, failed, wrong int
	samples              []time.Duration
	taken                int
	err                  error
}

// run asks until the round is over. It allocates nothing.
func (c *caller) run() {
	ctx := context.Background()
	for {
		failed := 0
		for range c.stride - 1 {
			failed += c.once(ctx)
		}
		start := time.Since(c.began)
		failed += c.once(ctx)
		end := time.Since(c.began)
		if end >= c.to {
			return
		}
		if end < c.from {
			continue
		}
		c.calls += c.stride
		c.failed += failed
		c.samples[c.taken%len(c.samples)] = end - start
		c.taken++
	}
}

// once asks for a key, and returns 1 if that fails.
func (c *caller) once(ctx context.Context) (failed int) {
	allowed, err := c.ask(ctx, c.keys[c.random.IntN(len(c.keys))])
	if err != nil {
		c.err = err
		return 1
	}
	if allowed != c.allowed {
		c.wrong++
	}
	return 0
}
