package runtime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// faulty is a store that can fail or be slow, in a transaction too.
type faulty struct {
	*memstore.Store
	err  error
	slow time.Duration
}

func (f *faulty) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	select {
	case <-time.After(f.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.Do(ctx, calls)
}

func (f *faulty) WithTx(runtime.Tx) runtime.Store { return f }

var errDown = errors.New("the server is down")

// onError returns a reservable limit of 3 tokens with the given OnError and a timeout of a second.
func onError(o runtime.OnError) *runtime.Policy {
	p := reservable(3)
	p.OnError, p.Timeout = o, time.Second
	return p
}

func TestVerbsFollowOnErrorWhenTheStoreFails(t *testing.T) {
	passing := map[string]bool{"Allow": true, "AllowUpTo": true, "Check": true, "Require": true, "Reserve": true, "Wait": true, "All": true}
	for _, o := range runtime.OnErrors() {
		synctest.Test(t, func(t *testing.T) {
			limits := limiter.New(&faulty{Store: still(), err: errDown})
			for _, v := range verbs(limits) {
				err := v.call(t.Context(), limits.Reservable(onError(o), runtime.Key{}))
				if o != runtime.FailClosed && passing[v.name] {
					require.NoError(t, err, v.name)
					continue
				}
				require.ErrorIs(t, err, errDown, "%v: %s", o, v.name)
				require.ErrorContains(t, err, `limit "limit"`)
			}
		})
	}
}

func TestFailOpenAllowsUncounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := limiter.New(&faulty{Store: still(), err: errDown})
		open, closed := onError(runtime.FailOpen), bucket("closed", 3)
		d, err := limits.Limit(open, runtime.Key{}).Allow(t.Context())
		require.NoError(t, err)
		require.Equal(t, runtime.Decision{Limit: "limit", Policy: open, Allowed: true, Taken: 1, FailedOpen: errDown}, d)
		require.Equal(t, "allowed, uncounted", d.String())
		all, err := limits.All(t.Context(), limits.Limit(open, runtime.Key{}))
		require.NoError(t, err)
		require.Equal(t, "allowed, uncounted", all.String())

		_, err = limits.Limit(open, runtime.Key{}).AllowN(t.Context(), 4)
		require.ErrorIs(t, err, runtime.ErrExceedsCapacity, "an invalid request remains an error")
		_, err = limits.Limit(open, runtime.Key{}).AllowN(t.Context(), -1)
		require.ErrorIs(t, err, runtime.ErrInvalidCount)

		ds, err := limits.All(t.Context(), limits.Limit(open, runtime.Key{}), limits.Limit(open, runtime.KeyOf(runtime.Int(1))))
		require.NoError(t, err)
		require.True(t, ds.Allowed)
		for _, each := range ds.Each {
			require.Equal(t, d.String(), each.String())
			require.Equal(t, errDown, each.FailedOpen)
		}
		_, err = limits.All(t.Context(), limits.Limit(open, runtime.Key{}), limits.Limit(closed, runtime.Key{}))
		require.ErrorIs(t, err, errDown, "a call passes only if all of its limits fail open")
	})
}

func TestTimeoutBoundsTheDecision(t *testing.T) {
	for _, row := range []struct {
		name     string
		slow     time.Duration
		onError  runtime.OnError
		inTx     bool
		deadline time.Duration // the caller's
		takes    time.Duration
		allowed  bool
		open     bool
	}{
		{"in time", 999 * time.Millisecond, runtime.FailOpen, false, time.Hour, 999 * time.Millisecond, true, false},
		{"too late, closed", time.Minute, runtime.FailClosed, false, time.Hour, time.Second, false, false},
		{"too late, open", time.Minute, runtime.FailOpen, false, time.Hour, time.Second, true, true},
		{"the caller's deadline, closed", time.Minute, runtime.FailClosed, false, time.Millisecond, time.Millisecond, false, false},
		{"the caller's deadline, open", time.Minute, runtime.FailOpen, false, time.Millisecond, time.Millisecond, false, false},
		{"the caller's deadline, local", time.Minute, runtime.FailLocal, false, time.Millisecond, time.Millisecond, false, false},
		{"no timeout in a transaction", time.Minute, runtime.FailOpen, true, time.Hour, time.Minute, true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := limiter.New(&faulty{Store: &memstore.Store{}, slow: row.slow})
				if row.inTx {
					limits = limits.WithTx(nil)
				}
				ctx, cancel := context.WithTimeout(t.Context(), row.deadline)
				defer cancel()
				require.Equal(t, row.takes, elapsed(func() {
					d, err := limits.Limit(onError(row.onError), runtime.Key{}).Allow(ctx)
					require.Equal(t, row.allowed, d.Allowed)
					require.Equal(t, row.open, d.FailedOpen != nil)
					if !row.allowed {
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
				}))
			})
		})
	}
}

func TestTimeoutErrorNamesTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := limiter.New(&faulty{Store: &memstore.Store{}, slow: time.Minute})
		_, err := limits.Limit(onError(runtime.FailClosed), runtime.Key{}).Allow(t.Context())
		require.EqualError(t, err, `limit "limit": the store did not answer within the limit's timeout of 1s: context deadline exceeded`)
	})
}

func TestCancelledCallerDoesNotFailOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := limiter.New(&faulty{Store: &memstore.Store{}, slow: time.Minute})
		p := onError(runtime.FailOpen)
		p.Timeout = 0
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := limits.Limit(p, runtime.Key{}).Allow(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestReservationThatFailedOpenChargesTheUse(t *testing.T) {
	store := &faulty{Store: still(), err: errDown}
	l := limiter.New(store).Reservable(onError(runtime.FailOpen), runtime.Key{})
	r, err := l.ReserveN(t.Context(), 2)
	require.NoError(t, err)
	require.ErrorIs(t, r.FailedOpen, errDown)
	require.Zero(t, r.Delay())

	require.ErrorIs(t, r.Settle(t.Context(), 2), errDown, "a charge does not fail open")
	store.err = nil
	require.NoError(t, r.Settle(t.Context(), 2))
	require.Equal(t, 1.0, value(t, l), "the whole use is charged, because nothing was reserved")

	store.err = errDown
	r, err = l.Reserve(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Cancel(t.Context()), "there is nothing to refund")
	store.err = nil
	require.Equal(t, 1.0, value(t, l))
}

func TestFailedOpenWaitReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: &memstore.Store{}}
		l := limiter.New(store).Reservable(onError(runtime.FailOpen), runtime.Key{})
		require.NoError(t, l.WaitN(t.Context(), 3))
		store.err = errDown
		require.Zero(t, elapsed(func() { require.NoError(t, l.WaitN(t.Context(), 3)) }))
		store.err = nil
		require.Equal(t, 0.0, value(t, l), "nothing was taken or refunded")
	})
}

// gone is a store that fails after the caller's context has ended, or whose driver notices the end of it first.
type gone struct {
	runtime.Store
	err func(ctx context.Context) error
}

func (g gone) Do(ctx context.Context, _ []runtime.Call) ([]runtime.Answer, error) {
	deadline, _ := ctx.Deadline()
	time.Sleep(time.Until(deadline))
	return nil, g.err(ctx)
}

// Only the limit's own timeout or a failure of the store opens a limit: a client that sets a short deadline gets its error.
func TestEndOfTheCallersContextOpensNothing(t *testing.T) {
	late := func(ctx context.Context) error { <-ctx.Done(); return errDown }
	for name, fails := range map[string]func(ctx context.Context) error{
		"the error of the context": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"another error":            late,
		"the driver's own clock":   func(context.Context) error { return errDown },
	} {
		for _, o := range runtime.OnErrors() {
			synctest.Test(t, func(t *testing.T) {
				limits := limiter.New(gone{still(), fails})
				for _, v := range verbs(limits) {
					p := onError(o)
					p.Timeout = time.Hour
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Microsecond)
					defer cancel()
					err := v.call(ctx, limits.Reservable(p, runtime.Key{}))
					require.ErrorIs(t, err, context.DeadlineExceeded, "%s, %v: %s", name, o, v.name)
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		// The timeout of the limit has passed before.
		limits := limiter.New(gone{still(), late})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d, err := limits.Limit(onError(runtime.FailOpen), runtime.Key{}).Allow(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, d.FailedOpen, errDown)
	})
}
