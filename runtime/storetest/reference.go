package storetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// vector is a trace of one limit with the decisions of the reference implementation. Times are in milliseconds.
type vector struct {
	Config struct {
		Kind        string
		Rate        int64
		Period      int64
		Capacity    *int64
		MaxReserved *int64
		Start       *int64
	}
	Steps []vectorStep
}

type vectorStep struct {
	Now        int64
	Count      int64
	Reserve    bool
	OK         bool
	RetryAfter float64
	Value      float64
	TS         int64
}

// Stored returns the state of a row in a store.
type Stored func(row runtime.Row) runtime.State

// Vectors tests a store against traces of the reference implementation, one JSON object per line, as in
// testdata/convex.jsonl: the decisions, the waits, and the stored state after each step. It returns the number of steps
// that agreed.
func Vectors(t *testing.T, store runtime.Store, clock *Clock, stored Stored, traces io.Reader) (agreed int) {
	s := &subject{T: t, ctx: t.Context(), clock: clock, store: store}
	lines := bufio.NewScanner(traces)
	lines.Buffer(nil, 1<<24) // a trace is longer than a Scanner's default line
	for n := 1; lines.Scan(); n++ {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		p := v.policy("vector" + strconv.Itoa(n))
		for i, step := range v.Steps {
			clock.Set(time.UnixMilli(step.Now))
			d := s.decide(p, runtime.Request{Count: step.Count, Reserve: step.Reserve})
			if row := stored(runtime.Row{Name: p.Name, Key: "k"}); !step.agrees(p, d, row) {
				t.Errorf("line %d, step %d: the decision is %+v and the state %+v\nwant %+v", n, i+1, d, row, step)
				continue
			}
			agreed++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return agreed
}

// policy returns the limit of a vector.
func (v *vector) policy(name string) *runtime.Policy {
	c := v.Config
	p := &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: c.Rate, Period: time.Duration(c.Period) * time.Millisecond}
	if c.Kind == runtime.FixedWindow.String() {
		p.Kind = runtime.FixedWindow
	}
	// The defaults of the reference implementation.
	p.Capacity, p.MaxReserved = c.Rate, runtime.Unbounded
	if c.Capacity != nil {
		p.Capacity = *c.Capacity
	}
	if c.MaxReserved != nil {
		p.MaxReserved = *c.MaxReserved
	}
	if c.Start != nil {
		p.Start = runtime.StartAt(time.UnixMilli(*c.Start))
	}
	return p
}

// agrees reports whether a decision by p and the state after it are those of the reference, which counts in
// milliseconds.
func (s vectorStep) agrees(p *runtime.Policy, d runtime.Decision, row runtime.State) bool {
	wait := d.RetryAfter
	// The reference has one field for all waits. For a reservation, allowed or denied, that is the delay.
	if s.Reserve {
		wait = d.UsableAfter
	}
	return d.Allowed == s.OK &&
		math.Abs(float64(wait)/1e6-s.RetryAfter) <= 1 &&
		math.Abs(float64(p.Capacity)+row.Value-s.Value) <= 1e-6 &&
		row.TS == s.TS*1e6
}

// comparisons returns the clause that compares a store with a memstore.Store.
func comparisons() []clause {
	return []clause{{
		name: "LikeMemStore", rule: "every limit decides as it does in a memstore.Store, to the last bit", policies: one(bucket()),
		check: func(s *subject, _ *runtime.Policy) {
			c := &comparison{subject: s, r: rand.New(rand.NewPCG(1, 2)), reference: &memstore.Store{Clock: s.clock.Now}, fences: []int64{0}}
			c.policies = comparedPolicies()
			for step := range 350 {
				// A minute has passed after some 20 steps, so that logs grow and shrink, and holds end.
				s.clock.Add(time.Duration(c.r.Int64N(int64(6 * time.Second))))
				c.step(step)
			}
		},
	}}
}

// comparison makes random calls to a store and to a reference.
type comparison struct {
	*subject
	r         *rand.Rand
	reference runtime.Store
	policies  []*runtime.Policy
	// denied is a request of the last step that was denied, which the next step repeats.
	denied *runtime.Request
	// fences are those of the slots that were acquired.
	fences []int64
}

// comparedPolicies returns policies with large numbers, with logs and slots of several lengths, with numbers of
// callers, and with a penalty.
func comparedPolicies() []*runtime.Policy {
	// 7 per minute gives fractions that need all bits of a double.
	fractions := sized(7, named("fractions", bucket()))
	fractions.Capacity = 1_000_000
	all := []*runtime.Policy{bucket(), window(), fractions, numbered(named("numbered", bucket())), penalized()[0]}
	for _, n := range []int64{1, 3, 40, 1000} {
		all = append(all, sized(n, named(fmt.Sprintf("precise %d", n), precise())))
		if n < 1000 {
			all = append(all, sized(n, named(fmt.Sprintf("slots %d", n), inFlight())))
		}
	}
	for _, mode := range []runtime.Mode{runtime.ModeShadow, runtime.ModeOff} {
		p := sized(3, named("slots 3", inFlight()))
		p.Mode = mode
		all = append(all, p)
	}
	for _, p := range all {
		p.Warn = runtime.Thresholds{1, 33, 80, 100}
	}
	return all
}

// step compares the answers to some calls.
func (c *comparison) step(step int) {
	var calls []runtime.Call
	if c.denied != nil {
		// First, because it may be answered from a cache of denials only before calls that are not.
		calls, c.denied = append(calls, call(*c.denied)), nil
	}
	for range 1 + c.r.IntN(4) {
		requests := []runtime.Request{c.request()}
		if c.r.IntN(6) == 0 {
			requests = append(requests, request(c.policies[c.r.IntN(len(c.policies))], runtime.Request{Key: requests[0].Key, Count: 1}))
		}
		calls = append(calls, call(requests...))
	}
	want, err := c.reference.Do(c.ctx, calls)
	if err != nil {
		c.Fatal(err)
	}
	for i, got := range c.do(calls...) {
		if got.Source == runtime.SourceDenyCache {
			c.cached(step, calls[i].Requests[0].Policy, &got.Decisions[0], want[i].Decisions[0])
		}
		if (want[i].Err == nil) != (got.Err == nil) || !slices.EqualFunc(got.Decisions, want[i].Decisions, Same) {
			c.broken("step %d: the answer to %s is %+v, and %+v of a memstore.Store", step, inWords(calls[i:i+1]), got, want[i])
		}
		if q := &calls[i].Requests[0]; len(got.Decisions) == 1 && !got.Allowed() && got.Decisions[0].RetryAfter > 0 {
			c.denied = q
		}
		for _, d := range got.Decisions {
			if d.Fence > 0 {
				c.fences = append(c.fences, d.Fence)
			}
		}
	}
}

// cached compares the tokens and the waits of a cached denial with those that there are now, and then sets them to these:
// see [runtime.Decision.Remaining] for where tokens that have come back since may be missing.
func (c *comparison) cached(step int, p *runtime.Policy, d *runtime.Decision, now runtime.Decision) {
	exact := p.Kind == runtime.FixedWindow || p.Kind == runtime.TokenBucket && p.Shards <= 1
	low, high := now.Value-d.Value, now.Remaining-d.Remaining
	if low < -1e-6 || high < 0 || exact && (low > 1e-6 || high > 0) {
		c.broken("step %d: a cached denial of %v has %v tokens, %d whole, and there are %v, %d", step, p.Kind, d.Value, d.Remaining, now.Value, now.Remaining)
	}
	// Both waits are rounded to a double of the nanoseconds of days, at different moments.
	for _, wait := range [...][2]*time.Duration{{&d.RetryAfter, &now.RetryAfter}, {&d.FullAfter, &now.FullAfter}} {
		if (*wait[0] - *wait[1]).Abs() > time.Microsecond {
			c.broken("step %d: a cached denial of %v has the wait %v in place of %v", step, p.Kind, *wait[0], *wait[1])
		}
		*wait[0] = *wait[1]
	}
	d.Value, d.Remaining = now.Value, now.Remaining
}

// The operations of random requests: most take.
var (
	tokenOps = append(slices.Repeat([]runtime.Op{runtime.Take}, 4), slices.DeleteFunc(runtime.Ops(), func(o runtime.Op) bool { return !o.Counts() })...)
	slotOps  = []runtime.Op{runtime.Take, runtime.Take, runtime.Take, runtime.Take, runtime.Check, runtime.Renew, runtime.Renew, runtime.Release, runtime.Release, runtime.Release, runtime.Refund}
)

// request returns a request by a random policy.
func (c *comparison) request() runtime.Request {
	p := c.policies[c.r.IntN(len(c.policies))]
	q := runtime.Request{Key: string("ab"[c.r.IntN(2)]), Count: 1 + c.r.Int64N(max(1, p.Full()/6)), Op: tokenOps[c.r.IntN(len(tokenOps))]}
	if p.AtMost.Rate > 0 {
		p = given(p, 1+c.r.Int64N(p.AtMost.Rate))
	}
	if p.Kind.Linear() && !p.Penalizes() && c.r.IntN(3) == 0 {
		p, _ = runtime.Priority{Name: "batch", Leaves: 1 + c.r.IntN(60)}.For(p, runtime.Key{})
	}
	back := time.Duration(c.r.IntN(9)) * time.Second
	if p.Kind == runtime.InFlight {
		q.Op, q.Fence, back = slotOps[c.r.IntN(len(slotOps))], c.fences[max(0, len(c.fences)-1-c.r.IntN(8))], 0
		if q.Op == runtime.Take {
			q.Fence = c.r.Int64N(runtime.MaxFenceStep + 1)
		}
	}
	switch {
	case c.r.IntN(90) == 0:
		q.Op, q.Count = runtime.Reset, 0
	case q.Op == runtime.Renew || q.Op == runtime.Release:
		q.Count = 0
	case q.Op == runtime.Refund:
		q.TakenAt = c.clock.Now().Add(-back).UnixNano()
	}
	return request(p, q)
}
