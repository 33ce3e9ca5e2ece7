// Package storetest is the contract of [runtime.Store] in executable form. A store that passes [Run] is a
// store; each clause is a test of its own, and says which rule was broken.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store { ... })
//	}
package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Open returns an empty store that tells the time by clock. It closes what it opens in t.Cleanup.
type Open func(t *testing.T, clock func() time.Time) runtime.Store

// Run tests a store against every clause of the contract.
func Run(t *testing.T, open Open) {
	for _, group := range [][]clause{one(), several(), keys(), failures(), sharded(), together(), kept()} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				clock := NewClock()
				c.check(&subject{T: t, ctx: t.Context(), clock: clock, store: open(t, clock.Now), rule: c.rule})
			})
		}
	}
}

// clause is one rule of the contract.
type clause struct {
	name  string
	rule  string
	check func(s *subject)
}

// Clock is a clock that stands still until it is told otherwise. It may be used by many goroutines.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at noon of 1 January 2030 UTC.
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

// subject is a store under test, with its clock, and the rule that a failure is about.
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

// do asks the store one batch of calls.
func (s *subject) do(calls ...runtime.Call) []runtime.Answer {
	s.Helper()
	answers, err := s.store.Do(s.ctx, calls)
	if err != nil {
		s.Fatalf("Do: %v", err)
	}
	if len(answers) != len(calls) {
		s.Fatalf("Do gave %d answers to %d calls", len(answers), len(calls))
	}
	return answers
}

// ask asks one question, which is not an error.
func (s *subject) ask(p *runtime.Policy, key string, q runtime.Request) runtime.Decision {
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
	return s.ask(p, key, runtime.Request{Count: n}).Allowed
}

// value returns what is left of a key.
func (s *subject) value(p *runtime.Policy, key string) float64 {
	s.Helper()
	return s.ask(p, key, runtime.Request{Op: runtime.Peek}).Value
}

// wantValue requires that so many tokens are left of a key.
func (s *subject) wantValue(p *runtime.Policy, key string, want float64) {
	s.Helper()
	if got := s.value(p, key); got < want-1e-6 || got > want+1e-6 {
		s.broken("%v tokens are left of key %q of %s, not %v", got, key, p.Kind, want)
	}
}

func call(requests ...runtime.Request) runtime.Call { return runtime.Call{Requests: requests} }

func request(p *runtime.Policy, key string, q runtime.Request) runtime.Request {
	q.Policy, q.Key = p, key
	return q
}

// taking is a request for n tokens.
func taking(p *runtime.Policy, key string, n int64) runtime.Request {
	return request(p, key, runtime.Request{Count: n})
}

// bucket, window and sliding grant ten tokens a minute; bucket can be reserved 5 ahead, and window 20.
func bucket() *runtime.Policy {
	return &runtime.Policy{Name: "bucket", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10, MaxReserved: 5}
}

func window() *runtime.Policy {
	return &runtime.Policy{Name: "window", Kind: runtime.FixedWindow, Rate: 10, Period: time.Minute, Capacity: 10, MaxReserved: 20, Start: runtime.StartOffset(0)}
}

func sliding() *runtime.Policy {
	return &runtime.Policy{Name: "sliding", Kind: runtime.SlidingWindow, Rate: 10, Period: time.Minute, Capacity: 10, Start: runtime.StartOffset(0)}
}

func firstUse() *runtime.Policy {
	p := window()
	p.Name, p.Start = "firstUse", runtime.StartFirstUse()
	return p
}

// kinds returns a policy of every kind, and of every kind of start.
func kinds() []*runtime.Policy {
	byKey := window()
	byKey.Name, byKey.Start = "byKey", runtime.Start{}
	return []*runtime.Policy{bucket(), window(), byKey, firstUse(), sliding()}
}
