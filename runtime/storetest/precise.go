package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// logs returns the clauses about precise sliding windows.
func logs() []clause {
	return []clause{
		{"PreciseBoundary", "a token of a precise limit is available again exactly a period after it was taken", func(s *subject) {
			for range 10 {
				s.take(precise(), "k", 1)
				s.clock.Add(time.Second)
			}
			s.clock.Add(50*time.Second - 1)
			if d := s.decide(precise(), "k", runtime.Request{Count: 1}); d.Allowed || d.RetryAfter != 1 {
				s.broken("a nanosecond before the first of 10 tokens is available again, the decision is %v, RetryAfter %d", d, d.RetryAfter)
			}
			if d := s.decide(precise(), "k", runtime.Request{Count: 4}); d.Allowed || d.RetryAfter != 3*time.Second+1 {
				s.broken("a nanosecond before the first of 10 tokens is available again, the decision on 4 is %v, RetryAfter %d", d, d.RetryAfter)
			}
			s.clock.Add(1)
			if !s.take(precise(), "k", 1) || s.take(precise(), "k", 1) {
				s.broken("after a period, not exactly one token was available")
			}
		}},
		{"PreciseRefund", "a refund gives tokens back that were taken at its instant or before, and none that were taken later", func(s *subject) {
			first := s.decide(precise(), "k", runtime.Request{Count: 4})
			s.clock.Add(30 * time.Second)
			s.take(precise(), "k", 6)
			s.decide(precise(), "k", runtime.Request{Op: runtime.Refund, Count: 9, TakenAt: first.TakenAt.UnixNano()})
			s.wantValue(precise(), "k", 4)
			s.clock.Add(30 * time.Second)
			s.wantValue(precise(), "k", 4)
			s.clock.Add(30 * time.Second)
			s.wantValue(precise(), "k", 10)
		}},
		{"PreciseWithShards", "a call takes from a log and from shards, or from neither", func(s *subject) {
			// The log needs rows that its first row guards, and the shards need a new transaction when two cannot decide.
			split := shards(runtime.TokenBucket)
			split.Rate, split.Capacity = 15, 15
			allowed := 0
			for range 20 {
				s.clock.Add(100 * time.Millisecond)
				if s.do(call(taking(precise(), "k", 1), taking(split, "k", 1)), call(taking(split, "k", 1)))[0].Allowed() {
					allowed++
				}
			}
			// Both calls take from 15 tokens, so that the eighth pair finds one.
			if allowed != 8 {
				s.broken("%d of 20 calls were allowed, want 8", allowed)
			}
			s.wantValue(precise(), "k", 2)
		}},
		{"PreciseLikeMemStore", "a precise limit decides as it does in a memstore.Store", func(s *subject) { s.compareLogs() }},
		{"PreciseConcurrent", "concurrent takes of a precise limit get exactly the rate", func(s *subject) {
			// In two rounds, of which the second finds a full log.
			for round := range 2 {
				var mu sync.Mutex
				var all sync.WaitGroup
				allowed := 0
				for range 16 {
					all.Go(func() {
						for range 3 {
							s.clock.Add(time.Millisecond)
							if s.take(precise(), "k", 1) {
								mu.Lock()
								allowed++
								mu.Unlock()
							}
						}
					})
				}
				all.Wait()
				if allowed != 10 {
					s.broken("round %d: %d of 10 tokens were taken", round, allowed)
				}
				s.clock.Add(time.Minute)
			}
		}},
	}
}

// compareLogs makes random calls to the store and to a memstore.Store, on logs of several lengths.
func (s *subject) compareLogs() {
	random := rand.New(rand.NewPCG(1, 2))
	reference := &memstore.Store{Clock: s.clock.Now}
	var policies []*runtime.Policy
	for _, rate := range []int64{1, 3, 40, 1000} {
		p := precise()
		p.Name, p.Rate, p.Capacity = fmt.Sprintf("precise %d", rate), rate, rate
		policies = append(policies, p)
	}
	policies = append(policies, bucket())
	keys := []string{"a", "b"}
	for step := range 150 {
		// A minute has passed after some 30 steps, so that logs grow and shrink.
		s.clock.Add(time.Duration(random.Int64N(int64(4 * time.Second))))
		var calls []runtime.Call
		for range 1 + random.IntN(4) {
			p, key := policies[random.IntN(len(policies))], keys[random.IntN(2)]
			q := runtime.Request{Count: 1 + random.Int64N(max(1, p.Rate/8))}
			switch random.IntN(12) {
			case 0:
				q.Op = runtime.Check
			case 1:
				q = runtime.Request{Op: runtime.Refund, Count: q.Count, TakenAt: s.clock.Now().Add(-time.Duration(random.IntN(9)) * time.Second).UnixNano()}
			case 2:
				q.Op = runtime.Charge
			case 3:
				if random.IntN(9) == 0 {
					q = runtime.Request{Op: runtime.Reset}
				}
			case 4, 5:
				other := policies[random.IntN(len(policies))]
				calls = append(calls, call(taking(p, key, q.Count), taking(other, key, 1)))
				continue
			}
			calls = append(calls, call(request(p, key, q)))
		}
		want, err := reference.Do(s.ctx, calls)
		if err != nil {
			s.Fatal(err)
		}
		got := s.do(calls...)
		for i := range want {
			if got[i].At == 0 && got[i].Err == nil && !want[i].Allowed() {
				continue // a cached denial, which may be older than the last take of a smaller count
			}
			if (want[i].Err == nil) != (got[i].Err == nil) || !slices.EqualFunc(got[i].Decisions, want[i].Decisions, Same) {
				s.broken("step %d: the answer to %v of %d is %+v, and %+v of a memstore.Store", step, calls[i].Requests[0].Op, calls[i].Requests[0].Count, got[i], want[i])
			}
		}
	}
}
