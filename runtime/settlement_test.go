package runtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

func TestSettlementCorrectsWhatAllHasTaken(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	limits := limiter.New(&memstore.Store{Clock: func() time.Time { return now }})
	calls := &runtime.Policy{Name: "calls", Kind: runtime.FixedWindow, Rate: 10, Period: time.Hour, Capacity: 10}
	tokens := &runtime.Policy{Name: "tokens", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 1000, MaxReserved: 1000}
	key := runtime.KeyOf(runtime.String("team"))
	left := func() int64 {
		b, err := limits.Limit(tokens, key).Peek(t.Context())
		require.NoError(t, err)
		return b.Remaining
	}

	ds, err := limits.All(t.Context(), limits.Limit(calls, runtime.Key{}).Checked(), limits.Reservable(tokens, key).N(900))
	require.NoError(t, err)
	require.Equal(t, "", ds.Key(0).String())
	require.Equal(t, "team", ds.Key(1).String())
	_, ok := ds.Settlement(0)
	require.False(t, ok, "a checked item has taken nothing")
	r, ok := ds.Settlement(1)
	require.True(t, ok)
	now = now.Add(20 * time.Second)
	require.NoError(t, r.Settle(t.Context(), 100))
	// 900 of 1,000 left, and 20 have accrued.
	require.EqualValues(t, 920, left())
	require.ErrorIs(t, r.Settle(t.Context(), 100), runtime.ErrNotReserved)

	ds, err = limits.Group(limits.Reservable(tokens, key).N(1)).Allow(t.Context())
	require.NoError(t, err)
	r, ok = ds.Settlement(0)
	require.True(t, ok)
	require.NoError(t, r.Settle(t.Context(), 51))
	require.EqualValues(t, 869, left(), "the use beyond what was taken is charged")

	ds, err = limits.All(t.Context(), limits.Limit(calls, runtime.Key{}), limits.Reservable(tokens, key).N(1000))
	require.NoError(t, err)
	require.False(t, ds.Allowed)
	_, ok = ds.Settlement(0)
	require.False(t, ok, "a denied call has taken nothing")

	rs, err := limits.ReserveAll(t.Context(), limits.Reservable(tokens, key).N(1000))
	require.NoError(t, err)
	_, ok = rs.Settlement(0)
	require.False(t, ok, "reservations are settled by At")
}

// A store that has failed has counted nothing. What was used is charged once when it is back, however often it is settled.
func TestSettlementOfAFailedStoreChargesOnce(t *testing.T) {
	store := &faulty{Store: &memstore.Store{}}
	p := &runtime.Policy{Name: "open", Kind: runtime.FixedWindow, Rate: 10, Period: time.Hour, Capacity: 10, OnError: runtime.FailOpen}
	limits := limiter.New(store)
	limit := limits.Limit(p, runtime.Key{})
	store.err = errDown
	ds, err := limits.All(t.Context(), limit.N(5))
	require.NoError(t, err)
	store.err = nil
	for _, want := range []error{nil, runtime.ErrNotReserved} {
		r, ok := ds.Settlement(0)
		require.True(t, ok)
		require.ErrorIs(t, r.Settle(t.Context(), 3), want)
	}
	b, err := limit.Peek(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7, b.Remaining)
}

// The tokens left of a lease are not those of the key, which lacked 900.
func TestSettlementOfLeasedTokens(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	limits := limiter.New(&memstore.Store{Clock: func() time.Time { return now }})
	limit := limits.Reservable(&runtime.Policy{
		Name: "tokens", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 1000, MaxReserved: 1000,
		Lease: runtime.Lease{Tokens: 100, For: time.Second},
	}, runtime.Key{})
	ds, err := limits.All(t.Context(), limit.N(900))
	require.NoError(t, err)
	now = now.Add(20 * time.Second)
	r, ok := ds.Settlement(0)
	require.True(t, ok)
	require.NoError(t, r.Settle(t.Context(), 100))
	b, err := limit.Peek(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 100+20+800, b.Remaining)
}

// A key with its own windows keeps them for its refund.
func TestSettlementInTheWindowsOfTheKey(t *testing.T) {
	for _, calendar := range []runtime.Calendar{
		{Unit: runtime.Day, ZonePerKey: true},
		{Unit: runtime.Month, Zone: "America/Santiago", Anniversary: true},
		{Unit: runtime.Month, ZonePerKey: true, Anniversary: true},
	} {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		limits := limiter.New(&memstore.Store{Clock: func() time.Time { return now }})
		policy := &runtime.Policy{
			Name: "tokens", Kind: runtime.FixedWindow, Rate: 100, Period: calendar.Period(), Capacity: 100, MaxReserved: 100, Calendar: calendar,
		}
		zone, err := time.LoadLocation("Pacific/Auckland")
		require.NoError(t, err)
		key := runtime.KeyOf(runtime.String("team"))
		if calendar.ZonePerKey {
			key = key.In(zone)
		}
		if calendar.Anniversary {
			key = key.Since(time.Date(2020, 9, 6, 4, 0, 0, 0, time.UTC))
		}
		limit := limits.Reservable(policy, key)
		peek := func() int64 {
			b, err := limit.Peek(t.Context())
			require.NoError(t, err)
			return b.Remaining
		}
		ds, err := limits.All(t.Context(), limit.N(60))
		require.NoError(t, err)
		r, ok := ds.Settlement(0)
		require.True(t, ok)
		require.NoError(t, r.Settle(t.Context(), 10))
		require.EqualValues(t, 90, peek())

		rs, err := limits.ReserveAll(t.Context(), limit.N(60))
		require.NoError(t, err)
		require.NoError(t, rs.Cancel(t.Context()))
		require.EqualValues(t, 90, peek())
		rs, err = limits.ReserveAll(t.Context(), limit.N(60))
		require.NoError(t, err)
		require.NoError(t, rs.At(0).Settle(t.Context(), 0))
		require.EqualValues(t, 90, peek())
	}
}
