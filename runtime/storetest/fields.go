package storetest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// split returns the clauses about shards.
func split() []clause {
	return []clause{
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
	}
}

// leases returns the clauses about leased tokens. A store without leases passes them too.
func leases() []clause {
	return []clause{
		// 3 do not fit into the rest of the first block of 4: the store must
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
	}
}

// denials returns the clauses about cached denials. A store without a cache of them passes these too.
func denials() []clause {
	cached := one(denyCached())
	return []clause{
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

// numbers returns the clauses about numbers that callers give with the key.
func numbers() []clause {
	var counted []*runtime.Policy
	for _, p := range append(kinds(), append(sharded(), denyCached())...) {
		counted = append(counted, numbered(p))
	}
	fined := numbered(penalized()[0])
	return []clause{
		{
			name: "Numbers", rule: "a request is decided by the numbers of its caller, on the tokens that requests with any numbers have used", policies: counted,
			script: []step{
				left(20).given(20), left(10).given(10), take(10).given(10), take(1).given(10).denied(), left(0).given(10), left(10).given(20),
				take(8).given(20), take(1).given(18).denied(), left(-8).given(10), left(-15).given(3), take(2).given(20), take(1).given(20).denied(),
				take(20).given(20).of("other"), take(6).given(5).of("another").fails(runtime.ErrExceedsCapacity), upTo(9, 5).given(5).of("another"),
				refund(6).given(20), left(6).given(20), reset().given(3), left(3).given(3), left(20).given(20),
			},
		},
		{name: "NumbersRefill", rule: "tokens come back by the numbers of the next request", policies: one(numbered(bucket())), script: []step{
			take(20).given(20), take(1).given(20).deniedFor(3 * time.Second), take(1).given(10).deniedFor(66 * time.Second),
			pause(30 * time.Second), left(10).given(20), left(-5).given(10), take(10).given(20), take(1).given(10).denied(), left(0).given(20),
		}},
		{name: "NumbersTogether", rule: "requests of one call for one key have the same numbers", policies: one(numbered(bucket())), script: []step{
			all(take(3).given(5), take(2).given(5)), all(take(1).given(20), take(1).given(19).fails(runtime.ErrInvalidCall)),
			all(take(15).given(20), take(9).given(9).of("other")), left(0).given(20), batch(take(1).given(20).denied(), take(1).given(10).of("other"), left(0).given(10).of("other")),
		}},
		{name: "NumbersOfSlots", rule: "callers give how many slots there are, and a lowered number lets those that run finish", policies: one(numbered(inFlight())), script: []step{
			take(10).given(10), take(1).given(10).denied(), take(10).given(20), take(1).given(20).denied(), left(-10).given(10), left(-19).given(1),
			pause(time.Minute), take(1).given(1), take(1).given(1).denied(), left(19).given(20),
		}},
		{name: "NumbersAndPenalty", rule: "a penalty denies requests with any numbers", policies: one(fined), script: []step{
			take(5).given(5), take(1).given(5).denied().punished(time.Minute), take(1).given(20).denied().punished(time.Minute),
			pause(time.Minute), take(1).given(20).punished(0),
		}},
		{name: "NumbersRefused", rule: "numbers above the most, or below 0, are an error, and take nothing", policies: append(counted, numbered(inFlight())), check: func(s *subject, p *runtime.Policy) {
			limits := limiter.New(s.store)
			for _, n := range []int64{-1, 21} {
				_, err := limits.Limit(numbersOf(p, n).For(p, keyOf("k"))).Allow(s.ctx)
				if p.Kind == runtime.InFlight {
					_, err = limits.Slots(numbersOf(p, n).For(p, keyOf("k"))).Acquire(s.ctx)
				}
				if !errors.Is(err, runtime.ErrInvalidNumbers) {
					s.broken("%s: with %d of at most 20, the error is %v", p.Name, n, err)
				}
			}
			s.play(p, []step{left(20).given(20)})
		}},
	}
}

// penalized returns policies of every kind whose denials have a penalty: a minute, then an hour, until there was none
// for a day.
func penalized() (all []*runtime.Policy) {
	for _, p := range append(kinds(), denyCached()) {
		p = named("penalized "+p.Name, p)
		p.MaxReserved, p.Penalty = 0, runtime.PenaltyOf(24*time.Hour, time.Minute, time.Hour)
		all = append(all, p)
	}
	return all
}

// punished finds a penalty that lasts so long from now on.
func (st step) punished(lasts time.Duration) step { st.want.penalty = &lasts; return st }

// penalties returns the clauses about penalties.
func penalties() []clause {
	const none = time.Duration(0)
	// By the time of each pause, the tokens of every kind are back.
	again := []step{pause(2 * time.Hour), take(10).punished(none)}
	shadow := penalized()
	for _, p := range shadow {
		p.Mode = runtime.ModeShadow
	}
	free := named("free", bucket())
	return []clause{
		{
			name: "Penalty", rule: "a denial for lack of tokens starts a penalty, which does not grow, and the next one is the next step until the last is forgiven",
			policies: penalized(), script: script([]step{
				take(10).punished(none), check(1).denied().punished(none), take(1).denied().punished(time.Minute),
				pause(20 * time.Second), take(1).denied().punished(40 * time.Second).repeated(3), upTo(1, 0).punished(40 * time.Second),
				check(1).denied().punished(40 * time.Second), take(0).punished(40 * time.Second), take(1).of("other"),
			}, again, []step{upTo(1, 0).punished(time.Hour)}, again, []step{take(1).denied().punished(time.Hour), pause(25 * time.Hour)},
				again, []step{take(1).denied().punished(time.Minute)}),
		},
		{name: "PenaltyNeverFits", rule: "a count that can never fit starts no penalty", policies: penalized(), script: []step{
			take(11).fails(runtime.ErrExceedsCapacity), take(10).punished(none),
		}},
		{name: "PenaltyReset", rule: "a reset ends a penalty and forgets those before it", policies: penalized(), script: []step{
			take(10), take(1).denied().punished(time.Minute), reset().punished(none), take(10).punished(none), take(1).denied().punished(time.Minute),
		}},
		{name: "PenaltyOfCall", rule: "a call that is denied takes nothing, and has the penalties of its own denials only", policies: penalized(), script: []step{
			reset().by(free), all(take(3), take(8).by(free)), all(take(8).denied().punished(time.Minute), take(1).by(free)),
			left(7), left(2).by(free), take(1).denied().punished(time.Minute),
			pause(2 * time.Hour), charge(10).by(free), all(take(2).punished(none), take(1).by(free).denied()).repeated(2), take(10).punished(none),
		}},
		{name: "PenaltyShadow", rule: "in shadow mode a penalty is counted, and requests pass", policies: shadow, script: []step{
			take(10), take(1).shadowed().punished(time.Minute), pause(30 * time.Second), take(1).shadowed().punished(30 * time.Second),
		}},
		{name: "PenaltyConcurrent", rule: "once a request was denied, all later ones are denied, and concurrent denials start one penalty", policies: penalized(), check: (*subject).concurrentPenalty},
	}
}

// concurrentPenalty takes one and several tokens at once, so that some requests are denied while the key has tokens for
// others.
func (s *subject) concurrentPenalty(p *runtime.Policy) {
	sized(60, p)
	for _, lasts := range []time.Duration{time.Minute, time.Hour, time.Hour} {
		var denied atomic.Bool
		s.race(20, func(i int) bool {
			before := denied.Load()
			d := s.decide(p, runtime.Request{Count: []int64{1, 1, 1, 7}[i%4]})
			switch {
			case d.Allowed && before:
				s.broken("a request that came after a denial was allowed: %+v", d)
			case !d.Allowed && d.PenaltyFor != lasts:
				s.broken("the penalty of a denial lasts for %v, want %v", d.PenaltyFor, lasts)
			case !d.Allowed:
				denied.Store(true)
			}
			return d.Allowed
		})
		if d := s.decide(p, runtime.Request{Op: runtime.Peek}); d.PenaltyFor != lasts {
			s.broken("the penalty lasts for %v after all requests, want %v", d.PenaltyFor, lasts)
		}
		s.clock.Add(3 * time.Hour)
	}
}
