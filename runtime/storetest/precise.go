package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// logs returns the clauses about precise sliding windows.
func logs() []clause {
	p := one(precise())
	return []clause{
		{
			name: "PreciseBoundary", rule: "a token of a precise limit is available again exactly a period after it was taken", policies: p,
			script: script(slices.Repeat([]step{take(1), pause(time.Second)}, 10), []step{
				// A nanosecond before the first token is available again.
				pause(50*time.Second - 1), take(1).deniedFor(1), take(4).deniedFor(3*time.Second + 1), pause(1), take(1), take(1).denied(),
			}),
		},
		{name: "PreciseRefund", rule: "a refund gives tokens back that were taken at its instant or before, and none that were taken later", policies: p, check: func(s *subject, p *runtime.Policy) {
			first := s.decide(p, runtime.Request{Count: 4})
			s.play(p, []step{pause(30 * time.Second), take(6)})
			s.decide(p, runtime.Request{Op: runtime.Refund, Count: 9, TakenAt: first.TakenAt.UnixNano()})
			s.play(p, []step{left(4), pause(30 * time.Second), left(4), pause(30 * time.Second), left(10)})
		}},
		{name: "PreciseWithShards", rule: "a call takes from a log and from shards, or from neither", policies: p, check: func(s *subject, p *runtime.Policy) {
			// The shards need a new transaction when two cannot decide.
			split := sized(15, shards(runtime.TokenBucket))
			allowed := 0
			for range 20 {
				s.clock.Add(100 * time.Millisecond)
				alone := request(split, runtime.Request{Count: 1})
				if s.do(call(request(p, runtime.Request{Count: 1}), alone), call(alone))[0].Allowed() {
					allowed++
				}
			}
			// Both calls take from 15 tokens, so that the eighth pair finds one.
			if allowed != 8 {
				s.broken("%d of 20 calls were allowed, want 8", allowed)
			}
			s.wantValue(p, 2)
		}},
		{name: "PreciseLikeMemStore", rule: "a precise limit decides as it does in a memstore.Store", policies: p, check: (*subject).compareLogs},
	}
}

// compareLogs makes random calls to the store and to a memstore.Store, on logs of several lengths.
func (s *subject) compareLogs(p *runtime.Policy) {
	random := rand.New(rand.NewPCG(1, 2))
	reference := &memstore.Store{Clock: s.clock.Now}
	policies := one(bucket())
	for _, rate := range []int64{1, 3, 40, 1000} {
		log := *p
		policies = append(policies, sized(rate, named(fmt.Sprintf("precise %d", rate), &log)))
	}
	for step := range 150 {
		// A minute has passed after some 30 steps, so that logs grow and shrink.
		s.clock.Add(time.Duration(random.Int64N(int64(4 * time.Second))))
		var calls []runtime.Call
		for range 1 + random.IntN(4) {
			calls = append(calls, randomCall(random, policies, s.clock.Now()))
		}
		want, err := reference.Do(s.ctx, calls)
		if err != nil {
			s.Fatal(err)
		}
		for i, got := range s.do(calls...) {
			if got.Source == runtime.SourceDenyCache {
				// Tokens that have come back since are missing in a cached denial.
				d, now := &got.Decisions[0], want[i].Decisions[0]
				d.Value, d.Remaining = max(d.Value, now.Value), max(d.Remaining, now.Remaining)
			}
			if (want[i].Err == nil) != (got.Err == nil) || !slices.EqualFunc(got.Decisions, want[i].Decisions, Same) {
				s.broken("step %d: the answer to %s is %+v, and %+v of a memstore.Store", step, inWords(calls[i:i+1]), got, want[i])
			}
		}
	}
}

// randomCall returns a call by random policies. Most calls take.
func randomCall(random *rand.Rand, policies []*runtime.Policy, now time.Time) runtime.Call {
	p, key := policies[random.IntN(len(policies))], string("ab"[random.IntN(2)])
	q := runtime.Request{Key: key, Count: 1 + random.Int64N(max(1, p.Rate/8))}
	switch random.IntN(12) {
	case 0:
		q.Op = runtime.Check
	case 1:
		q.Op, q.TakenAt = runtime.Refund, now.Add(-time.Duration(random.IntN(9))*time.Second).UnixNano()
	case 2:
		q.Op = runtime.Charge
	case 3:
		if random.IntN(9) == 0 {
			q.Op, q.Count = runtime.Reset, 0
		}
	case 4, 5:
		other := policies[random.IntN(len(policies))]
		return call(request(p, q), request(other, runtime.Request{Key: key, Count: 1}))
	}
	return call(request(p, q))
}
