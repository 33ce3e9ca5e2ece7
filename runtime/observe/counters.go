package observe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Counters is an observer that counts: see [Metrics]. As an [http.Handler], it serves the counts to Prometheus. Make it
// with NewCounters.
type Counters struct {
	denials *Denials
	limits  byLimit[counts]
	// thresholds are those of the policies that were given, by their limits.
	thresholds map[string][]uint8
	// durations has a histogram for each operation, in the order of names.
	durations map[runtime.Op]*histogram
}

// counts are those of one limit.
type counts struct {
	outcomes []tally
	near     atomic.Int64
	relaxed  atomic.Int64
	// warnings are by their threshold, in percent.
	warnings [101]atomic.Int64
	// priorities has the denials, as *atomic.Int64, by the name of their class.
	priorities sync.Map
}

// tally counts the requests of one outcome and their tokens.
type tally struct{ requests, tokens atomic.Int64 }

// NewCounters returns counters of 0.
func NewCounters(o Options) *Counters {
	c := &Counters{denials: NewDenials(o), thresholds: Thresholds(o.Policies), durations: map[runtime.Op]*histogram{}}
	for _, name := range Limits(o.Policies) {
		c.limits.of(name, newCounts)
	}
	for _, op := range Operations() {
		c.durations[op] = &histogram{buckets: make([]atomic.Int64, len(bounds)+1)}
	}
	return c
}

func newCounts() *counts { return &counts{outcomes: make([]tally, 1+len(runtime.Outcomes()))} }

// Decided implements [runtime.Observer].
func (c *Counters) Decided(ctx context.Context, o runtime.Observation) {
	n := c.limits.of(o.Limit, newCounts)
	of := &n.outcomes[o.Outcome]
	of.requests.Add(1)
	of.tokens.Add(o.Tokens())
	if o.Near() {
		n.near.Add(1)
	}
	if 0 < o.Crossed && int(o.Crossed) < len(n.warnings) {
		n.warnings[o.Crossed].Add(1)
	}
	if _, relaxed := o.Policy.Relaxed(); relaxed {
		n.relaxed.Add(1)
	}
	if class := DeniedPriority(&o); class != "" {
		times, _ := n.priorities.LoadOrStore(class, new(atomic.Int64))
		times.(*atomic.Int64).Add(1)
	}
	if denied(&o) {
		c.denials.Decided(ctx, o)
	}
	// All limits of a call have its duration.
	if o.Duration > 0 && o.Index == 0 {
		c.durations[o.Op].add(o.Duration)
	}
}

// Denials returns the keys that were denied.
func (c *Counters) Denials() *Denials { return c.denials }

// bounds are the upper bounds of the buckets.
var bounds = func() (bounds []time.Duration) {
	for _, seconds := range Buckets() {
		bounds = append(bounds, time.Duration(seconds*float64(time.Second)))
	}
	return bounds
}()

// histogram counts durations.
type histogram struct {
	buckets []atomic.Int64 // the last is for durations above all bounds
	sum     atomic.Int64   // in nanoseconds
}

func (h *histogram) add(d time.Duration) {
	i, _ := slices.BinarySearch(bounds, d)
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// LimitCounts is the counts of one limit.
type LimitCounts struct {
	// Limit is its name.
	Limit string
	// Requests and Tokens have every outcome; see the metrics of these names.
	Requests, Tokens map[runtime.Outcome]int64
	// Near is how many requests passed and left less than a tenth of the capacity.
	Near int64
	// Warnings is how many requests have crossed a threshold, by the highest that they have crossed, in percent.
	Warnings map[int]int64
	// DeniedPriorities is how many requests were denied, by the name of their priority.
	DeniedPriorities map[string]int64
	// Relaxed is how many requests there were while limiter.Mode was in force.
	Relaxed int64
	// DeniedKeys estimates how many different keys were denied in the last minute.
	DeniedKeys int64
	// TopDenied are the keys that were denied most, at most 64.
	TopDenied []DeniedKey
}

// Snapshot returns the counts of all limits, ordered by name.
func (c *Counters) Snapshot() (all []LimitCounts) {
	limits := c.limits.all()
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		n := limits[name]
		of := LimitCounts{
			Limit: name, Requests: map[runtime.Outcome]int64{}, Tokens: map[runtime.Outcome]int64{}, Near: n.near.Load(), Relaxed: n.relaxed.Load(),
			Warnings: map[int]int64{}, DeniedPriorities: map[string]int64{}, DeniedKeys: c.denials.Keys(name), TopDenied: c.denials.Top(name),
		}
		for _, outcome := range runtime.Outcomes() {
			of.Requests[outcome], of.Tokens[outcome] = n.outcomes[outcome].requests.Load(), n.outcomes[outcome].tokens.Load()
		}
		for percent := range n.warnings {
			if times := n.warnings[percent].Load(); times > 0 || slices.Contains(c.thresholds[name], uint8(percent)) {
				of.Warnings[percent] = times
			}
		}
		n.priorities.Range(func(class, times any) bool {
			of.DeniedPriorities[class.(string)] = times.(*atomic.Int64).Load()
			return true
		})
		all = append(all, of)
	}
	return all
}
