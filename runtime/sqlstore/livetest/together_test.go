package livetest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Eight processes take from three limits together, in both orders of the requests, and others from each alone. No call takes in
// part, none is lost, and none fails, as it would in a deadlock.
func TestCallsOfSeveralLimitsTakeAllOrNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db, table := s.open(t), newTable()
		once := func(name string, capacity int64) *runtime.Policy {
			return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: runtime.MaxPeriod, Capacity: capacity}
		}
		policies := []*runtime.Policy{once("a", 500), once("b", 300), once("c", 400)}
		limits := limiter.New(s.storeIn(t, db, table, nil))
		items := func(l *limiter.Limiter) (all []limiter.Item) {
			for _, p := range policies {
				all = append(all, l.Limit(p, runtime.Key{}).N(1))
			}
			return all
		}
		must(limits.All(t.Context(), items(limits)...))(t)
		together, alone := atomic.Int64{}, [3]atomic.Int64{}
		together.Add(1)
		var workers sync.WaitGroup
		for w := range 8 {
			l := limiter.New(s.storeIn(t, s.open(t), table, nil))
			workers.Go(func() {
				for i := range 60 {
					all := items(l)
					if w%2 == 0 {
						all[0], all[2] = all[2], all[0]
					}
					d, err := l.All(t.Context(), all...)
					if !assert.NoError(t, err) {
						return
					}
					if d.Allowed {
						together.Add(1)
					}
					if n := (w + i) % 3; i%4 == 0 {
						d, err := l.Limit(policies[n], runtime.Key{}).Allow(t.Context())
						if assert.NoError(t, err) && d.Allowed {
							alone[n].Add(1)
						}
					}
				}
			})
		}
		workers.Wait()
		for n, p := range policies {
			left := must(limits.Limit(p, runtime.Key{}).Peek(t.Context()))(t)
			assert.Equal(t, p.Capacity-together.Load()-alone[n].Load(), left.Remaining, p.Name)
		}
		assert.Equal(t, policies[1].Capacity, together.Load()+alone[1].Load(), "b is used up")
	})
}
