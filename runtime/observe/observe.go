// Package observe has observers of limits: counters with a Prometheus endpoint, the keys that are denied most, and logs.
//
//	counters := observe.NewCounters(observe.Options{Policies: limits.Policies(), Secret: secret})
//	logs := observe.NewLog(slog.Default(), observe.LogOptions{Secret: secret})
//	limit := limits.New(store, limiter.Observe(counters), limiter.Observe(logs))
//	http.Handle("/metrics", counters)
//
// With one secret, the fingerprint of a key is the same in logs, in lists of denied keys, in package console and in package
// operate, whose command `who` finds the key.
//
// # Guarantees
//
//   - No key leaves this package: logs and lists of denied keys have its [runtime.Fingerprint]. Error messages have [key] in
//     place of the key.
//   - The number of series is fixed by the limits: 39 for each and one for each of its thresholds, and 152 for the store. So
//     is the memory: about 7 KB for each limit, and at most 64 fingerprints.
//   - Counters count each observation once. What a caller decides in its own transaction counts too, even if the
//     transaction is rolled back later; see [runtime.Observation].
//
// # Non-guarantees
//
//   - Counts are those of this process since it started.
//   - Series that are read while requests are counted may differ by these requests.
package observe

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Metric is the description of a metric, whose names are the same in Prometheus and in OpenTelemetry.
type Metric struct {
	// Name is the name in OpenTelemetry: "ratelimitgen.store.duration".
	Name string
	// Unit is the unit in the notation of UCUM: "s", or "{request}" for counts.
	Unit string
	// Type is that of Prometheus: "counter", "gauge" or "histogram".
	Type string
	// Labels are the names of the labels, which OpenTelemetry calls attributes.
	Labels []string
	// Help is one sentence.
	Help string
}

// The metrics of all observers.
var (
	Requests = Metric{"ratelimitgen.requests", "{request}", "counter", []string{LabelLimit, LabelOutcome},
		"Requests by outcome. A call of several limits is a request of each."}
	Tokens = Metric{"ratelimitgen.tokens", "{token}", "counter", []string{LabelLimit, LabelOutcome},
		"Tokens taken by requests that passed, and tokens requested by those that were denied."}
	Near = Metric{"ratelimitgen.near", "{request}", "counter", []string{LabelLimit},
		"Requests that passed and left less than a tenth of the capacity."}
	Warnings = Metric{"ratelimitgen.warnings", "{request}", "counter", []string{LabelLimit, LabelThreshold},
		"Requests that crossed a threshold of their limit, in percent of its capacity. One that crossed several counts for the highest."}
	DeniedPriorities = Metric{"ratelimitgen.denied_priorities", "{request}", "counter", []string{LabelLimit, LabelPriority},
		"Requests that were denied, also in shadow mode, by their priority. A limit without priorities has no series."}
	Relaxed = Metric{"ratelimitgen.relaxed", "{request}", "counter", []string{LabelLimit},
		"Requests while limiter.Mode, an option of the program, makes all limits no stricter than a mode."}
	DeniedKeys = Metric{"ratelimitgen.denied_keys", "{key}", "gauge", []string{LabelLimit},
		"Different keys that were denied in the last minute, to within a few percent."}
	StoreDuration = Metric{"ratelimitgen.store.duration", "s", "histogram", []string{LabelOperation},
		"How long calls took in the store. Calls that are answered from memory are not included."}
)

// The names of labels.
const (
	LabelLimit     = "limit"
	LabelOutcome   = "outcome"
	LabelOperation = "operation"
	LabelThreshold = "threshold"
	LabelPriority  = "priority"
)

// Metrics returns all metrics.
func Metrics() []Metric {
	return []Metric{Requests, Tokens, Near, Warnings, DeniedPriorities, Relaxed, DeniedKeys, StoreDuration}
}

// Prometheus returns the name in Prometheus: "ratelimitgen_store_duration_seconds". The series of a histogram have the
// suffixes _bucket, _sum and _count.
func (m Metric) Prometheus() string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" {
		name += "_seconds"
	}
	if m.Type == "counter" {
		name += "_total"
	}
	return name
}

// Buckets returns the upper bounds of the buckets of StoreDuration, in seconds.
func Buckets() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

// Operation returns an operation as the label of StoreDuration has it: "take_up_to".
func Operation(op runtime.Op) string {
	var b strings.Builder
	for i, r := range op.String() {
		if 'A' <= r && r <= 'Z' && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// Operations returns the operations that are observed.
func Operations() []runtime.Op {
	var observed []runtime.Op
	for _, op := range runtime.Ops() {
		if op != runtime.Peek {
			observed = append(observed, op)
		}
	}
	return observed
}

// Limits returns the names of the limits of some policies: a limit has one policy for each plan.
func Limits(policies []*runtime.Policy) (names []string) {
	seen := map[string]bool{}
	for _, p := range policies {
		if p != nil && !seen[p.Name] {
			seen[p.Name] = true
			names = append(names, p.Name)
		}
	}
	return names
}

// Thresholds returns the thresholds of some policies, by the names of their limits.
func Thresholds(policies []*runtime.Policy) map[string][]uint8 {
	all := map[string][]uint8{}
	for _, p := range policies {
		if p == nil {
			continue
		}
		for _, percent := range p.Warn[:p.Warn.Len()] {
			if !slices.Contains(all[p.Name], percent) {
				all[p.Name] = append(all[p.Name], percent)
			}
		}
	}
	return all
}

// byLimit has a value for each limit. The map is replaced as a whole, so that an observation takes no lock.
type byLimit[V any] struct {
	values atomic.Pointer[map[string]*V]
	mu     sync.Mutex
}

// all returns the values by the names of their limits. It must not be changed.
func (b *byLimit[V]) all() map[string]*V {
	if values := b.values.Load(); values != nil {
		return *values
	}
	return nil
}

// of returns the value of a limit, which it adds if necessary.
func (b *byLimit[V]) of(limit string, empty func() *V) *V {
	if v := b.all()[limit]; v != nil {
		return v
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if v := b.all()[limit]; v != nil {
		return v
	}
	v := empty()
	more := map[string]*V{limit: v}
	maps.Copy(more, b.all())
	b.values.Store(&more)
	return v
}

// secretOr returns a secret, or random bytes if it is empty.
func secretOr(secret []byte) []byte {
	if len(secret) > 0 {
		return secret
	}
	random := make([]byte, 32)
	rand.Read(random) // never fails
	return random
}

// Options complete [Counters] and [Denials].
type Options struct {
	// Policies are those of the limits, from Policies of the generated package. Their series exist with the value 0 before
	// the first request. Other limits are added with their first request.
	Policies []*runtime.Policy
	// Secret is that of the fingerprints. If it is empty, each process makes a random one, so that its fingerprints mean
	// nothing to others.
	Secret []byte
}
