package conformance

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// refilled returns limits of every kind that are full again after a minute.
func refilled() []*runtime.Policy {
	all := []*runtime.Policy{
		{Name: "bucket", Kind: runtime.TokenBucket, MaxReserved: 100},
		{Name: "window", Kind: runtime.FixedWindow, MaxReserved: 100},
		{Name: "sliding", Kind: runtime.SlidingWindow},
		{Name: "first use", Kind: runtime.FixedWindow, Start: runtime.StartFirstUse()},
		{Name: "sharded", Kind: runtime.TokenBucket, Shards: 2},
	}
	for _, p := range all {
		p.Rate, p.Capacity, p.Period = 4, 4, time.Minute
	}
	return all
}

// A sweep deletes only rows that have been full for an hour, and only rows of the given limits.
func TestSweepDeletesOnlyFullRows(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []live.Server) {
		clock := storetest.NewClock()
		_, stores := live.Shared(t, upToDate(nodes), clock.Now)
		const keys, usedAgain = 20, 3
		limits, other := refilled(), &runtime.Policy{Name: "other", Kind: runtime.TokenBucket, Rate: 4, Capacity: 4, Period: time.Minute}
		use := func(p *runtime.Policy, keys int) {
			for i := range keys {
				require.NoError(t, limiter.New(stores[i%len(stores)]).Limit(p, live.KeyOf(i)).Require(t.Context()))
			}
		}
		sweep := func() int {
			n := live.Must(stores[0].(*sqlstore.Store).Sweep(t.Context(), limits...))(t)
			return n
		}
		for _, p := range append(limits, other) {
			use(p, keys)
		}
		assert.Zero(t, sweep(), "rows in use")
		clock.Add(59 * time.Minute)
		assert.Zero(t, sweep(), "full, but not yet for an hour")
		clock.Add(4 * time.Minute)
		for _, p := range limits {
			use(p, usedAgain)
		}
		// A key of two shards that is used again may have two rows, one of them full, or one.
		most, least := len(limits)*(keys-usedAgain)+usedAgain, len(limits)*(keys-usedAgain)
		swept := sweep()
		assert.GreaterOrEqual(t, swept, least)
		assert.LessOrEqual(t, swept, most)
		assert.Zero(t, sweep(), "again")
		for _, p := range limits {
			for i, want := range []int64{3, 3, 3, 4, 4} {
				b := live.Must(limiter.New(stores[0]).Limit(p, live.KeyOf(i)).Peek(t.Context()))(t)
				assert.Equal(t, want, b.Remaining, "%s, key %d", p.Name, i)
			}
		}
	})
}

// Forget deletes the rows of one name on every database, over several pages, and no others.
func TestForgetDeletesOnlyTheRowsOfItsLimit(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []live.Server) {
		clock := storetest.NewClock()
		_, stores := live.Shared(t, upToDate(nodes), clock.Now)
		store := stores[0].(*sqlstore.Store)
		gone, kept := refilled()[0], refilled()[1]
		const keys = 1100
		for _, p := range []*runtime.Policy{gone, kept} {
			var calls []runtime.Call
			for i := range keys {
				calls = append(calls, runtime.Call{Requests: []runtime.Request{{Policy: p, Key: live.KeyOf(i).String(), Count: 1}}})
			}
			live.Must(store.Do(t.Context(), calls))(t)
		}
		_, err := store.Forget(t.Context(), gone.Name, kept, gone)
		require.ErrorIs(t, err, runtime.ErrInUse)
		for _, want := range []int{keys, 0} {
			n := live.Must(store.Forget(t.Context(), gone.Name, kept))(t)
			assert.Equal(t, want, n)
		}
		for p, want := range map[*runtime.Policy]int64{gone: 4, kept: 3} {
			b := live.Must(limiter.New(stores[0]).Limit(p, live.KeyOf(keys-1)).Peek(t.Context()))(t)
			assert.Equal(t, want, b.Remaining, p.Name)
		}
	})
}

// Rows are swept while tokens are taken from them. Exactly the capacity is granted.
func TestSweepUnderLoadGrantsExactlyTheCapacity(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []live.Server) {
		clock := storetest.NewClock()
		_, stores := live.Shared(t, upToDate(nodes), clock.Now)
		swept := 0
		for _, p := range refilled() {
			for i := range sweptKeys {
				require.NoError(t, limiter.New(stores[0]).Limit(p, live.KeyOf(i)).Require(t.Context()))
			}
			clock.Add(3 * time.Hour)
			stop := startSweeping(t, stores, p)
			for i, admitted := range takeFromAll(t, stores, p) {
				assert.Equal(t, p.Capacity, admitted, "%s, key %d: admitted", p.Name, i)
			}
			swept += stop()
		}
		t.Logf("%d rows were swept while they were taken from", swept)
		assert.NotZero(t, swept)
	})
}

// sweptKeys is how many keys are swept under load.
const sweptKeys = 100

// startSweeping sweeps by each store until stop is called, which returns how many rows were deleted.
func startSweeping(t *testing.T, stores []runtime.Store, p *runtime.Policy) (stop func() int) {
	var deleted atomic.Int64
	var stopped atomic.Bool
	var all sync.WaitGroup
	for _, store := range stores {
		all.Go(func() {
			for !stopped.Load() {
				n, err := store.(*sqlstore.Store).Sweep(t.Context(), p)
				assert.NoError(t, err)
				deleted.Add(int64(n))
			}
		})
	}
	return func() int {
		stopped.Store(true)
		all.Wait()
		return int(deleted.Load())
	}
}

// takeFromAll takes a token of each key by several callers, and returns how many of them were allowed for each key.
func takeFromAll(t *testing.T, stores []runtime.Store, p *runtime.Policy) []int64 {
	const callers = 6
	var mu sync.Mutex
	var all sync.WaitGroup
	admitted := make([]int64, sweptKeys)
	for c := range callers {
		limits := limiter.New(stores[c%len(stores)])
		all.Go(func() {
			for i := range sweptKeys {
				key := (i + c*sweptKeys/callers) % sweptKeys
				d, err := limits.Limit(p, live.KeyOf(key)).Allow(t.Context())
				assert.NoError(t, err)
				if d.Allowed {
					mu.Lock()
					admitted[key]++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return admitted
}
