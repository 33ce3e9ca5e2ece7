package limiter_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// value returns the number of tokens left, with the fraction.
func value(t *testing.T, l interface {
	Peek(context.Context) (runtime.Balance, error)
}) float64 {
	t.Helper()
	return must(l.Peek(t.Context())).Value
}

func TestReservationCanBeSettledOnce(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(10), runtime.Key{})
	settle := func(r *limiter.Reservation) error { return r.Settle(t.Context(), 1) }
	cancel := func(r *limiter.Reservation) error { return r.Cancel(t.Context()) }
	for _, twice := range [][2]func(*limiter.Reservation) error{{settle, settle}, {settle, cancel}, {cancel, settle}, {cancel, cancel}} {
		require.NoError(t, l.Reset(t.Context()))
		r := must(l.ReserveN(t.Context(), 5))
		require.NoError(t, twice[0](r))
		before := value(t, l)
		require.ErrorIs(t, twice[1](r), runtime.ErrNotReserved)
		require.Equal(t, before, value(t, l))
	}
}

func TestReservationIsOpenAfterAnError(t *testing.T) {
	store := &faulty{Store: still()}
	l := limiter.New(store).Reservable(reservable(10), runtime.Key{})
	r := must(l.ReserveN(t.Context(), 5))
	store.err = errDown
	require.ErrorIs(t, r.Settle(t.Context(), 1), errDown)
	store.err = nil
	require.ErrorIs(t, r.Settle(t.Context(), -1), runtime.ErrInvalidCount)
	require.Equal(t, 5.0, value(t, l))
	require.NoError(t, r.Cancel(t.Context()))
	require.Equal(t, 10.0, value(t, l))
}

func TestDeniedReservationHoldsNothing(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(10), runtime.Key{})
	must(l.ReserveN(t.Context(), 20))
	r := must(l.Reserve(t.Context()))
	require.False(t, r.Allowed)
	require.Equal(t, time.Second, r.RetryAfter)
	require.Equal(t, runtime.Never, r.Delay(), "a denied reservation has no tokens to wait for")
	require.Equal(t, 11*time.Second, r.UsableAfter, "the delay that it would have had")
	require.ErrorIs(t, r.Cancel(t.Context()), runtime.ErrNotReserved)
	require.Equal(t, -10.0, value(t, l))
}

func TestConcurrentSettlesCountOnce(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(10), runtime.Key{})
	r := must(l.ReserveN(t.Context(), 5))
	var settled atomic.Int32
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if r.Settle(t.Context(), 2) == nil {
				settled.Add(1)
			}
		})
	}
	all.Wait()
	require.Equal(t, int32(1), settled.Load())
	require.Equal(t, 8.0, value(t, l))
}

func TestRefundOfADecisionThatTookNothing(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(10), runtime.Key{})
	require.NoError(t, l.RequireN(t.Context(), 10))
	denied := must(l.Allow(t.Context()))
	checked := must(l.Check(t.Context()))
	uncounted := runtime.Decision{Allowed: true, FailedOpen: errDown}
	for _, d := range []runtime.Decision{{}, denied, checked, uncounted} {
		require.Zero(t, must(l.RefundN(t.Context(), d, 5)).Remaining)
	}
}

// A decision is refunded once, for at most what it has taken, also by its copies and for leased tokens.
func TestDecisionIsRefundedOnce(t *testing.T) {
	now := epoch
	limits := limiter.New(clocked(&now))
	l := limits.Reservable(reservable(10), runtime.Key{})
	require.NoError(t, l.RequireN(t.Context(), 5))
	d := must(l.AllowN(t.Context(), 2))
	for range 2 {
		require.Equal(t, 5.0, must(l.RefundN(t.Context(), d, 10)).Value)
	}
	ds := must(limits.All(t.Context(), l.N(2)))
	one, _ := ds.Settlement(0)
	other, _ := ds.Settlement(0)
	require.NoError(t, one.Settle(t.Context(), 1))
	require.ErrorIs(t, other.Settle(t.Context(), 1), runtime.ErrNotReserved)
	require.Equal(t, 4.0, must(l.RefundN(t.Context(), ds.Each[0], 2)).Value)

	rs := must(limits.ReserveAll(t.Context(), l.N(2)))
	must(l.RefundN(t.Context(), rs.Each[0], 1))
	require.ErrorIs(t, rs.Cancel(t.Context()), runtime.ErrNotReserved)
	require.Equal(t, 3.0, value(t, l))
}

// A reservation of a transaction is settled in it before the commit, and in the store afterwards.
func TestReservationOfATransactionIsSettledAfterIt(t *testing.T) {
	for _, many := range []bool{false, true} {
		now := epoch
		store := clocked(&now)
		limits := limiter.New(store)
		l := limits.Reservable(reservable(10), runtime.Key{})
		reserve := func(tx *memstore.Tx) (settle func(context.Context) error) {
			inTx := limits.WithTx(tx)
			if many {
				return must(inTx.ReserveAll(t.Context(), inTx.Reservable(reservable(10), runtime.Key{}).N(4))).Cancel
			}
			return must(inTx.Reservable(reservable(10), runtime.Key{}).ReserveN(t.Context(), 4)).Cancel
		}
		tx := store.Begin()
		require.NoError(t, reserve(tx)(t.Context()))
		require.NoError(t, tx.Commit())
		require.Equal(t, 10.0, value(t, l), "cancelled before the commit")

		tx = store.Begin()
		cancel := reserve(tx)
		require.NoError(t, tx.Commit())
		require.Equal(t, 6.0, value(t, l))
		now = now.Add(time.Second)
		require.NoError(t, cancel(t.Context()))
		require.Equal(t, 10.0, value(t, l), "cancelled after it")

		tx = store.Begin()
		cancel = reserve(tx)
		require.NoError(t, tx.Rollback())
		require.NoError(t, l.RequireN(t.Context(), 4))
		require.ErrorIs(t, cancel(t.Context()), runtime.ErrRolledBack)
		require.Equal(t, 6.0, value(t, l), "nothing was taken")
	}
}

func TestSettlementCorrectsWhatAllHasTaken(t *testing.T) {
	now := epoch
	limits := limiter.New(clocked(&now))
	calls := &runtime.Policy{Name: "calls", Kind: runtime.FixedWindow, Rate: 10, Period: time.Hour, Capacity: 10}
	tokens := &runtime.Policy{Name: "tokens", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 1000, MaxReserved: 1000}
	key := runtime.KeyOf(runtime.String("team"))
	left := func() float64 { return value(t, limits.Limit(tokens, key)) }

	ds := must(limits.All(t.Context(), limits.Limit(calls, runtime.Key{}).Checked(), limits.Reservable(tokens, key).N(900)))
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

	ds = must(limits.Group(limits.Reservable(tokens, key).N(1)).Allow(t.Context()))
	r, ok = ds.Settlement(0)
	require.True(t, ok)
	require.NoError(t, r.Settle(t.Context(), 51))
	require.EqualValues(t, 869, left(), "the use beyond what was taken is charged")

	ds = must(limits.All(t.Context(), limits.Limit(calls, runtime.Key{}), limits.Reservable(tokens, key).N(1000)))
	require.False(t, ds.Allowed)
	_, ok = ds.Settlement(0)
	require.False(t, ok, "a denied call has taken nothing")

	rs := must(limits.ReserveAll(t.Context(), limits.Reservable(tokens, key).N(1000)))
	_, ok = rs.Settlement(0)
	require.False(t, ok, "reservations are settled by At")
}

// The tokens left of a lease are not those of the key, which lacked 900.
func TestSettlementOfLeasedTokens(t *testing.T) {
	now := epoch
	limits := limiter.New(clocked(&now))
	limit := limits.Reservable(&runtime.Policy{
		Name: "tokens", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 1000, MaxReserved: 1000,
		Lease: runtime.Lease{Tokens: 100, For: time.Second},
	}, runtime.Key{})
	ds := must(limits.All(t.Context(), limit.N(900)))
	now = now.Add(20 * time.Second)
	r, ok := ds.Settlement(0)
	require.True(t, ok)
	require.NoError(t, r.Settle(t.Context(), 100))
	require.Equal(t, 100+20+800.0, value(t, limit))
}

// A key with its own windows keeps them for its refund.
func TestSettlementInTheWindowsOfTheKey(t *testing.T) {
	zone := must(time.LoadLocation("Pacific/Auckland"))
	ctx, since := t.Context(), time.Date(2020, 9, 6, 4, 0, 0, 0, time.UTC)
	team := runtime.KeyOf(runtime.String("team"))
	for _, row := range []struct {
		key      runtime.Key
		calendar runtime.Calendar
	}{
		{team.In(zone), runtime.Calendar{Unit: runtime.Day, ZonePerKey: true}},
		{team.Since(since), runtime.Calendar{Unit: runtime.Month, Zone: "America/Santiago", Anniversary: true}},
		{team.In(zone).Since(since), runtime.Calendar{Unit: runtime.Month, ZonePerKey: true, Anniversary: true}},
	} {
		policy := runtimetest.Once(row.calendar)
		policy.Rate, policy.Capacity, policy.MaxReserved = 100, 100, 100
		limits := limiter.New(still())
		limit := limits.Reservable(&policy, row.key)
		for _, settle := range []func(ds limiter.Decisions, rs *limiter.Reservations) error{
			func(ds limiter.Decisions, _ *limiter.Reservations) error {
				r, ok := ds.Settlement(0)
				require.True(t, ok)
				return r.Settle(ctx, 0)
			},
			func(_ limiter.Decisions, rs *limiter.Reservations) error { return rs.Cancel(ctx) },
			func(_ limiter.Decisions, rs *limiter.Reservations) error { return rs.At(0).Settle(ctx, 0) },
		} {
			require.NoError(t, limit.Reset(ctx))
			require.NoError(t, settle(must(limits.All(ctx, limit.N(10))), must(limits.ReserveAll(ctx, limit.N(10)))))
			require.Equal(t, 90.0, value(t, limit))
		}
	}
}

// A reservation waits for its tokens, and leaves nothing behind if its context ends before.
func TestReservationWaits(t *testing.T) {
	for _, row := range []struct {
		name string
		// after is how long after the reservation Wait is called, and cancel when its context is cancelled, 0 for never.
		after, deadline, cancel time.Duration
		jitter                  time.Duration
		charged, n              int64
		want                    error
		takes                   time.Duration
		left                    float64
	}{
		{name: "at once", n: 2, left: 1},
		{name: "until they have accrued", n: 5, takes: 2 * time.Second, left: 0},
		{name: "for the rest", n: 5, after: 1500 * time.Millisecond, takes: 500 * time.Millisecond, left: 0},
		{name: "not if they have accrued meanwhile", n: 5, after: 3 * time.Second, left: 1},
		{name: "with a deadline after it", n: 5, deadline: 2001 * time.Millisecond, takes: 2 * time.Second, left: 0},
		{name: "the deadline is before", n: 5, deadline: 1999 * time.Millisecond, want: context.DeadlineExceeded, left: 3},
		{name: "cancelled", n: 5, cancel: time.Second, want: context.Canceled, takes: time.Second, left: 3},
		{name: "the jitter is left out", n: 5, jitter: time.Hour, deadline: 2001 * time.Millisecond, takes: 2 * time.Second, left: 0},
		{name: "denied", charged: 1, n: 6, want: runtime.ErrLimited, left: 2},
	} {
		for _, kind := range []string{"one", "several", "resumed"} {
			synctest.Test(t, func(t *testing.T) {
				limits := limiter.New(&memstore.Store{})
				p := reservable(3)
				p.Jitter = row.jitter
				l, other := limits.Reservable(p, runtime.Key{}), limits.Limit(bucket("other", 1), runtime.Key{})
				must(l.Charge(t.Context(), row.charged))
				var wait func(context.Context) error
				if kind == "several" {
					wait = must(limits.ReserveAll(t.Context(), l.N(row.n), other)).Wait
				} else {
					r := must(l.ReserveN(t.Context(), row.n))
					if kind == "resumed" && r.Allowed {
						r = must(l.Resume(must(r.MarshalText())))
					}
					wait = r.Wait
				}
				time.Sleep(row.after)
				ctx, cancel := context.WithCancel(t.Context())
				if row.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, row.deadline)
				}
				defer cancel()
				if row.cancel > 0 {
					time.AfterFunc(row.cancel, cancel)
				}
				var err error
				took := elapsed(func() { err = wait(ctx) })
				require.True(t, errors.Is(err, row.want), "%s, %s: %v", row.name, kind, err)
				require.Equal(t, row.takes, took, "%s, %s", row.name, kind)
				require.InDelta(t, row.left, value(t, l), 1e-6, "%s, %s", row.name, kind)
				if row.want != nil && kind == "several" {
					require.InDelta(t, 1, value(t, other), 1e-6, row.name)
				}
			})
		}
	}
}

// Wait settles nothing that was settled already.
func TestWaitOfASettledReservation(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(3), runtime.Key{})
	r := must(l.ReserveN(t.Context(), 5))
	require.NoError(t, r.Settle(t.Context(), 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := r.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, `limit "limit": context canceled`)
	require.EqualValues(t, 2, value(t, l))
}
