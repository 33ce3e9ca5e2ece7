package runtime_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

func TestConcurrentCallersTakeExactlyTheCapacity(t *testing.T) {
	for _, shards := range []int{1, 2, 8} {
		p := bucket("limit", 1000)
		p.Rate, p.Shards = 8, shards
		l := limiter.New(still()).Limit(p, runtime.Key{})
		var allowed atomic.Int64
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				for range 100 {
					if d, err := l.Allow(t.Context()); err == nil && d.Allowed {
						allowed.Add(1)
					}
				}
			})
		}
		all.Wait()
		require.Equal(t, int64(1000), allowed.Load(), "%d shards", shards)
	}
}

func TestResetRowsAreSwept(t *testing.T) {
	now := epoch
	store, p := clocked(&now), bucket("limit", 2)
	do(t, store, call(request(p, reset())))
	require.Zero(t, store.Len(), "a new key needs no reset")
	do(t, store, call(request(p, take(2))))
	do(t, store, call(request(p, reset())))
	require.Equal(t, 2.0, left(t, store, p))
	now = now.Add(time.Hour)
	swept, err := store.Sweep(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, 1, swept)
}

func TestSweepDeletesRowsFullForAnHour(t *testing.T) {
	now := epoch
	store := &memstore.Store{Clock: func() time.Time { return now }}
	p, other := bucket("limit", 2), bucket("other", 2)
	do(t, store, call(request(p, take(2)), request(other, take(2))))
	for _, row := range []struct {
		after time.Duration
		swept int
	}{{0, 0}, {time.Hour, 0}, {time.Hour + 2*time.Second, 1}, {2 * time.Hour, 0}} {
		now = epoch.Add(row.after)
		swept, err := store.Sweep(context.Background(), p)
		require.NoError(t, err)
		require.Equal(t, row.swept, swept, "after %v", row.after)
	}
	require.Equal(t, 1, store.Len(), "rows of other policies are kept")
	swept, err := store.Sweep(context.Background(), other, nil)
	require.ErrorIs(t, err, runtime.ErrInvalidPolicy)
	require.Zero(t, swept)
	require.Equal(t, 1, store.Len(), "nothing is deleted")
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = store.Sweep(cancelled, other)
	require.ErrorIs(t, err, context.Canceled)
}

// During a rolling deploy that lowers a rate, a row that is full for the old limit lacks 90,000 tokens for the new one.
func TestSweepKeepsRowsThatAnyPolicyNeeds(t *testing.T) {
	now := epoch
	store := &memstore.Store{Clock: func() time.Time { return now }}
	fast, slow := bucket("limit", 100_000), bucket("limit", 100_000)
	fast.Rate, fast.Period = 100_000, time.Second
	slow.Rate, slow.Period = 1, runtime.MaxPeriod
	do(t, store, call(request(slow, take(90_000))))
	now = now.Add(2 * time.Hour)
	for _, order := range [][]*runtime.Policy{{fast, slow}, {slow, fast}} {
		swept, err := store.Sweep(t.Context(), order...)
		require.NoError(t, err)
		require.Zero(t, swept)
	}
	require.InDelta(t, 10_000, left(t, store, slow), 1)
	swept, err := store.Sweep(t.Context(), fast)
	require.NoError(t, err)
	require.Equal(t, 1, swept, "the faster policy alone does not need the row")
	require.False(t, meter.Sweepable(nil, runtime.Row{Name: "limit"}, runtime.State{}, 0))
}

// A sweepable row is worth as much as a new key: now, at every later instant, and on a clock that is set back by less
// than an hour.
func TestSweepableRowEqualsNewKey(t *testing.T) {
	swept := 0
	traces(t, 20, nil, func(d dice, r *row) {
		r.step(d.request(r.policy))
		at := r.now + pick(d, 0, int64(time.Hour), int64(d.upTo(10*r.policy.Period)))
		if at > lastInstant || !meter.Sweepable([]*runtime.Policy{&r.policy}, runtime.Row{Name: r.policy.Name}, r.state, at) {
			return
		}
		swept++
		seen, unseen := *r, *newRow(t, r.policy)
		seen.now = at - int64(d.upTo(time.Hour))
		for range 5 {
			unseen.now = seen.now
			q := d.take(r.policy)
			want, got := withoutReceipt(unseen.step(q)), withoutReceipt(seen.step(q))
			want.TakenAt, got.TakenAt = time.Time{}, time.Time{} // after a reset in the future, it is later
			require.Equal(t, want, got, "%+v", r.policy)
			if unseen.state.Exists {
				seen.state.Prev, unseen.state.Prev = previousUse(seen.state), previousUse(unseen.state)
				require.Equal(t, unseen.state, seen.state)
			}
			seen.now += max(0, int64(d.jump(r.policy)))
		}
	})
	require.Positive(t, swept)
}

func TestOnlyKnownFullRowsAreSweepable(t *testing.T) {
	p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Period: time.Second, Capacity: 10, Shards: 2}
	full := runtime.State{TS: epoch.UnixNano(), Exists: true}
	later := epoch.Add(2 * time.Hour).UnixNano()
	require.True(t, meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Shard: 1}, full, later))
	require.False(t, meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Shard: 1}, full, epoch.Add(59*time.Minute).UnixNano()), "it has been full for less than an hour")
	require.False(t, meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Shard: 2}, full, later), "the policy has no such shard")
	require.False(t, meter.Sweepable([]*runtime.Policy{{}}, runtime.Row{}, full, later), "the policy is invalid")
}
