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

// race runs the heats of the plan, in which every call is allowed.
func (r *report) race(ctx context.Context, s *site, p plan) error {
	var names []string
	for _, h := range p.heats {
		names = append(names, h.names...)
	}
	open := r.openAll(ctx, s, names)
	defer open.close()
	for _, h := range p.heats {
		logf("%s", loadName(h.callers, h.keys))
		l := load{h.callers, keysOf(h.keys, h.keys)}
		open.warm(ctx, h.names, l.keys)
		r.run(ctx, h, open, l, p)
	}
	return ctx.Err()
}

// heat is a race of contenders under the same load, in turns. In each turn every contender runs a short round, so that
// whatever else the machine does affects all of them.
type heat struct {
	callers, keys int
	// names are the contenders that run.
	names []string
}

// cell is the result of a contender in a heat.
type cell struct {
	Contender string
	Callers   int
	Keys      int
	// PerSecond, P50, P99 and Failed are the medians of the rounds. Latencies are in nanoseconds.
	PerSecond float64
	P50       time.Duration
	P99       time.Duration
	Failed    float64
	// Error is the error of a failed call.
	Error string
	// Turns are the decisions per second of each turn.
	Turns []float64
	// Own and Server are the processor times of a decision, in seconds: that of this process, and of the database's
	// processes. HasCPU means that both were measured.
	Own    float64
	Server float64
	HasCPU bool
}

// busy returns the processor time of a decision in both processes.
func (c *cell) busy() float64 { return c.Own + c.Server }

// run runs a heat with the open contenders. Those that cannot go on are out.
func (r *report) run(ctx context.Context, h heat, open field, l load, p plan) {
	rounds, out := map[string][]round{}, map[string]bool{}
	for turn := range p.turns {
		for i := range h.names {
			// Each turn begins with another contender, because the first and the last may have a warmer or colder machine.
			name := h.names[(turn+i)%len(h.names)]
			o, ok := open[name]
			if !ok || out[name] || ctx.Err() != nil {
				continue
			}
			got, err := measure(o.take, l, p.pace.of(name), o.meter)
			if err != nil {
				logf("%s: %v", name, err)
				out[name] = true
			}
			rounds[name] = append(rounds[name], got)
		}
	}
	for _, name := range h.names {
		// A contender without all turns cannot be compared turn by turn.
		if !out[name] && len(rounds[name]) == p.turns {
			r.add(newCell(name, l, rounds[name]))
		}
	}
}

// newCell returns the medians of rounds.
func newCell(name string, l load, rounds []round) cell {
	c := cell{Contender: name, Callers: l.callers, Keys: len(l.keys)}
	var p50, p99 []time.Duration
	var failed []float64
	var used split
	decisions := 0
	for _, r := range rounds {
		used.own, used.server = used.own+r.used.own, used.server+r.used.server
		decisions += r.decisions
		c.HasCPU = r.metered
		c.Turns = append(c.Turns, r.perSecond)
		p50, p99, failed = append(p50, r.p50), append(p99, r.p99), append(failed, r.failed)
		if r.err != nil {
			c.Error = r.err.Error()
		}
	}
	c.HasCPU = c.HasCPU && decisions > 0
	if c.HasCPU {
		// Over all rounds, because the kernel counts in ticks.
		c.Own, c.Server = used.own.Seconds()/float64(decisions), used.server.Seconds()/float64(decisions)
	}
	c.PerSecond, c.P50, c.P99, c.Failed = median(c.Turns), median(p50), median(p99), median(failed)
	return c
}

// load is callers that take a token of a random key, each again as soon as it has a decision. Every call must be allowed.
type load struct {
	callers int
	keys    []string
}

// pace is the timing of a round.
type pace struct {
	// leadIn comes first and is not measured: caches, connections and queues fill.
	leadIn, length time.Duration
	// One call in stride is timed.
	stride int
}

// of returns the pace for a contender.
func (p pace) of(name string) pace {
	// In memory, reading the clock costs as much as a decision.
	if name == oursLeased || name == xTimeRate {
		p.stride = 64
	}
	return p
}

// round is the result of a round.
type round struct {
	// perSecond is the number of decisions per second.
	perSecond float64
	p50, p99  time.Duration
	// failed is the fraction of calls that returned an error. They are not decisions. err is the error of one of them.
	failed float64
	err    error
	// decisions took the processor time used, if metered.
	decisions int
	used      split
	metered   bool
}

// samplesInAll bounds the memory for latencies. Each caller keeps its last ones.
const samplesInAll = 1 << 20

// measure runs a round. If meter is nil, processor time is not measured. A server may stop for as long as a round, such as for
// a flush: that no call has ended is a result, not an error.
func measure(take takeFunc, l load, p pace, meter splitMeter) (round, error) {
	callers := make([]*caller, l.callers)
	for i := range callers {
		// As every HTTP request has one: a context that can be canceled costs more.
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		callers[i] = &caller{
			load: l, take: take, stride: p.stride, ctx: ctx,
			// The same seeds for every contender, so that all get the same sequence of keys.
			random:  rand.New(rand.NewPCG(uint64(i), uint64(p.length))),
			samples: make([]time.Duration, max(64, samplesInAll/l.callers)),
		}
	}
	// So that no contender pays for the garbage of the one before.
	runtime.GC()
	var all sync.WaitGroup
	began := time.Now()
	for _, c := range callers {
		c.began, c.from, c.to = began, p.leadIn, p.leadIn+p.length
		all.Go(c.run)
	}
	var before split
	if meter != nil {
		time.Sleep(p.leadIn)
		before = meter()
	}
	all.Wait()
	// Before the samples are sorted, which is our work and not the contender's.
	var used split
	if meter != nil {
		used = meter().minus(before)
	}
	r, err := sum(callers, p.length)
	r.used, r.metered = used, meter != nil
	return r, err
}

// sum combines the results of the callers.
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
	// A contender that decides wrongly may be fast because of it.
	if wrong > 0 {
		return round{}, fmt.Errorf("%d of %d calls were decided wrongly", wrong, calls)
	}
	switch {
	case calls == failed && r.err == nil:
		return round{p50: length, p99: length}, nil
	case calls == failed:
		return round{}, fmt.Errorf("no call succeeded: %w", r.err)
	}
	slices.Sort(samples)
	r.decisions = calls - failed
	r.perSecond = float64(r.decisions) / length.Seconds()
	r.failed = float64(failed) / float64(calls)
	r.p50, r.p99 = percentile(samples, 50), percentile(samples, 99)
	return r, nil
}

// caller is one of the concurrent callers of a load.
type caller struct {
	load
	take   takeFunc
	stride int
	random *rand.Rand
	ctx    context.Context
	// began is when the round began. Calls that end between from and to are measured.
	began    time.Time
	from, to time.Duration

	calls, failed, wrong int
	samples              []time.Duration
	taken                int
	err                  error
}

// run calls until the round is over. It does not allocate, because the garbage collector would slow the contender.
func (c *caller) run() {
	for {
		failed := 0
		for range c.stride - 1 {
			failed += c.once(c.ctx)
		}
		// One clock for all callers, read relative to the same instant, so that rounds end together.
		start := time.Since(c.began)
		failed += c.once(c.ctx)
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

// once makes a call, and returns 1 if it fails.
func (c *caller) once(ctx context.Context) (failed int) {
	allowed, err := c.take(ctx, c.keys[c.random.IntN(len(c.keys))])
	if err != nil {
		c.err = err
		return 1
	}
	if !allowed {
		c.wrong++
	}
	return 0
}

// takeEach takes a token of each key, by 64 callers, until ctx ends. It returns the error of one of the failed calls.
func takeEach(ctx context.Context, take takeFunc, keys []string) error {
	var next atomic.Int64
	errs := make(chan error, 64)
	var all sync.WaitGroup
	for range cap(errs) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(keys) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				// ctx is checked between calls. Canceling a call would close its connection.
				if _, err := take(context.Background(), keys[i]); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}
