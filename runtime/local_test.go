package runtime_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// heapInUse returns how many bytes are in use.
func heapInUse() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// failing runs a test with a limiter whose store can fail, at a fake time.
func failing(t *testing.T, test func(t *testing.T, limits *limiter.Limiter, store *faulty)) {
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: &memstore.Store{}, err: errDown}
		test(t, limiter.New(store), store)
	})
}

func TestFailLocalDecidesByTheSameRule(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		p := onError(runtime.FailLocal)
		l := limits.Reservable(p, runtime.KeyOf(runtime.Int(1)))
		for i, row := range []struct {
			after time.Duration
			want  string
		}{
			{0, "allowed, 2 left, decided locally"},
			{0, "allowed, 1 left, decided locally"},
			{0, "allowed, 0 left, decided locally"},
			{0, "denied, retry after 1s, decided locally"},
			{time.Second, "allowed, 0 left, decided locally"},
			{0, "denied, retry after 1s, decided locally"},
		} {
			time.Sleep(row.after)
			d, err := l.Allow(t.Context())
			require.NoError(t, err)
			require.Equal(t, row.want, d.String(), "row %d", i)
			require.ErrorIs(t, d.FailedLocal, errDown)
			require.NoError(t, d.FailedOpen)
			require.Zero(t, d.TakenAt)
			require.Equal(t, "limit", d.Limit)
		}
		d, err := limits.Reservable(p, runtime.KeyOf(runtime.Int(2))).Allow(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(2), d.Remaining, "each key has a count of its own")

		_, err = l.AllowN(t.Context(), 4)
		require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
		time.Sleep(2 * time.Second)
		d, err = l.AllowUpTo(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, int64(2), d.Taken)
		d, err = l.Check(t.Context())
		require.NoError(t, err)
		require.False(t, d.Allowed)
		for name, err := range map[string]error{
			"Peek":   func() error { _, err := l.Peek(t.Context()); return err }(),
			"Charge": func() error { _, err := l.Charge(t.Context(), 1); return err }(),
			"Refund": func() error { _, err := l.Refund(t.Context(), d); return err }(),
			"Reset":  l.Reset(t.Context()),
		} {
			require.ErrorIs(t, err, errDown, name)
		}
	})
}

func TestStoreDecidesAgainWhenItIsBack(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		l := limits.Limit(onError(runtime.FailLocal), runtime.Key{})
		d, err := l.AllowN(t.Context(), 3)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		store.err = nil
		_, err = l.RefundN(t.Context(), d, 3)
		require.NoError(t, err)
		d, err = l.AllowN(t.Context(), 2)
		require.NoError(t, err)
		require.Equal(t, "allowed, 1 left", d.String(), "the store has not counted the tokens taken from memory")
		store.err = errDown
		time.Sleep(time.Second)
		d, err = l.AllowN(t.Context(), 2)
		require.NoError(t, err)
		require.Equal(t, "denied, retry after 1s, decided locally", d.String(), "the memory has kept its counts")
	})
}

func TestFailLocalWithOthersInOneCall(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		policy := func(name string, o runtime.OnError) limiter.Limit {
			p := bucket(name, 3)
			p.OnError = o
			return limits.Limit(p, runtime.Key{})
		}
		local, second, open := policy("local", runtime.FailLocal), policy("second", runtime.FailLocal), policy("open", runtime.FailOpen)
		ds, err := limits.All(t.Context(), local.N(2), open.N(3), second)
		require.NoError(t, err)
		require.Equal(t, "allowed, uncounted, decided locally", ds.String())
		require.Equal(t, []int64{2, 3, 1}, []int64{ds.Each[0].Taken, ds.Each[1].Taken, ds.Each[2].Taken})
		ds, err = limits.All(t.Context(), second.N(2), open, local.N(2))
		require.NoError(t, err)
		require.Equal(t, `denied by "local", retry after 1s, decided locally`, ds.String())
		require.Equal(t, []int64{0, 0, 0}, []int64{ds.Each[0].Taken, ds.Each[1].Taken, ds.Each[2].Taken})
		d, err := second.AllowN(t.Context(), 2)
		require.NoError(t, err)
		require.True(t, d.Allowed, "when one limit denies, nothing is taken from the others")
		_, err = limits.All(t.Context(), local, policy("closed", runtime.FailClosed))
		require.ErrorIs(t, err, errDown)
	})
}

func TestLocalReservationIsNotRefundedToTheStore(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		l := limits.Reservable(onError(runtime.FailLocal), runtime.Key{})
		r, err := l.ReserveN(t.Context(), 5)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, r.Delay())
		require.NoError(t, r.Cancel(t.Context()), "there is nothing to refund")
		r, err = l.Reserve(t.Context())
		require.NoError(t, err)
		store.err = nil
		require.NoError(t, r.Settle(t.Context(), 2))
		require.Equal(t, 1.0, value(t, l), "the whole use is charged to the store")
		store.err = errDown

		// The memory has -3 tokens, and allows a debt of 3.
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(time.Second)
		time.AfterFunc(500*time.Millisecond, cancel)
		require.ErrorIs(t, l.Wait(ctx), context.Canceled)
		store.err = nil
		require.Equal(t, 2.5, value(t, l), "nothing was refunded")
	})
}

// Callers may invent keys, so the memory is bounded.
func TestLocalMemoryIsBounded(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		p := onError(runtime.FailLocal)
		p.Timeout, p.Period = 0, 24*time.Hour
		take := func(key string) runtime.Decision {
			d, err := limits.Limit(p, runtime.KeyOf(runtime.String(key))).AllowN(t.Context(), 1)
			require.NoError(t, err)
			return d
		}
		before := heapInUse()
		for i := range 150_000 {
			take(fmt.Sprintf("key %d", i))
		}
		require.Less(t, heapInUse()-before, uint64(32<<20))
		require.Equal(t, int64(2), take("key 0").Remaining, "forgotten, so full")
		require.Equal(t, int64(1), take("key 149999").Remaining)
	})
}

// A key begins with what the store has last reported to this process: an exhausted one does not get its capacity again.
func TestFailLocalBeginsWithTheLastReport(t *testing.T) {
	minute := func(kind runtime.Kind, change func(p *runtime.Policy)) *runtime.Policy {
		p := &runtime.Policy{Name: kind.String(), Kind: kind, Rate: 6, Period: time.Minute, Capacity: 6, OnError: runtime.FailLocal}
		change(p)
		return p
	}
	same := func(*runtime.Policy) {}
	for _, row := range []struct {
		policy *runtime.Policy
		// left are the tokens 5, 20, 60 and 120 seconds after 4 of 6 were taken, 10 seconds after the start of a window.
		left [4]int64
	}{
		{minute(runtime.TokenBucket, same), [4]int64{2, 4, 6, 6}},
		{minute(runtime.TokenBucket, func(p *runtime.Policy) { p.Shards = 3 }), [4]int64{2, 4, 6, 6}},
		{minute(runtime.FixedWindow, func(p *runtime.Policy) { p.Start = runtime.StartOffset(0) }), [4]int64{2, 2, 6, 6}},
		{minute(runtime.FixedWindow, func(p *runtime.Policy) { p.Start = runtime.StartFirstUse() }), [4]int64{2, 2, 6, 6}},
		{minute(runtime.FixedWindow, func(p *runtime.Policy) {
			p.Calendar, p.Period = runtime.Calendar{Unit: runtime.Day, Zone: "UTC"}, 24*time.Hour
		}), [4]int64{2, 2, 2, 2}},
		{minute(runtime.SlidingWindow, func(p *runtime.Policy) { p.Start = runtime.StartOffset(0) }), [4]int64{2, 2, 2, 6}},
		{minute(runtime.SlidingWindow, func(p *runtime.Policy) { p.Precise = true }), [4]int64{2, 2, 6, 6}},
	} {
		for i, after := range []time.Duration{5, 20, 60, 120} {
			failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
				now := time.Now()
				time.Sleep(time.Until(now.Truncate(time.Minute).Add(70 * time.Second)))
				store.err = nil
				l := limits.Limit(row.policy, runtime.KeyOf(runtime.Int(1)))
				require.NoError(t, l.RequireN(t.Context(), 4))
				time.Sleep(after * time.Second)
				store.err = errDown
				d, err := l.Check(t.Context())
				require.NoError(t, err)
				require.Equal(t, row.left[i], d.Remaining, "%v after %ds", row.policy, after)
				require.Same(t, row.policy, d.Policy)
				require.ErrorIs(t, d.FailedLocal, errDown)
			})
		}
	}
}

// Whatever has reported the count, the last report counts, and what was taken from memory is not forgotten for it.
func TestReportsOfEveryVerbReachTheMemory(t *testing.T) {
	ctx := context.Background() // of no bubble of synctest
	for name, row := range map[string]struct {
		do   func(l limiter.ReservableLimit, limits *limiter.Limiter, store runtime.Store) error
		left int64
	}{
		"AllowN": {func(l limiter.ReservableLimit, _ *limiter.Limiter, _ runtime.Store) error { return l.RequireN(ctx, 2) }, 1},
		"Charge": {func(l limiter.ReservableLimit, _ *limiter.Limiter, _ runtime.Store) error {
			_, err := l.Charge(ctx, 1)
			return err
		}, 2},
		"Reserve": {func(l limiter.ReservableLimit, _ *limiter.Limiter, _ runtime.Store) error {
			_, err := l.ReserveN(ctx, 5)
			return err
		}, 0},
		"All": {func(l limiter.ReservableLimit, limits *limiter.Limiter, _ runtime.Store) error {
			_, err := limits.All(ctx, l, l.Checked(), l)
			return err
		}, 1},
		"Cancel": {func(l limiter.ReservableLimit, limits *limiter.Limiter, _ runtime.Store) error {
			rs, err := limits.ReserveAll(ctx, l.N(2), l.N(1))
			if err == nil {
				err = rs.Cancel(ctx)
			}
			return err
		}, 3},
		"Reset": {func(l limiter.ReservableLimit, _ *limiter.Limiter, _ runtime.Store) error {
			if err := l.RequireN(ctx, 3); err != nil {
				return err
			}
			return l.Reset(ctx)
		}, 3},
		"Peek of a key that another process has used": {func(l limiter.ReservableLimit, _ *limiter.Limiter, store runtime.Store) error {
			other := limiter.New(store)
			if err := other.Limit(onError(runtime.FailClosed), runtime.Key{}).RequireN(ctx, 2); err != nil {
				return err
			}
			_, err := l.Peek(ctx)
			return err
		}, 1},
		"nothing": {func(limiter.ReservableLimit, *limiter.Limiter, runtime.Store) error { return nil }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
				store.err = nil
				l := limits.Reservable(onError(runtime.FailLocal), runtime.Key{})
				require.NoError(t, row.do(l, limits, store))
				store.err = errDown
				d, err := l.CheckN(t.Context(), 0)
				require.NoError(t, err)
				require.Equal(t, row.left, d.Remaining)
			})
		})
	}
}
