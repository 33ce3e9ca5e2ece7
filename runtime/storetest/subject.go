package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

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

// decide executes one request for the key "k", or the key that it has, which must not be an error.
func (s *subject) decide(p *runtime.Policy, q runtime.Request) runtime.Decision {
	s.Helper()
	a := s.do(call(request(p, q)))[0]
	if a.Err != nil {
		s.Fatalf("%v", a.Err)
	}
	return a.Decisions[0]
}

// take takes n tokens of the key "k", and reports whether it was allowed.
func (s *subject) take(p *runtime.Policy, n int64) bool {
	s.Helper()
	return s.decide(p, runtime.Request{Count: n}).Allowed
}

func call(requests ...runtime.Request) runtime.Call { return runtime.Call{Requests: requests} }

// request returns a request by a policy, for the key "k" if it has none.
func request(p *runtime.Policy, q runtime.Request) runtime.Request {
	if q.Policy = p; q.Key == "" {
		q.Key = "k"
	}
	return q
}

// Same reports whether a store's decision is the one that is wanted. It may have a copy of the policy, and no total: without
// that, some refunds return less. See [runtime.Request.Total].
func Same(got, want runtime.Decision) bool {
	total := got.RefundRequest(0).Total
	return Shown(got) == Shown(want) && (total == 0 || total == want.RefundRequest(0).Total)
}

// Shown returns a decision as a caller sees it: without its policy, which may be a copy, and what only a refund needs.
func Shown(d runtime.Decision) runtime.Decision {
	d.Policy, d.Receipt = nil, runtime.Receipt{}
	return d
}
