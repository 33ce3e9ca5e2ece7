package storetest

import (
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// limits returns the clauses about requests for one key.
func limits() []clause {
	bucketOnly, cached := one(bucket()), one(denyCached())
	firstUse := window()
	firstUse.Start = runtime.StartFirstUse()
	return []clause{
		{name: "Fresh", rule: "a new key is full", policies: kinds(), script: []step{
			left(10), take(10).of("other"), take(1).of("other").denied(),
		}},
		// The use of a sliding window has faded after two periods.
		{name: "Refill", rule: "tokens come back with time, up to the capacity", policies: kinds(), script: []step{
			take(10), pause(time.Hour), left(10),
		}},
		{name: "RefillExact", rule: "a token bucket refills by rate * elapsed / period", policies: bucketOnly, script: []step{
			take(10), pause(9 * time.Second), left(1.5), take(1), pause(3 * time.Second), left(1),
		}},
		{name: "RetryAfter", rule: "a retry after RetryAfter passes, and one after 99 % of it does not", policies: kinds(), check: (*subject).retryAfter},
		{name: "Denied", rule: "a denied request changes nothing", policies: kinds(), script: []step{
			take(9), take(2).denied().repeated(3), left(1),
		}},
		{name: "Check", rule: "Check and Peek take nothing", policies: kinds(), script: []step{take(9), check(1), check(2).denied(), left(1)}},

		{
			name: "Zero", rule: "a request for 0 tokens is allowed and takes nothing, even if the key is in debt", policies: every(),
			script: script([]step{take(10), take(1).denied(), charge(3)}, zero, []step{left(-3)}),
		},
		{
			name: "ZeroFirst", rule: "a request for 0 tokens does not begin a window", policies: one(firstUse),
			script: script(zero, []step{pause(30 * time.Second), take(10), pause(45 * time.Second), take(1).denied()}),
		},
		{name: "ZeroAmongOthers", rule: "a request for 0 tokens neither helps nor hinders others of its call and its batch", policies: bucketOnly, script: []step{
			batch(all(take(6), take(0).by(window())), take(0), take(4), all(take(1).denied(), take(0))),
			left(0), left(10).by(window()),
		}},

		// Even for a new key a store must not insert a row beyond the capacity.
		{name: "Refund", rule: "a refund returns tokens, up to the capacity", policies: kinds(), script: []step{
			take(7), refund(3), left(6), refund(100), left(10), refund(1).of("new"), left(10).of("new"),
		}},
		{name: "Charge", rule: "a charge takes tokens whether they are available or not", policies: bucketOnly, script: []step{
			charge(100), left(-90), pause(time.Minute), left(-80),
		}},
		{name: "UpTo", rule: "TakeUpTo takes as many tokens as there are, at most its count", policies: every(), script: []step{
			upTo(3, 3).repeated(3), upTo(3, 1), upTo(3, 0).repeated(2), left(0), upTo(1000, 10).of("more"),
		}},
		{name: "Reset", rule: "after a reset a key is like a new one", policies: kinds(), script: []step{
			take(10), take(10).of("bystander"), reset(), left(10), left(0).of("bystander"),
		}},
		{name: "ResetDebt", rule: "a reset forgets a debt", policies: bucketOnly, script: []step{reserve(15, 30*time.Second), reset(), left(10)}},
		{name: "Reserve", rule: "a reservation takes tokens before they have accrued, at most MaxReserved of them", policies: bucketOnly, script: []step{
			reserve(12, 12*time.Second), left(-2), reserve(4, 0).deniedFor(6 * time.Second), reserve(3, 30*time.Second), take(1).denied(),
		}},
		{name: "MaxDelay", rule: "a reservation due later than MaxDelay is denied", policies: bucketOnly, script: []step{
			take(10), reserve(3, 18*time.Second).within(10 * time.Second).deniedFor(18 * time.Second), left(0),
			pause(8 * time.Second), reserve(3, 10*time.Second).within(10 * time.Second),
		}},

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

		// Three shards of 10 tokens have 4, 3 and 3: the last tokens are found only by reading all of them.
		{
			name: "ShardsAdmit", rule: "a limit with shards admits as much as one without", policies: sharded(),
			script: script(drained, []step{left(0), take(10).of("all"), take(1).of("all").denied()}),
		},
		{name: "ShardsRetry", rule: "a retry after RetryAfter passes, with shards too", policies: sharded(), check: func(s *subject, p *runtime.Policy) {
			s.play(p, []step{take(2).repeated(4)})
			d := s.decide(p, runtime.Request{Count: 8})
			s.play(p, []step{pause(d.RetryAfter), take(8)})
			if d.Allowed {
				s.broken("%s: the decision on 8 of 2 tokens is %v", p.Name, d)
			}
		}},
		{name: "ShardsGive", rule: "refund and reset reach all shards", policies: sharded(), script: []step{
			take(10), refund(7), left(7), reset(), left(10),
		}},
		{name: "ShardsReserve", rule: "a limit with shards allows as large reservations as one without", policies: one(shards(runtime.TokenBucket)), script: []step{
			reserve(15, 30*time.Second), reserve(1, 0).denied(), left(-5),
		}},

		// A store without leases passes these clauses too. 3 do not fit into the rest of the first block of 4: the store must
		// put the blocks together.
		{
			name: "LeaseAdmits", rule: "a leased limit admits as much as one without a lease", policies: leased(),
			script: script(drained, []step{take(3).of("several").repeated(2), take(4).of("several"), take(1).of("several").denied()}),
		},
		{
			name: "LeaseEnds", rule: "leased tokens are not spent when the window, or the time of the lease, is over", policies: leased(),
			script: script([]step{take(1), pause(2 * time.Hour)}, drained),
		},
		{name: "LeaseReset", rule: "leased tokens are not spent after a reset", policies: leased(), script: script([]step{take(1), reset()}, drained)},

		// A store without a cache of denials passes these too.
		{name: "DenialDue", rule: "a cached denial ends when its tokens are due", policies: cached, script: []step{
			take(10), take(2).deniedFor(12 * time.Second), pause(7 * time.Second), take(2).deniedFor(5 * time.Second), pause(5 * time.Second), take(2),
		}},
		{name: "DenialOfCount", rule: "a cached denial of a count does not deny a smaller count", policies: cached, script: []step{
			take(8), take(3).denied(), take(2),
		}},
		{name: "DenialGiven", rule: "refunded and reset tokens are available at once, also after a cached denial", policies: cached, script: []step{
			take(10), take(1).denied(), refund(1), take(1), take(9).denied(), take(1).denied(), reset(), take(1),
		}},
		{name: "DenialOfPolicy", rule: "a cached denial does not deny under an edited policy", policies: cached, script: []step{
			take(10), take(1).denied(), pause(time.Second), take(1).edited(func(p *runtime.Policy) { p.Rate = 1000 }),
		}},
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

// calls returns the clauses about calls with several requests, and batches of several calls.
func calls() []clause {
	a := one(bucket())
	return []clause{
		{name: "AllOrNone", rule: "a call takes from all of its limits or from none", policies: a, check: func(s *subject, p *runtime.Policy) {
			s.take(window(), 8)
			answer := s.do(call(request(p, runtime.Request{Count: 5}), request(window(), runtime.Request{Count: 3})))[0]
			if problem := problemOf([]step{take(5), take(3).denied()}, answer); problem != "" {
				s.broken("%s: the answer to 5 of 10 and 3 of 2 tokens is %+v", problem, answer)
			}
			if left := answer.Decisions[0].Remaining; left != 10 {
				s.broken("the denied call changed a limit that had enough tokens: Remaining is %d, want 10", left)
			}
			s.play(p, []step{
				left(10), left(2).by(window()), all(take(5), take(2).by(window())), left(5), left(0).by(window()),
			})
		}},
		// The sum of 6 and 5 can never pass: a denial would make the caller wait forever.
		{name: "SameKeyTwice", rule: "requests of one call for one key add up", policies: a, script: []step{
			all(take(6), take(4)), all(take(6).denied(), take(4).deniedFor(time.Minute)),
			all(take(6), take(5).fails(runtime.ErrExceedsCapacity)),
		}},
		{
			name: "ReserveTogether", rule: "a call with several reservations takes all of them or none, each with the delay of its limit", policies: a,
			script: []step{
				all(reserve(12, 12*time.Second), reserve(10, 0).by(window())),
				// The window can be reserved for another 20 tokens, but the bucket only for 3.
				all(reserve(4, 0).denied(), reserve(4, time.Minute).by(window())), left(-2), left(0).by(window()),
				all(reserve(1, 18*time.Second), reserve(2, 30*time.Second), take(1).by(window()).of("other")), left(-5), left(9).by(window()).of("other"),
			},
		},
		{name: "CheckTogether", rule: "a check in a call must pass, and takes nothing", policies: withoutReservations(kinds()), script: []step{
			all(take(3).by(bucket()), check(10)), take(1),
			// In either order, with tokens taken from the key that is checked, and on rows of two keys or of one.
			all(take(3).by(bucket()), check(10).denied()), all(check(10).denied(), take(3).by(bucket())),
			all(take(1), check(10).denied()), all(check(10).denied(), take(1)),
			left(7).by(bucket()), left(9), all(take(2), check(9), check(9)), left(7), reset().by(bucket()),
		}},
		{
			name: "GroupedLeases", rule: "calls with several requests use the tokens of a lease, and leave no other count",
			policies: withoutReservations(one(withLease(named("leased", bucket())))), script: []step{
				take(1), all(check(9), take(1).by(bucket())), all(take(9), reserve(12, 18*time.Second).by(bucket())), left(0), left(-3).by(bucket()),
			},
		},
		{name: "OnlyTakesAndChecks", rule: "a call with several requests has only takes and checks", policies: a, script: []step{
			all(take(3), refund(1).fails(runtime.ErrInvalidCall)), left(10),
		}},

		// The second call is denied, and must not prevent the third, which needs fewer tokens.
		{name: "Order", rule: "the calls of a batch are executed one after the other", policies: a, script: []step{
			batch(take(6), take(6).denied(), take(4), refund(2), take(2), left(0)),
		}},
		// A store that fails the transaction for any of these would fail all of its callers.
		{name: "Neighbours", rule: "a call that is an error does not fail its neighbours", policies: a, script: []step{
			batch(
				take(3), take(-1).fails(runtime.ErrInvalidCount), take(11).fails(runtime.ErrExceedsCapacity),
				bad().fails(runtime.ErrInvalidPolicy), all(take(1), bad().fails(runtime.ErrInvalidPolicy)), take(3),
			),
			left(4),
		}},
		{name: "NoPolicy", rule: "a request without a policy is an error of its call", policies: one(nil), script: []step{
			batch(take(3).by(bucket()), take(1).fails(runtime.ErrInvalidPolicy), take(3).by(bucket())), left(4).by(bucket()),
		}},
		{name: "Empty", rule: "a batch of no calls has no answers", policies: a, check: func(s *subject, _ *runtime.Policy) { s.do() }},
		{name: "SharedName", rule: "policies of one name share their counts", policies: a, script: []step{
			batch(take(4), take(4).by(bucket())), left(2).by(bucket()),
		}},
		{
			name: "Plans", rule: "keys of one name may have different policies in one call, but one key has a single one", policies: a,
			script: []step{
				batch(
					all(take(4), take(50).of("b").edited(to(60))), all(take(1), take(11).of("b").edited(to(60)).denied()),
					all(take(1), take(1).edited(to(60)).fails(runtime.ErrInvalidCall)), all(take(10).of("b").edited(to(60)), take(6)),
					take(4).of("c"), take(6).of("c").edited(to(60)), take(1).of("c").denied(),
				),
				left(0), left(0).of("b").edited(to(60)), left(0).of("c"),
			},
		},
	}
}

// bad is a request by a policy that is not valid.
func bad() step { return take(1).by(&runtime.Policy{Name: "bad"}) }

func withoutReservations(policies []*runtime.Policy) []*runtime.Policy {
	for _, p := range policies {
		p.Name, p.MaxReserved = p.Name+" without reservations", 0
	}
	return policies
}
