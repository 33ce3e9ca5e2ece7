package storetest

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// calls returns the clauses about calls with several requests.
func calls() []clause {
	a := one(bucket())
	return []clause{
		{name: "AllOrNone", rule: "a call takes from all of its limits or from none", policies: a, check: (*subject).allOrNone},
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

func (s *subject) allOrNone(p *runtime.Policy) {
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
}

// batches returns the clauses about batches of several calls.
func batches() []clause {
	a := one(bucket())
	return []clause{
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
