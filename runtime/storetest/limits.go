package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// limits returns the clauses about requests for one key.
func limits() []clause {
	return []clause{
		{name: "Fresh", rule: "a new key is full", policies: kinds(), script: []step{
			left(10), take(10).of("other"), take(1).of("other").denied(),
		}},
		// The use of a sliding window has faded after two periods.
		{name: "Refill", rule: "tokens come back with time, up to the capacity", policies: kinds(), script: []step{
			take(10), pause(time.Hour), left(10),
		}},
		{name: "RefillExact", rule: "a token bucket refills by rate * elapsed / period", policies: one(bucket()), script: []step{
			take(10), pause(9 * time.Second), left(1.5), take(1), pause(3 * time.Second), left(1),
		}},
		{name: "RetryAfter", rule: "a retry after RetryAfter passes, and one after 99 % of it does not", policies: kinds(), check: (*subject).retryAfter},
		{name: "Denied", rule: "a denied request changes nothing", policies: kinds(), script: []step{
			take(9), take(2).denied().repeated(3), left(1),
		}},
		{name: "Check", rule: "Check and Peek take nothing", policies: kinds(), script: []step{take(9), check(1), check(2).denied(), left(1)}},
		// If a denial moved the row's instant back, the hour would be counted again.
		{
			name: "ClockBack", rule: "a clock that goes back neither takes nor grants tokens", policies: kinds(),
			script: script([]step{take(10)}, slices.Repeat([]step{pause(-time.Hour), take(1).denied(), pause(time.Hour), take(1).denied()}, 10)),
		},
		{
			name: "ConfigEdit", rule: "an edited limit keeps what was used of it, by whichever version", policies: kinds(),
			script: []step{
				take(8), take(1).edited(to(3)).denied(), left(-5).edited(to(3)),
				take(1).edited(to(100)), left(91).edited(to(100)), left(1), take(1), left(0),
			},
		},
	}
}

func (s *subject) retryAfter(p *runtime.Policy) {
	// So that no window begins at the same time as the test.
	s.play(p, []step{pause(17 * time.Second), take(9)})
	d := s.decide(p, runtime.Request{Count: 4})
	if d.Allowed || d.RetryAfter <= 0 {
		s.broken("%s: the decision on 4 tokens, with 1 left, is %v", p.Name, d)
		return
	}
	early := d.RetryAfter / 100
	s.play(p, []step{pause(d.RetryAfter - early), take(4).denied(), pause(early), take(4)})
}

// zeros returns the clauses about requests for no tokens.
func zeros() []clause {
	firstUse := window()
	firstUse.Start = runtime.StartFirstUse()
	return []clause{
		{
			name: "Zero", rule: "a request for 0 tokens is allowed and takes nothing, even if the key is in debt", policies: every(),
			script: script([]step{take(10), take(1).denied(), charge(3)}, zero, []step{left(-3)}),
		},
		{
			name: "ZeroFirst", rule: "a request for 0 tokens does not begin a window", policies: one(firstUse),
			script: script(zero, []step{pause(30 * time.Second), take(10), pause(45 * time.Second), take(1).denied()}),
		},
		{name: "ZeroAmongOthers", rule: "a request for 0 tokens neither helps nor hinders others of its call and its batch", policies: one(bucket()), script: []step{
			batch(all(take(6), take(0).by(window())), take(0), take(4), all(take(1).denied(), take(0))),
			left(0), left(10).by(window()),
		}},
	}
}

// clocks returns the clause about clocks that show what an int64 of nanoseconds cannot hold, as a fake one does that was
// not set.
func clocks() []clause {
	return []clause{{name: "ClockOutOfRange", rule: "a request at an instant that cannot be calculated with is ErrInvalidCall, and takes nothing", policies: slices.Concat(kinds(), sharded()), check: func(s *subject, p *runtime.Policy) {
		s.take(p, 1)
		for _, now := range []time.Time{{}, time.Date(1677, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2263, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<61, 0)} {
			before := s.clock.Now()
			s.clock.Set(now)
			for _, op := range []runtime.Op{runtime.Take, runtime.Check, runtime.Peek, runtime.Charge} {
				answers, err := s.store.Do(s.ctx, []runtime.Call{call(request(p, runtime.Request{Op: op, Count: 1}))})
				if err == nil {
					err = answers[0].Err
				}
				if !errors.Is(err, runtime.ErrInvalidCall) {
					s.broken("at %v, the error of %v is %v", now, op, err)
				}
			}
			s.clock.Set(before)
		}
		s.wantValue(p, 9)
	}}}
}

// operations returns the clauses about the operations that do more or less than a plain take.
func operations() []clause {
	return []clause{
		// Even for a new key a store must not insert a row beyond the capacity.
		{name: "Refund", rule: "a refund returns tokens, up to the capacity", policies: kinds(), script: []step{
			take(7), refund(3), left(6), refund(100), left(10), refund(1).of("new"), left(10).of("new"),
		}},
		{name: "RefundOrder", rule: "in whatever order requests are refunded, nothing stays used", policies: []*runtime.Policy{bucket(), window()}, check: (*subject).refundOrders},
		{name: "Charge", rule: "a charge takes tokens whether they are available or not", policies: one(bucket()), script: []step{
			charge(100), left(-90), pause(time.Minute), left(-80),
		}},
		{name: "UpTo", rule: "TakeUpTo takes as many tokens as there are, at most its count", policies: every(), script: []step{
			upTo(3, 3).repeated(3), upTo(3, 1), upTo(3, 0).repeated(2), left(0), upTo(1000, 10).of("more"),
		}},
		{name: "Reset", rule: "after a reset a key is like a new one", policies: kinds(), script: []step{
			take(10), take(10).of("bystander"), reset(), left(10), left(0).of("bystander"),
		}},
		{name: "ResetDebt", rule: "a reset forgets a debt", policies: one(bucket()), script: []step{reserve(15, 30*time.Second), reset(), left(10)}},
		{name: "Reserve", rule: "a reservation takes tokens before they have accrued, at most MaxReserved of them", policies: one(bucket()), script: []step{
			reserve(12, 12*time.Second), left(-2), reserve(4, 0).deniedFor(6 * time.Second), reserve(3, 30*time.Second), take(1).denied(),
		}},
		{name: "MaxDelay", rule: "a reservation due later than MaxDelay is denied", policies: one(bucket()), script: []step{
			take(10), reserve(3, 18*time.Second).within(10 * time.Second).deniedFor(18 * time.Second), left(0),
			pause(8 * time.Second), reserve(3, 10*time.Second).within(10 * time.Second),
		}},
	}
}

// refundOrders makes three reservations a microsecond apart, and refunds them in each order.
func (s *subject) refundOrders(p *runtime.Policy) {
	for i, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		key, taken := fmt.Sprint(i), [3]runtime.Decision{}
		s.decide(p, runtime.Request{Key: key, Op: runtime.Charge, Count: 3})
		for j := range taken {
			s.clock.Add(time.Microsecond)
			taken[j] = s.decide(p, runtime.Request{Key: key, Count: 3, Reserve: true})
		}
		for _, j := range order {
			back := taken[j].RefundRequest(3)
			back.Key = key
			s.decide(p, back)
			s.clock.Add(time.Microsecond)
		}
		if d := s.decide(p, runtime.Request{Key: key, Op: runtime.Peek}); d.Value < 7 || d.Value > 7.0001 {
			s.broken("%s: after three reservations were refunded in the order %v, %v tokens are left, want 7", p.Name, order, d.Value)
		}
	}
}
