package storetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Open returns an empty store with the given clock. It closes its resources in t.Cleanup.
type Open func(t *testing.T, clock func() time.Time) runtime.Store

// clause is one rule of the contract.
type clause struct {
	name  string
	rule  string
	check func(s *subject)
}

// Clock is a clock that changes only by Add and Set. It may be used by many goroutines.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock set to noon of 1 January 2030 UTC.
func NewClock() *Clock { return &Clock{now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock, back if d is negative.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set sets the clock.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// subject is a store under test, with its clock and the rule that is tested.
type subject struct {
	*testing.T
	ctx   context.Context
	clock *Clock
	store runtime.Store
	rule  string
}

// broken fails the clause.
func (s *subject) broken(format string, args ...any) {
	s.Helper()
	s.Errorf("broken: "+s.rule+"\n"+format, args...)
}

// do executes one batch of calls.
func (s *subject) do(calls ...runtime.Call) []runtime.Answer {
	s.Helper()
	answers, err := s.store.Do(s.ctx, calls)
	if err != nil {
		s.Fatalf("Do: %v", err)
	}
	if len(answers) != len(calls) {
		s.Fatalf("Do returned %d answers to %d calls", len(answers), len(calls))
	}
	return answers
}

// decide executes one request, which must not be an error.
func (s *subject) decide(p *runtime.Policy, key string, q runtime.Request) runtime.Decision {
	s.Helper()
	a := s.do(call(request(p, key, q)))[0]
	if a.Err != nil {
		s.Fatalf("%v", a.Err)
	}
	return a.Decisions[0]
}

// take takes n tokens, and reports whether it was allowed.
func (s *subject) take(p *runtime.Policy, key string, n int64) bool {
	s.Helper()
	return s.decide(p, key, runtime.Request{Count: n}).Allowed
}

// value returns the number of tokens left.
func (s *subject) value(p *runtime.Policy, key string) float64 {
	s.Helper()
	return s.decide(p, key, runtime.Request{Op: runtime.Peek}).Value
}

// wantValue fails the clause unless want tokens are left.
func (s *subject) wantValue(p *runtime.Policy, key string, want float64) {
	s.Helper()
	// A millionth of a token is the allowance of runtime.Rule.Step for roundings.
	if got := s.value(p, key); got < want-1e-6 || got > want+1e-6 {
		s.broken("%s: %v tokens are left for key %q, want %v", p.Kind, got, key, want)
	}
}

func call(requests ...runtime.Request) runtime.Call { return runtime.Call{Requests: requests} }

func request(p *runtime.Policy, key string, q runtime.Request) runtime.Request {
	q.Policy, q.Key = p, key
	return q
}

// taking returns a request for n tokens.
func taking(p *runtime.Policy, key string, n int64) runtime.Request {
	return request(p, key, runtime.Request{Count: n})
}

// basic returns a policy of any kind: ten tokens a minute, of which 5 can be reserved if the kind allows it.
func basic(kind runtime.Kind) *runtime.Policy {
	p := &runtime.Policy{Name: kind.String(), Kind: kind, Rate: 10, Period: time.Minute, Capacity: 10}
	if kind.Linear() {
		p.MaxReserved = 5
	}
	if kind.Windowed() {
		p.Start = runtime.StartOffset(0)
	}
	return p
}

// shards returns a policy of any kind whose three shards have 4, 3 and 3 tokens.
func shards(kind runtime.Kind) *runtime.Policy {
	p := basic(kind)
	p.Name, p.Start, p.Shards = "sharded "+p.Name, runtime.Start{}, 3
	return p
}

func bucket() *runtime.Policy {
	p := basic(runtime.TokenBucket)
	p.Name = "bucket"
	return p
}

func window() *runtime.Policy {
	p := basic(runtime.FixedWindow)
	p.Name, p.MaxReserved = "window", 20
	return p
}

// kinds returns policies of every kind and every Start.
func kinds() []*runtime.Policy {
	byKey, firstUse := window(), window()
	byKey.Name, byKey.Start = "byKey", runtime.Start{}
	firstUse.Name, firstUse.Start = "firstUse", runtime.StartFirstUse()
	all := []*runtime.Policy{bucket(), window(), byKey, firstUse, precise()}
	for _, kind := range runtime.Kinds() {
		// A new kind takes part in every clause without a change here.
		if !slices.ContainsFunc(all, func(p *runtime.Policy) bool { return p.Kind == kind && !p.Precise }) {
			all = append(all, basic(kind))
		}
	}
	return all
}

// Same reports whether a store's decision is the one that is wanted. It may have a copy of the policy, and no total: without
// that, some refunds return less. See [runtime.Request.Total].
func Same(got, want runtime.Decision) bool {
	total := got.RefundRequest(0).Total
	return Shown(got) == Shown(want) && (total == 0 || total == want.RefundRequest(0).Total)
}

// Shown returns a decision as a caller sees it: without its policy, which may be a copy, and what only a refund needs.
func Shown(d runtime.Decision) runtime.Decision {
	return runtime.Decision{
		Limit: d.Limit, Allowed: d.Allowed, Taken: d.Taken, TakenAt: d.TakenAt, RetryAfter: d.RetryAfter, Delay: d.Delay,
		Jitter: d.Jitter, BlockedFor: d.BlockedFor, Remaining: d.Remaining, Value: d.Value, FullAfter: d.FullAfter, Shadowed: d.Shadowed,
		ResetAfter: d.ResetAfter, FailedOpen: d.FailedOpen, FailedLocal: d.FailedLocal,
	}
}

// precise returns a sliding window that never grants more than 10 tokens in any minute.
func precise() *runtime.Policy {
	for _, kind := range runtime.Kinds() {
		p := basic(kind)
		p.Name, p.Start, p.MaxReserved, p.Precise = "precise", runtime.Start{}, 0, true
		if p.Validate() == nil {
			return p
		}
	}
	panic("storetest: no kind can be precise")
}
