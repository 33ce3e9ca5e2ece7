package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// concurrent returns the clauses about concurrent callers, and callers that give up.
func concurrent() []clause {
	p, cancelled := one(bucket()), one(shards(runtime.TokenBucket))
	var basics []*runtime.Policy
	for _, kind := range tokenKinds() {
		basics, cancelled = append(basics, basic(kind)), append(cancelled, basic(kind))
	}
	return []clause{
		{name: "Cancelled", rule: "a request with an ended context takes nothing, and the error is that of the context", policies: basics, check: (*subject).cancelled},
		{
			name: "CancelledMidway", rule: "a request cancelled midway takes its tokens or nothing, and allowed requests have taken theirs",
			policies: cancelled, check: (*subject).cancelledMidway,
		},
		{
			name: "Concurrent", rule: "concurrent requests for one key take exactly the tokens that it has", policies: slices.Concat(kinds(), sharded(), leased()),
			check: func(s *subject, p *runtime.Policy) {
				sized(100, p)
				s.wantAdmitted(p, 100, 100, s.race(10, func(int) bool { return s.take(p, 1) }))
			},
		},
		{
			name: "ConcurrentUpTo", rule: "concurrent requests for up to some tokens take exactly the tokens that the key has",
			policies: append(kinds(), shards(runtime.TokenBucket)), check: func(s *subject, p *runtime.Policy) {
				sized(1000, p)
				var taken atomic.Int64
				s.race(10, func(i int) bool {
					d := s.decide(p, runtime.Request{Op: runtime.TakeUpTo, Count: int64(1 + i%7)})
					taken.Add(d.Taken)
					return d.Allowed
				})
				s.wantAdmitted(p, 1000, 1000, taken.Load())
			},
		},
		{name: "ConcurrentFirstUse", rule: "concurrent first requests for different keys do not disturb each other", policies: p, check: func(s *subject, p *runtime.Policy) {
			// Inserts of new rows take other locks than updates: on some databases they deadlock.
			const all = 4 * goroutines
			s.wantAdmitted(p, all, all, s.race(4, func(i int) bool {
				return s.decide(p, runtime.Request{Key: runtime.KeyOf(runtime.Int(i)).String(), Count: 1}).Allowed
			}))
		}},
		{name: "ConcurrentRefunds", rule: "concurrent takes and refunds neither lose nor double tokens", policies: p, check: func(s *subject, p *runtime.Policy) {
			s.race(10, func(int) bool {
				if s.take(p, 1) {
					s.decide(p, runtime.Request{Op: runtime.Refund, Count: 1})
				}
				return true
			})
			s.wantValue(p, 10)
		}},
		{name: "PreciseConcurrent", rule: "concurrent takes of a precise limit get exactly the rate", policies: one(precise()), check: func(s *subject, p *runtime.Policy) {
			// In two rounds, of which the second finds a full log.
			for range 2 {
				s.wantAdmitted(p, 10, 10, s.race(1, func(int) bool {
					s.clock.Add(time.Millisecond)
					return s.take(p, 1)
				}))
				s.clock.Add(time.Minute)
			}
		}},
	}
}

// concurrentCalls returns the clauses about concurrent calls with several requests.
func concurrentCalls() []clause {
	return []clause{
		{
			name: "ConcurrentPairs", rule: "calls for two limits in opposite orders do not deadlock, and take exactly the tokens that they have",
			policies: one(sized(60, bucket())), check: func(s *subject, p *runtime.Policy) {
				b := sized(100, window())
				s.wantAdmitted(p, 60, 60, s.race(8, func(i int) bool {
					return s.together(i%2 == 0, request(p, runtime.Request{Count: 1}), request(b, runtime.Request{Count: 1}))
				}))
				s.play(p, []step{left(0), left(40).by(b)})
			},
		},
		{
			name: "ConcurrentGroups", rule: "concurrent calls with takes, reservations and checks take from all of their limits or from none",
			policies: one(sized(30, bucket())), check: (*subject).concurrentGroups,
		},
	}
}

// goroutines is the number of concurrent callers.
const goroutines = 64

// race calls try the given number of times in each of many goroutines, with a different i each time, and returns how
// often it returned true.
func (s *subject) race(times int, try func(i int) bool) int64 {
	var admitted atomic.Int64
	atOnce(goroutines, times, func(i int) {
		if try(i) {
			admitted.Add(1)
		}
	})
	return admitted.Load()
}

// atOnce calls do the given number of times in each of some goroutines, of which the first has the first numbers.
func atOnce(goroutines, times int, do func(i int)) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range times {
				do(g*times + i)
			}
		})
	}
	wg.Wait()
}

func (s *subject) wantAdmitted(p *runtime.Policy, least, most, got int64) {
	s.Helper()
	if got < least || got > most {
		s.broken("%s, %d shards: %d were admitted, want %d to %d", p.Name, p.Shards, got, least, most)
	}
}

// together makes one call, and reports whether it was allowed.
func (s *subject) together(reversed bool, requests ...runtime.Request) bool {
	if reversed {
		slices.Reverse(requests)
	}
	return s.do(call(requests...))[0].Allowed()
}

func (s *subject) concurrentGroups(p *runtime.Policy) {
	b, gate := sized(100, window()), sized(40, named("gate", window()))
	p.MaxReserved = 30
	admitted := s.race(8, func(i int) bool {
		// Whoever takes from the gate, and whoever only checks it, also takes from both others.
		pass := request(gate, runtime.Request{Op: runtime.Op(i % 2), Count: 1})
		return s.together(i%3 == 0, request(p, runtime.Request{Count: 1, Reserve: true}), request(b, runtime.Request{Count: 1}), pass)
	})
	// Each takes one of 60, and until the gate has no token, some take one of its 40.
	s.wantAdmitted(p, 40, 60, admitted)
	s.play(p, []step{left(float64(30 - admitted)), left(float64(100 - admitted)).by(b)})
}

func (s *subject) cancelled(p *runtime.Policy) {
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	for _, op := range []runtime.Op{runtime.Take, runtime.Charge} {
		if _, err := s.store.Do(ended, []runtime.Call{call(request(p, runtime.Request{Op: op, Count: 5}))}); !errors.Is(err, context.Canceled) {
			s.broken("the error is %v", err)
		}
	}
	s.wantValue(p, 10)
}

func (s *subject) cancelledMidway(p *runtime.Policy) {
	sized(100_000, p)
	var requested atomic.Int64
	allowed := s.race(30, func(int) bool {
		requested.Add(1)
		ctx, cancel := context.WithTimeout(s.ctx, rand.N(200*time.Microsecond))
		defer cancel()
		answers, err := s.store.Do(ctx, []runtime.Call{call(request(p, runtime.Request{Count: 1}))})
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			s.broken("the error is %v", err)
		}
		return err == nil && answers[0].Allowed()
	})
	// The tokens of a request with an error may be taken or not, but no more than those.
	left := s.decide(p, runtime.Request{Op: runtime.Peek}).Value
	if left > float64(100_000-allowed) || left < float64(100_000-requested.Load()) {
		s.broken("%s: %v tokens are left after %d of %d requests for one were allowed", p.Name, left, allowed, requested.Load())
	}
}
