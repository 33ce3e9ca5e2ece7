package conformance

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// Eight processes take from three limits together, in both orders of the requests, and others from each alone. No call takes
// in part, none is lost, and none fails, as it would in a deadlock.
func TestCallsOfSeveralLimitsTakeAllOrNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db, table := s.Open(t), live.NewTable()
		once := func(name string, capacity int64) *runtime.Policy {
			return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: runtime.MaxPeriod, Capacity: capacity}
		}
		policies := []*runtime.Policy{once("a", 500), once("b", 300), once("c", 400)}
		limits := limiter.New(s.StoreIn(t, db, table, nil))
		items := func(l *limiter.Limiter) (all []limiter.Item) {
			for _, p := range policies {
				all = append(all, l.Limit(p, runtime.Key{}).N(1))
			}
			return all
		}
		live.Must(limits.All(t.Context(), items(limits)...))(t)
		together, alone := atomic.Int64{}, [3]atomic.Int64{}
		together.Add(1)
		var workers sync.WaitGroup
		for w := range 8 {
			l := limiter.New(s.StoreIn(t, s.Open(t), table, nil))
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
			left := live.Must(limits.Limit(p, runtime.Key{}).Peek(t.Context()))(t)
			assert.Equal(t, p.Capacity-together.Load()-alone[n].Load(), left.Remaining, p.Name)
		}
		assert.Equal(t, policies[1].Capacity, together.Load()+alone[1].Load(), "b is used up")
	})
}

// Many callers of two processes take from the limit of a user and from one of all together, in batches, until both limits
// deny. No call takes in part, and none is lost.
func TestBatchesOfCallsOfSeveralLimitsTakeAllOrNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		const users, perUser, inAll = 5, 120, 500
		db, table := s.Open(t), live.NewTable()
		user := &runtime.Policy{Name: "user", Kind: runtime.TokenBucket, Rate: 1, Period: runtime.MaxPeriod, Capacity: perUser}
		all := &runtime.Policy{Name: "all", Kind: runtime.TokenBucket, Rate: 1, Period: runtime.MaxPeriod, Capacity: inAll}
		key := func(i int) runtime.Key { return runtime.KeyOf(runtime.Int(i)) }
		limits := limiter.New(s.StoreIn(t, db, table, nil))
		var took [users]atomic.Int64
		var workers sync.WaitGroup
		for range 2 {
			l := limiter.New(s.StoreIn(t, s.Open(t), table, nil))
			for w := range 16 {
				workers.Go(func() {
					for i := range 25 {
						of := (w + i) % users
						d, err := l.All(t.Context(), l.Limit(user, key(of)).N(1), l.Limit(all, runtime.Key{}).N(1))
						if assert.NoError(t, err) && d.Allowed {
							took[of].Add(1)
						}
					}
				})
			}
		}
		workers.Wait()
		total := int64(0)
		for i := range users {
			left, err := limits.Limit(user, key(i)).Peek(t.Context())
			require.NoError(t, err)
			assert.Equal(t, perUser-took[i].Load(), left.Remaining)
			total += took[i].Load()
		}
		left, err := limits.Limit(all, runtime.Key{}).Peek(t.Context())
		require.NoError(t, err)
		assert.Equal(t, inAll-total, left.Remaining)
		assert.EqualValues(t, inAll, total)
	})
}

// With pgx, a batch of calls of several limits is one round trip, and its decisions are those of the calls one after the
// other.
func TestBatchOfCallsOfSeveralLimitsIsOneRoundTrip(t *testing.T) {
	for _, s := range named(t, "postgres-pgx") {
		live.AtOnce(t, s.Name, func(t *testing.T) {
			store, p := counted(t, s)
			a := &runtime.Policy{Name: "a", Kind: runtime.TokenBucket, Rate: 1, Period: runtime.MaxPeriod, Capacity: 100}
			b := &runtime.Policy{Name: "b", Kind: runtime.FixedWindow, Rate: 200, Period: runtime.MaxPeriod, Capacity: 200}
			take := func(of *runtime.Policy, key string) runtime.Request {
				return runtime.Request{Policy: of, Key: key, Count: 1}
			}
			calls := []runtime.Call{
				{Requests: []runtime.Request{take(b, "x"), take(a, "x")}},
				{Requests: []runtime.Request{take(a, "y"), take(b, "x")}},
				{Requests: []runtime.Request{take(a, "x"), take(a, "y")}},
			}
			do := func() []runtime.Answer {
				answers, err := store.Do(t.Context(), calls)
				require.NoError(t, err)
				return answers
			}
			do()
			do()
			before := p.requests.Load()
			answers := do()
			require.EqualValues(t, 1, p.requests.Load()-before)
			for i, want := range [][]int64{{195, 95}, {95, 194}, {94, 94}} {
				for j, remaining := range want {
					require.True(t, answers[i].Decisions[j].Allowed)
					require.Equal(t, remaining, answers[i].Decisions[j].Remaining, "%d %d", i, j)
				}
			}

			// Of a call that is denied and one that shares a row with it, none takes but as the locked transaction has it.
			calls[0].Requests[1].Count, before = 95, p.refused.Load()
			answers = do()
			require.Equal(t, before, p.refused.Load(), "a denial is in the log of the server")
			require.False(t, answers[0].Allowed())
			require.True(t, answers[1].Allowed())
			require.EqualValues(t, 193, answers[1].Decisions[1].Remaining)
			require.True(t, answers[2].Allowed())
		})
	}
}
