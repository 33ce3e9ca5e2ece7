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
)

// value returns the number of tokens left, with the fraction.
func value(t *testing.T, l limiter.ReservableLimit) float64 {
	t.Helper()
	b, err := l.Peek(t.Context())
	require.NoError(t, err)
	return b.Value
}

func TestSettleRefundsOrCharges(t *testing.T) {
	for _, row := range []struct {
		name           string
		reserved, used int64
		left           float64
	}{
		{"none", 5, 0, 10},
		{"less", 5, 2, 8},
		{"all", 5, 5, 5},
		{"more", 5, 8, 2},
		{"more than the capacity", 5, 30, -20},
		{"less of tokens reserved ahead", 15, 12, -2},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := limiter.New(still()).Reservable(reservable(10), runtime.Key{})
			r, err := l.ReserveN(t.Context(), row.reserved)
			require.NoError(t, err)
			require.NoError(t, r.Settle(t.Context(), row.used))
			require.Equal(t, row.left, value(t, l))
		})
	}
}

func TestReservationCanBeSettledOnce(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(10), runtime.Key{})
	settle := func(r *limiter.Reservation) error { return r.Settle(t.Context(), 1) }
	cancel := func(r *limiter.Reservation) error { return r.Cancel(t.Context()) }
	for _, twice := range [][2]func(*limiter.Reservation) error{{settle, settle}, {settle, cancel}, {cancel, settle}, {cancel, cancel}} {
		require.NoError(t, l.Reset(t.Context()))
		r, err := l.ReserveN(t.Context(), 5)
		require.NoError(t, err)
		require.NoError(t, twice[0](r))
		before := value(t, l)
		require.ErrorIs(t, twice[1](r), runtime.ErrNotReserved)
		require.Equal(t, before, value(t, l))
	}
}

func TestReservationIsOpenAfterAnError(t *testing.T) {
	store := &flaky{Store: still()}
	l := limiter.New(store).Reservable(reservable(10), runtime.Key{})
	r, err := l.ReserveN(t.Context(), 5)
	require.NoError(t, err)
	store.err = errBroken
	require.ErrorIs(t, r.Settle(t.Context(), 1), errBroken)
	store.err = nil
	require.ErrorIs(t, r.Settle(t.Context(), -1), runtime.ErrInvalidCount)
	require.Equal(t, 5.0, value(t, l))
	require.NoError(t, r.Cancel(t.Context()))
	require.Equal(t, 10.0, value(t, l))
}

// flaky is a store that sometimes fails.
type flaky struct {
	runtime.Store
	err error
}

func (f *flaky) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.Do(ctx, calls)
}

func TestReservationIsCancelledInAnEndedContext(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(10), runtime.Key{})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := l.ReserveN(ctx, 5)
	require.NoError(t, err)
	cancel()
	require.NoError(t, r.Cancel(ctx))
	require.Equal(t, 10.0, value(t, l))
}

func TestDeniedReservationHoldsNothing(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(10), runtime.Key{})
	_, err := l.ReserveN(t.Context(), 20)
	require.NoError(t, err)
	r, err := l.Reserve(t.Context())
	require.NoError(t, err)
	require.False(t, r.Allowed)
	require.Equal(t, time.Second, r.RetryAfter)
	require.Equal(t, runtime.Never, r.Delay(), "a denied reservation has no tokens to wait for")
	require.Equal(t, 11*time.Second, r.Decision.Delay, "the delay that it would have had")
	require.ErrorIs(t, r.Cancel(t.Context()), runtime.ErrNotReserved)
	require.Equal(t, -10.0, value(t, l))
}

func TestLargestReservationCanBeCancelled(t *testing.T) {
	p := reservable(runtime.MaxTokens)
	l := limiter.New(still()).Reservable(p, runtime.Key{})
	r, err := l.ReserveN(t.Context(), 2*runtime.MaxTokens)
	require.NoError(t, err)
	require.True(t, r.Allowed)
	require.NoError(t, r.Cancel(t.Context()))
	require.Equal(t, float64(runtime.MaxTokens), value(t, l))
}

func TestReserveOnly(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, MaxReserved: 2}
	l := limiter.New(still()).ReserveOnly(p, runtime.Key{})
	r, err := l.Reserve(t.Context())
	require.NoError(t, err)
	require.Equal(t, time.Second, r.Delay())
	_, err = l.ReserveN(t.Context(), 3)
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
}

func TestConcurrentSettlesCountOnce(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(10), runtime.Key{})
	r, err := l.ReserveN(t.Context(), 5)
	require.NoError(t, err)
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

// daily returns a limit of 5 per day from midnight on, and a clock that shows 23:00.
func daily(maxReserved int64) (p *runtime.Policy, clock *time.Time) {
	now := epoch.Truncate(24 * time.Hour).Add(-time.Hour)
	return &runtime.Policy{Name: "daily", Kind: runtime.FixedWindow, Rate: 5, Period: 24 * time.Hour, Capacity: 5,
		MaxReserved: maxReserved, Start: runtime.StartOffset(0)}, &now
}

// All tokens of a day are taken at 23:00, and all of the next day at 1:00. A refund of the first ones then adds nothing
// to the second day.
func TestLateRefundAddsNothingToTheNextWindow(t *testing.T) {
	for name, refund := range map[string]func(ctx context.Context, l limiter.ReservableLimit) func() error{
		"RefundN": func(ctx context.Context, l limiter.ReservableLimit) func() error {
			d, err := l.AllowN(ctx, 5)
			require.NoError(t, err)
			return func() error { _, err := l.RefundN(ctx, d, 5); return err }
		},
		"Cancel": func(ctx context.Context, l limiter.ReservableLimit) func() error {
			r, err := l.ReserveN(ctx, 5)
			require.NoError(t, err)
			return func() error { return r.Cancel(ctx) }
		},
		"Settle": func(ctx context.Context, l limiter.ReservableLimit) func() error {
			r, err := l.ReserveN(ctx, 5)
			require.NoError(t, err)
			return func() error { return r.Settle(ctx, 1) }
		},
		"Refund": func(ctx context.Context, l limiter.ReservableLimit) func() error {
			d, err := l.AllowN(ctx, 5)
			require.NoError(t, err)
			return func() error { _, err := l.Refund(ctx, d); return err }
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, clock := daily(5)
			l := limiter.New(clocked(clock)).Reservable(p, runtime.Key{})
			refundLater := refund(t.Context(), l)
			*clock = clock.Add(2 * time.Hour)
			require.NoError(t, l.RequireN(t.Context(), 5))
			require.NoError(t, refundLater())
			d, err := l.Allow(t.Context())
			require.NoError(t, err)
			require.False(t, d.Allowed, "5 were used today")
		})
	}
}

// A reservation of the tokens of three days is cancelled on the second day: those of the first day are lost.
func TestCancelRefundsTokensNotYetDue(t *testing.T) {
	p, clock := daily(10)
	l := limiter.New(clocked(clock)).Reservable(p, runtime.Key{})
	r, err := l.ReserveN(t.Context(), 15)
	require.NoError(t, err)
	*clock = clock.Add(2 * time.Hour)
	require.Equal(t, -5.0, value(t, l))
	require.NoError(t, r.Cancel(t.Context()))
	require.Equal(t, 5.0, value(t, l))
}

// A reservation settled later leaves the tokens that the key would have if only the used ones had been taken.
func TestSettleOfABucketCountsAccruedTokens(t *testing.T) {
	for _, row := range []struct {
		name  string
		after time.Duration
		taken int64 // by others, just before
		left  float64
	}{
		{"at once", 0, 0, 8},
		{"later", time.Second, 0, 9},
		{"when it would have been full", 4 * time.Second, 0, 10},
		{"when others have taken", time.Second, 6, 3},
		{"when it would have been full, and others have taken", 4 * time.Second, 9, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			now := epoch
			l := limiter.New(clocked(&now)).Reservable(reservable(10), runtime.Key{})
			r, err := l.ReserveN(t.Context(), 5)
			require.NoError(t, err)
			now = now.Add(row.after)
			if row.taken > 0 {
				require.NoError(t, l.RequireN(t.Context(), row.taken))
			}
			require.NoError(t, r.Settle(t.Context(), 2))
			require.InDelta(t, row.left, value(t, l), 1e-9)
		})
	}
}

func TestRefundOfADecisionThatTookNothing(t *testing.T) {
	l := limiter.New(still()).Reservable(reservable(10), runtime.Key{})
	require.NoError(t, l.RequireN(t.Context(), 10))
	denied, err := l.Allow(t.Context())
	require.NoError(t, err)
	checked, err := l.Check(t.Context())
	require.NoError(t, err)
	uncounted := runtime.Decision{Allowed: true, FailedOpen: errBroken}
	for _, d := range []runtime.Decision{{}, denied, checked, uncounted} {
		after, err := l.RefundN(t.Context(), d, 5)
		require.NoError(t, err)
		require.Zero(t, after.Remaining)
	}
}

func TestUnboundedReservationsExceedAnyBound(t *testing.T) {
	p := reservable(runtime.Unbounded)
	p.Rate = runtime.MaxTokens
	l := limiter.New(still()).Reservable(p, runtime.Key{})
	for i := range 5 {
		r, err := l.ReserveN(t.Context(), runtime.MaxTokens)
		require.NoError(t, err)
		require.True(t, r.Allowed, "reservation %d", i)
	}
	require.Equal(t, -4.0*runtime.MaxTokens, value(t, l))
}
