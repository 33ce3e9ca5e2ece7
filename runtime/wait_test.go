package runtime_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// elapsed returns how long f takes on the clock of a synctest bubble.
func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// waitPolicies returns a limit on which Wait reserves and one on which it retries, with 3 tokens each and one per second.
func waitPolicies() map[string]*runtime.Policy {
	return map[string]*runtime.Policy{"reserving": reservable(3), "retrying": bucket("limit", 3)}
}

func TestWaitReturnsWhenTheTokensAreAvailable(t *testing.T) {
	for name, p := range waitPolicies() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter.New(&memstore.Store{}).Reservable(p, runtime.Key{})
				wait := func() { require.NoError(t, l.WaitN(t.Context(), 3)) }
				require.Zero(t, elapsed(wait))
				require.Equal(t, 3*time.Second, elapsed(wait))
			})
		})
	}
}

func TestWaitFailsAtOnceWhenTheDeadlineIsEarlier(t *testing.T) {
	for name, p := range waitPolicies() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter.New(&memstore.Store{}).Reservable(p, runtime.KeyOf(runtime.String("secret")))
				require.NoError(t, l.WaitN(t.Context(), 3))
				ctx, cancel := context.WithTimeout(t.Context(), 1999*time.Millisecond)
				defer cancel()
				require.Zero(t, elapsed(func() {
					err := l.WaitN(ctx, 2)
					require.ErrorIs(t, err, runtime.ErrLimited)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorContains(t, err, `"limit"`)
					require.NotContains(t, err.Error(), "secret")
				}))
				require.Equal(t, 0.0, value(t, l), "nothing was taken")
			})
		})
	}
}

func TestWaitPassesWhenTheDeadlineIsLater(t *testing.T) {
	for name, p := range waitPolicies() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter.New(&memstore.Store{}).Reservable(p, runtime.Key{})
				require.NoError(t, l.WaitN(t.Context(), 3))
				ctx, cancel := context.WithTimeout(t.Context(), 2001*time.Millisecond)
				defer cancel()
				require.Equal(t, 2*time.Second, elapsed(func() { require.NoError(t, l.WaitN(ctx, 2)) }))
			})
		})
	}
}

func TestWaitRefundsWhenItsContextEnds(t *testing.T) {
	for name, p := range waitPolicies() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter.New(&memstore.Store{}).Reservable(p, runtime.Key{})
				require.NoError(t, l.WaitN(t.Context(), 3))
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				require.Equal(t, time.Second, elapsed(func() {
					err := l.WaitN(ctx, 2)
					require.ErrorIs(t, err, context.Canceled)
					require.NotErrorIs(t, err, runtime.ErrLimited)
				}))
				require.Equal(t, 1.0, value(t, l), "as if it had never waited")
			})
		})
	}
}

func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := reservable(1)
		p.MaxReserved = runtime.Unbounded
		l := limiter.New(&memstore.Store{}).Reservable(p, runtime.Key{})
		require.NoError(t, l.Wait(t.Context()))
		start, served := time.Now(), make([]time.Duration, 50)
		var all sync.WaitGroup
		for i := range served {
			all.Go(func() {
				require.NoError(t, l.Wait(t.Context()))
				served[i] = time.Since(start)
			})
			synctest.Wait()
		}
		all.Wait()
		for i := range served {
			require.Equal(t, time.Duration(i+1)*time.Second, served[i], "caller %d", i)
		}
	})
}

// Without reservations the order is not guaranteed, but the rate is.
func TestWaitersWithoutReservationsPassAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.New(&memstore.Store{}).Limit(bucket("limit", 1), runtime.Key{})
		require.Equal(t, 49*time.Second, elapsed(func() {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { require.NoError(t, l.Wait(t.Context())) })
			}
			all.Wait()
		}))
	})
}

// counted is a store that counts its calls of Do.
type counted struct {
	runtime.Store
	calls atomic.Int64
}

func (c *counted) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	c.calls.Add(1)
	return c.Store.Do(ctx, calls)
}

// One waiter retries at a time. If all did whenever a token may have accrued, the calls would grow with their square.
func TestWaitersDoNotAllRetryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: &memstore.Store{}}
		l := limiter.New(store).Limit(bucket("limit", 1), runtime.Key{})
		const waiters = 200
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() { require.NoError(t, l.Wait(t.Context())) })
		}
		all.Wait()
		require.LessOrEqual(t, store.calls.Load(), int64(3*waiters))
	})
}

func TestWaitInQueueEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.New(&memstore.Store{}).Limit(bucket("limit", 1), runtime.Key{})
		require.NoError(t, l.Wait(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { require.ErrorIs(t, l.Wait(ctx), context.Canceled) })
		}
		synctest.Wait()
		cancel()
		all.Wait()
		require.Equal(t, time.Second, elapsed(func() { require.NoError(t, l.Wait(t.Context())) }), "the queue is empty")
	})
}

// If MaxReserved is reached, callers wait until they can reserve, and then for their tokens.
func TestWaitBeyondMaxReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.New(&memstore.Store{}).Reservable(reservable(3), runtime.Key{})
		r, err := l.ReserveN(t.Context(), 6)
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, r.Delay())
		require.Equal(t, 5*time.Second, elapsed(func() { require.NoError(t, l.WaitN(t.Context(), 2)) }))
	})
}

func TestWaitForCapacityZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Period: time.Second, MaxReserved: 1}
		l := limiter.New(&memstore.Store{}).ReserveOnly(p, runtime.Key{})
		for range 10 {
			require.Equal(t, 100*time.Millisecond, elapsed(func() { require.NoError(t, l.Wait(t.Context())) }))
		}
	})
}
