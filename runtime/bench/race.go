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
	// PerSecond and the latencies are the medians of the turns, and Spread is how far from the median half of the turns are at
	// most, as a part of it.
	PerSecond float64
	Spread    float64
	latency   latencies
	// Failed is the fraction of calls that returned an error, and Error one of them. They are not decisions.
	Failed float64
	Error  string
	// Turns are the decisions per second of each turn.
	Turns []float64
	// Own and Server are the processor times of a decision over all turns, in seconds: in this process, and in the
	// processes of the server. HasCPU means that both were measured.
	Own    float64
	Server float64
	HasCPU bool
	// Objects and Bytes are what this process allocates for a decision.
	Objects, Bytes float64
}

// busy returns the processor time of a decision in all processes.
func (c *cell) busy() float64 { return c.Own + c.Server }

// race runs a heat with the open contenders, and adds the results. Those that cannot go on are out.
func (r *report) race(ctx context.Context, h heat, open field, p plan) {
	logf("%s", loadName(h.callers, h.keys))
	l := load{h.callers, keysOf(h.keys, h.keys)}
	open.warm(ctx, h.names, l.keys)
	rounds := r.turns(ctx, h.names, loadName(h.callers, h.keys), open, p.turns, func(_ string, o *instance) (round, error) {
		return measure(o, l, p.pace, nil)
	})
	for _, name := range h.names {
		if len(rounds[name]) == p.turns {
			r.add(newCell(name, l, rounds[name]))
		}
	}
}

// turns runs rounds of open contenders under a load in turns. A contender that has failed in one, or for which ctx has
// ended, has not all of them, and cannot be compared.
func (r *report) turns(
	ctx context.Context, names []string, load string, open field, turns int, run func(name string, o *instance) (round, error),
) map[string][]round {
	rounds, out := map[string][]round{}, map[string]bool{}
	for turn := range turns {
		for i := range names {
			// Each turn begins with another contender, because the first and the last may have a warmer or colder machine.
			name := names[(turn+i)%len(names)]
			o, ok := open[name]
			if !ok || out[name] || ctx.Err() != nil {
				continue
			}
			got, err := run(name, o)
			if err != nil {
				r.skip(name+", "+load, err)
				out[name] = true
				continue
			}
			rounds[name] = append(rounds[name], got)
		}
	}
	return rounds
}

// newCell returns the medians of rounds.
func newCell(name string, l load, rounds []round) cell {
	c := cell{Contender: name, Callers: l.callers, Keys: len(l.keys)}
	var of [3][]time.Duration
	var failed, off []float64
	var used split
	var decisions, objects, bytes int
	for _, r := range rounds {
		used.own, used.server = used.own+r.used.own, used.server+r.used.server
		decisions, objects, bytes = decisions+r.decisions, objects+r.objects, bytes+r.bytes
		c.HasCPU = r.metered
		c.Turns = append(c.Turns, r.perSecond)
		of[0], of[1], of[2] = append(of[0], r.latency.P50), append(of[1], r.latency.P99), append(of[2], r.latency.P999)
		failed = append(failed, r.failed)
		if r.err != nil {
			c.Error = r.err.Error()
		}
	}
	if decisions > 0 {
		c.Objects, c.Bytes = float64(objects)/float64(decisions), float64(bytes)/float64(decisions)
	}
	c.HasCPU = c.HasCPU && decisions > 0
	if c.HasCPU {
		c.Own, c.Server = used.own.Seconds()/float64(decisions), used.server.Seconds()/float64(decisions)
	}
	c.PerSecond, c.Failed = median(c.Turns), median(failed)
	c.latency = latencies{median(of[0]), median(of[1]), median(of[2])}
	for _, turn := range c.Turns {
		off = append(off, max(turn-c.PerSecond, c.PerSecond-turn)/c.PerSecond)
	}
	c.Spread = median(off)
	return c
}

// load is callers that call for a random key, each again as soon as it has a decision.
type load struct {
	callers int
	keys    []string
}

// pace is the timing of a round.
type pace struct {
	// leadIn comes first and is not measured: caches, connections and queues fill.
	leadIn, length time.Duration
}

// round is the result of a round.
type round struct {
	// perSecond is the number of decisions per second.
	perSecond float64
	latency   latencies
	// failed is the fraction of calls that returned an error. They are not decisions. err is the error of one of them.
	failed float64
	err    error
	// decisions took the processor time used, if metered, and the objects and bytes that were allocated.
	decisions      int
	used           split
	metered        bool
	objects, bytes int
}

// latencies are those that half, 99 % and 99.9 % of the calls do not exceed.
type latencies struct{ P50, P99, P999 time.Duration }

// latenciesOf returns the latencies of sorted samples.
func latenciesOf(sorted []time.Duration) latencies {
	return latencies{percentile(sorted, 500), percentile(sorted, 990), percentile(sorted, 999)}
}

// samplesInAll bounds the memory for latencies. Each caller keeps its last ones.
const samplesInAll = 1 << 20

// The phases of a round. Calls that end in counting are measured.
const (
	leadingIn int32 = iota
	counting
	over
)

// measure runs a round. If during is not nil, it is called when the lead-in is over, and the round ends when the channel
// that it returns is closed, if that is earlier. A server may stop for as long as a round, such as for a flush: that no call
// has ended is a result, not an error.
func measure(o *instance, l load, p pace, during func() <-chan struct{}) (round, error) {
	var phase atomic.Int32
	callers := make([]*caller, l.callers)
	for i := range callers {
		// As every HTTP request has one: a context that can be canceled costs more.
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		callers[i] = &caller{
			load: l, take: o.take, stride: max(1, o.stride), ctx: ctx, phase: &phase, began: time.Now(),
			// The same seeds for every contender, so that all get the same sequence of keys.
			random:  rand.New(rand.NewPCG(uint64(i), uint64(p.length))),
			samples: make([]time.Duration, max(64, samplesInAll/l.callers)),
		}
	}
	// So that no contender pays for the garbage of the one before.
	runtime.GC()
	var all sync.WaitGroup
	for _, c := range callers {
		all.Go(c.run)
	}
	time.Sleep(p.leadIn)
	spent := o.account()
	began := time.Now()
	phase.Store(counting)
	var ended <-chan struct{}
	if during != nil {
		ended = during()
	}
	select {
	case <-time.After(p.length):
	case <-ended:
	}
	// The time of both is that of the same calls, also if this goroutine runs late: those that end later are not counted, and
	// what they cost, and the sorting of samples, is not the contender's.
	phase.Store(over)
	took := time.Since(began)
	charge := spent()
	all.Wait()
	r, err := sum(callers, took)
	charge(&r)
	return r, err
}

// account begins to measure what a round costs. The first call ends that, and the second sets it in the round.
func (o *instance) account() func() (charge func(r *round)) {
	meter := o.meter
	if meter == nil {
		meter = func() split { return split{} }
	}
	var first, last runtime.MemStats
	runtime.ReadMemStats(&first)
	before := meter()
	return func() func(r *round) {
		used := meter().minus(before)
		runtime.ReadMemStats(&last)
		return func(r *round) {
			r.used, r.metered = used, o.meter != nil
			r.objects, r.bytes = int(last.Mallocs-first.Mallocs), int(last.TotalAlloc-first.TotalAlloc)
		}
	}
}

// sum combines the results of the callers.
func sum(callers []*caller, took time.Duration) (round, error) {
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
		return round{latency: latencies{took, took, took}}, nil
	case calls == failed:
		return round{}, fmt.Errorf("no call succeeded: %w", r.err)
	}
	slices.Sort(samples)
	r.decisions = calls - failed
	r.perSecond = float64(r.decisions) / took.Seconds()
	r.failed = float64(failed) / float64(calls)
	r.latency = latenciesOf(samples)
	return r, nil
}

// caller is one of the concurrent callers of a load.
type caller struct {
	load
	take   takeFunc
	stride int
	random *rand.Rand
	ctx    context.Context
	phase  *atomic.Int32
	// began is an instant before the round, relative to which the clock is read.
	began time.Time

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
		start := time.Since(c.began)
		failed += c.once(c.ctx)
		took := time.Since(c.began) - start
		switch c.phase.Load() {
		case over:
			return
		case leadingIn:
			continue
		}
		c.calls += c.stride
		c.failed += failed
		c.samples[c.taken%len(c.samples)] = took
		c.taken++
	}
}

// once makes a call, and returns 1 if it fails.
func (c *caller) once(ctx context.Context) (failed int) {
	right, err := c.take(ctx, c.keys[c.random.IntN(len(c.keys))])
	if err != nil {
		c.err = err
		return 1
	}
	if !right {
		c.wrong++
	}
	return 0
}

// takeEach makes a call for each key, by 64 callers. It returns the error of one of the failed calls, or that of ctx if it
// ends before.
func takeEach(ctx context.Context, take takeFunc, keys []string) error {
	var next atomic.Int64
	errs := make(chan error, 64)
	var all sync.WaitGroup
	for range cap(errs) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(keys); i = int(next.Add(1)) - 1 {
				// Between calls, because canceling one would close its connection.
				err := ctx.Err()
				if err == nil {
					_, err = take(context.Background(), keys[i])
				}
				if err != nil {
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
