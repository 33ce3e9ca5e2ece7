package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/receipt"
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

// Same reports whether a store's decision is the one that is wanted. It may have a copy of the policy, and no total:
// without that, some refunds return less. See [runtime.Request.Total].
func Same(got, want runtime.Decision) bool {
	total := got.RefundRequest(0).Total
	return Shown(got) == Shown(want) && (total == 0 || total == want.RefundRequest(0).Total)
}

// Shown returns a decision as a caller sees it: without its policy, which may be a copy, and what only a refund needs.
func Shown(d runtime.Decision) runtime.Decision {
	d.Policy, d.Receipt = nil, receipt.Receipt{}
	return d
}

// clause is one rule of the contract, and how it is checked for each of its policies: by a script, or by a function.
type clause struct {
	name, rule string
	policies   []*runtime.Policy
	script     []step
	check      func(s *subject, p *runtime.Policy)
}

// step is what a script does next: a wait, and then a request, a call of several requests, or a batch of calls. It has
// the decision that the request must get.
type step struct {
	wait  time.Duration
	times int
	// p is the policy of the request, nil for the one of the clause, which edit may change.
	p    *runtime.Policy
	edit func(p *runtime.Policy)
	// numbers are those of the caller, as given of the policy.
	numbers int64
	q       runtime.Request
	want    outcome
	// call are the requests of one call, and batch the calls of one batch.
	call, batch []step
}

// outcome is the decision that a request must get. The zero outcome is an allowance without a delay.
type outcome struct {
	denied bool
	// retry is how long after a denial the request passes, if not 0.
	retry, delay time.Duration
	// taken is how many tokens TakeUpTo takes, and left how many Peek finds.
	taken int64
	left  float64
	err   error
	// shadowed means that the request passes only because the limit is in shadow mode, and takes nothing.
	shadowed bool
	// crossed is the threshold that the request crosses, in percent.
	crossed uint8
	// penalty is how long a penalty lasts, if it is checked.
	penalty *time.Duration
}

func pause(d time.Duration) step { return step{wait: d, times: -1} }

func ask(op runtime.Op, n int64) step { return step{q: runtime.Request{Op: op, Count: n}} }

func take(n int64) step   { return ask(runtime.Take, n) }
func check(n int64) step  { return ask(runtime.Check, n) }
func charge(n int64) step { return ask(runtime.Charge, n) }
func refund(n int64) step { return ask(runtime.Refund, n) }
func reset() step         { return ask(runtime.Reset, 0) }

// upTo takes as many of n tokens as there are, which is how many it must find.
func upTo(n, finds int64) step {
	st := ask(runtime.TakeUpTo, n)
	st.want.taken, st.want.denied = finds, finds == 0
	return st
}

// reserve reserves n tokens, which are due after a delay.
func reserve(n int64, delay time.Duration) step {
	st := take(n)
	st.q.Reserve, st.want.delay = true, delay
	return st
}

// left finds how many tokens there are.
func left(want float64) step {
	st := ask(runtime.Peek, 0)
	st.want.left = want
	return st
}

// all is a call of several requests, of which it takes all or none.
func all(requests ...step) step { return step{call: requests} }

func batch(calls ...step) step { return step{batch: calls} }

func (st step) by(p *runtime.Policy) step              { st.p = p; return st }
func (st step) edited(edit func(*runtime.Policy)) step { st.edit = edit; return st }
func (st step) given(n int64) step                     { st.numbers = n; return st }
func (st step) of(key string) step                     { st.q.Key = key; return st }
func (st step) repeated(times int) step                { st.times = times; return st }
func (st step) denied() step                           { st.want.denied = true; return st }
func (st step) deniedFor(retry time.Duration) step     { st.want.retry = retry; return st.denied() }
func (st step) shadowed() step                         { st.want.shadowed = true; return st }
func (st step) fails(err error) step                   { st.want.err = err; return st }
func (st step) within(d time.Duration) step            { st.q.MaxDelay = d; return st }
func (st step) in(zone *time.Location, day runtime.Date) step {
	st.q.Zone, st.q.Anniversary = zone, day
	return st
}

// zero are requests for no tokens.
var zero = []step{take(0), reserve(0, 0), check(0), charge(0), refund(0)}

// drained takes the ten tokens of a key one by one, and finds no other.
var drained = []step{take(1).repeated(10), take(1).denied()}

func script(parts ...[]step) []step { return slices.Concat(parts...) }

// calls returns the calls of a step, and the steps of their requests.
func (st step) calls(p *runtime.Policy) (calls []runtime.Call, steps [][]step) {
	switch {
	case st.times < 0:
		return nil, nil
	case st.batch != nil:
		for _, c := range st.batch {
			more, of := c.calls(p)
			calls, steps = append(calls, more...), append(steps, of...)
		}
		return calls, steps
	case st.call == nil:
		st.call = []step{st}
	}
	var c runtime.Call
	for _, of := range st.call {
		by := p
		if of.p != nil {
			by = of.p
		}
		if of.edit != nil {
			copied := *by
			of.edit(&copied)
			by = &copied
		}
		if of.numbers != 0 {
			by = given(by, of.numbers)
		}
		c.Requests = append(c.Requests, request(by, of.q))
	}
	return []runtime.Call{c}, [][]step{st.call}
}

// play makes the requests of a script, in order, and reports the answers that are not the wanted ones.
func (s *subject) play(p *runtime.Policy, script []step) {
	s.Helper()
	for i, st := range script {
		for n := range max(1, st.times) {
			s.clock.Add(st.wait)
			calls, steps := st.calls(p)
			if len(calls) == 0 {
				continue
			}
			for c, a := range s.do(calls...) {
				if problem := problemOf(steps[c], a); problem != "" {
					s.broken("step %d, time %d, call %d: %s\nthe calls are %s\nand the answer is %+v", i+1, n+1, c+1, problem, inWords(calls), a)
				}
			}
		}
	}
}

// wantValue fails the clause unless want tokens of the key "k" are left.
func (s *subject) wantValue(p *runtime.Policy, want float64) {
	s.Helper()
	s.play(p, []step{left(want)})
}

// inWords returns requests with the names of their policies.
func inWords(calls []runtime.Call) (text string) {
	for _, c := range calls {
		for _, q := range c.Requests {
			name := "no policy"
			if q.Policy != nil {
				name = q.Policy.Name
			}
			text += fmt.Sprintf("[%v %d of %.40q by %s, reserve %v] ", q.Op, q.Count, q.Key, name, q.Reserve)
		}
		text += "; "
	}
	return text
}

// problemOf returns how an answer differs from the wanted one, or "".
func problemOf(steps []step, a runtime.Answer) string {
	var want error
	for _, st := range steps {
		want = cmp.Or(st.want.err, want)
	}
	switch {
	case (want == nil) != (a.Err == nil) || !errors.Is(a.Err, want):
		return fmt.Sprintf("the error is %v, want %v", a.Err, want)
	case want != nil:
		return ""
	}
	if len(a.Decisions) != len(steps) {
		return fmt.Sprintf("there are %d decisions on %d requests", len(a.Decisions), len(steps))
	}
	denied := slices.ContainsFunc(steps, func(st step) bool { return st.want.denied })
	if a.Allowed() == denied {
		return fmt.Sprintf("the call is allowed %v", a.Allowed())
	}
	for i, st := range steps {
		if problem := st.problem(a.Decisions[i], !denied); problem != "" {
			return problem
		}
	}
	return ""
}

// problem returns how a decision differs from the wanted one, or "". Tokens are taken if the whole call is allowed.
func (st step) problem(d runtime.Decision, allowed bool) string {
	want, op := st.want, st.q.Op
	takes := allowed && st.q.Takes() && st.q.Count > 0 && !want.shadowed
	decides := st.q.Decides()
	switch {
	case want.penalty != nil && d.PenaltyFor != *want.penalty:
		return fmt.Sprintf("the penalty lasts for %v, want %v", d.PenaltyFor, *want.penalty)
	case d.Crossed != want.crossed:
		return fmt.Sprintf("it has crossed %d%% of the capacity, want %d%%", d.Crossed, want.crossed)
	case op == runtime.Peek:
		// A millionth of a token is the allowance of meter.Rule.Step for roundings.
		if d.Value < want.left-1e-6 || d.Value > want.left+1e-6 {
			return fmt.Sprintf("%v tokens are left, want %v", d.Value, want.left)
		}
	case d.Allowed == want.denied:
		return fmt.Sprintf("the request is allowed %v", d.Allowed)
	case d.Shadowed != want.shadowed:
		return fmt.Sprintf("it passes because of shadow mode only %v", d.Shadowed)
	case decides && (d.RetryAfter > 0) != want.denied || want.retry != 0 && d.RetryAfter != want.retry:
		return fmt.Sprintf("it is to be retried after %v, want %v", d.RetryAfter, want.retry)
	case !want.denied && d.UsableAfter != want.delay || want.delay != 0 && d.UsableAfter != want.delay:
		return fmt.Sprintf("the delay is %v, want %v", d.UsableAfter, want.delay)
	case op.UpTo() && d.Taken != want.taken:
		return fmt.Sprintf("it has taken %d tokens, want %d", d.Taken, want.taken)
	case (decides || st.q.Count == 0) && d.TakenAt.IsZero() == takes:
		return fmt.Sprintf("it has taken tokens at %v, and is to take them: %v", d.TakenAt, takes)
	}
	return ""
}
