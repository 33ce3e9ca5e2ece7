package limiter_test

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

// waitPolicies returns a limit on which Wait reserves and one on which it retries, with 3 tokens each and one per
// second.
func waitPolicies() map[string]*runtime.Policy {
	return map[string]*runtime.Policy{"reserving": reservable(3), "retrying": bucket("limit", 3)}
}

// WaitReserve returns when the tokens can be used, and what it returns can be settled once.
func TestWaitReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.New(&memstore.Store{})
		p, key := reservable(3), runtime.Key{}
		limit := l.Reservable(p, key)
		must(limit.AllowN(t.Context(), 3))
		var r *limiter.Reservation
		require.Equal(t, 2*time.Second, elapsed(func() { r = must(limit.WaitReserveN(t.Context(), 2)) }))
		require.NoError(t, r.Settle(t.Context(), 1))
		require.ErrorIs(t, r.Cancel(t.Context()), runtime.ErrNotReserved)
		require.EqualValues(t, 1, must(limit.Peek(t.Context())).Remaining)

		require.Zero(t, elapsed(func() { r = must(limit.WaitReserve(t.Context())) }))
		require.NoError(t, r.Cancel(t.Context()))
		require.EqualValues(t, 1, must(limit.Peek(t.Context())).Remaining)

		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := limit.WaitReserveN(soon, 3)
		require.Nil(t, r)
		require.ErrorIs(t, err, runtime.ErrLimited)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 1, must(limit.Peek(t.Context())).Remaining)

		rs := must(l.Group(limit).WaitReserve(t.Context()))
		require.NoError(t, rs.Cancel(t.Context()))
		require.EqualValues(t, 1, must(limit.Peek(t.Context())).Remaining)
	})
}

// After all 3 tokens were taken, 2 more are available after 2s.
func TestWait(t *testing.T) {
	for _, row := range []struct {
		name             string
		deadline, cancel time.Duration
		takes            time.Duration
		errs             []error
		left             float64 // as if it had never waited, if there is an error
	}{
		{"no deadline", 0, 0, 2 * time.Second, nil, 0},
		{"a later deadline", 2001 * time.Millisecond, 0, 2 * time.Second, nil, 0},
		{"an earlier deadline", 1999 * time.Millisecond, 0, 0, []error{runtime.ErrLimited, context.DeadlineExceeded}, 0},
		{"cancelled", 0, time.Second, time.Second, []error{context.Canceled}, 1},
	} {
		for kind, p := range waitPolicies() {
			t.Run(row.name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limits := limiter.New(&memstore.Store{})
					l := limits.Reservable(p, runtime.KeyOf(runtime.String("secret")))
					for _, wait := range []func(ctx context.Context) error{
						func(ctx context.Context) error { return l.WaitN(ctx, 2) },
						func(ctx context.Context) error { return limits.Group(l.N(2)).Wait(ctx) },
					} {
						require.NoError(t, l.Reset(t.Context()))
						require.Zero(t, elapsed(func() { require.NoError(t, l.WaitN(t.Context(), 3)) }))
						ctx, cancel := context.WithCancel(t.Context())
						if row.deadline > 0 {
							ctx, cancel = context.WithTimeout(t.Context(), row.deadline)
						}
						defer cancel()
						if row.cancel > 0 {
							time.AfterFunc(row.cancel, cancel)
						}
						var err error
						require.Equal(t, row.takes, elapsed(func() { err = wait(ctx) }))
						if row.errs == nil {
							require.NoError(t, err)
						}
						for _, want := range row.errs {
							require.ErrorIs(t, err, want)
							require.NotContains(t, err.Error(), "secret")
						}
						if limited := len(row.errs) == 2; limited {
							require.ErrorContains(t, err, `"limit"`)
						} else {
							require.NotErrorIs(t, err, runtime.ErrLimited)
						}
						require.Equal(t, row.left, value(t, l))
					}
				})
			})
		}
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
		require.Equal(t, (waiters-1)*time.Second, elapsed(func() {
			var all sync.WaitGroup
			for range waiters {
				all.Go(func() { require.NoError(t, l.Wait(t.Context())) })
			}
			all.Wait()
		}), "the order is not guaranteed, but the rate is")
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

func TestGroupWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, tokens, calls, suspended := team(&memstore.Store{})
		g := limits.Group(tokens.N(10), calls, suspended.Checked())
		wait := func() { require.NoError(t, g.Wait(t.Context())) }
		require.Zero(t, elapsed(wait))
		require.Equal(t, 10*time.Second, elapsed(wait), "tokens are reserved")
		require.NoError(t, suspended.Require(t.Context()))
		require.NoError(t, tokens.Reset(t.Context()))
		require.Equal(t, time.Second, elapsed(wait), "the check passes again")

		// Interrupted, it gives back the tokens of each limit.
		require.NoError(t, calls.Reset(t.Context()))
		before := value(t, tokens)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		require.ErrorIs(t, g.Wait(ctx), context.Canceled)
		require.InDelta(t, before+2, value(t, tokens), 1e-6)
		require.Equal(t, 3.0, value(t, calls))
	})
}

// Waiters of one group take turns, and do not keep callers of a single limit of it from its tokens.
func TestGroupWaitersDoNotBlockSingleLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: &memstore.Store{}}
		limits := limiter.New(store)
		slow := &runtime.Policy{Name: "slow", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1}
		a, b := limits.Limit(bucket("a", 1), runtime.Key{}), limits.Limit(slow, runtime.Key{})
		require.NoError(t, b.Require(t.Context()))
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { require.NoError(t, limits.Group(a, b).Wait(t.Context())) })
		}
		synctest.Wait()
		require.NoError(t, a.Require(t.Context()))
		require.Equal(t, time.Second, elapsed(func() { require.NoError(t, a.Wait(t.Context())) }))
		all.Wait()
		require.Less(t, store.calls.Load(), int64(60), "one waiter at a time retries")
	})
}

func TestGroupWaitFailsAtOnceIfALimitIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := limiter.New(&memstore.Store{})
		enforced, blocked := ofMode(limits, "enforced", runtime.ModeEnforce, 0), ofMode(limits, "blocked", runtime.ModeBlock, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, ctx := range []context.Context{t.Context(), ctx} {
			require.Zero(t, elapsed(func() {
				err := limits.Group(enforced, blocked).Wait(ctx)
				var limited *runtime.LimitedError
				require.ErrorAs(t, err, &limited)
				require.Equal(t, "blocked", limited.Limit)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
			}))
		}
		require.Equal(t, 3.0, value(t, enforced))
	})
}

// A request of a class that leaves tokens to others does not hold up these while it waits.
func TestWaitOfAClassDoesNotHoldUpOthers(t *testing.T) {
	for name, p := range waitPolicies() {
		synctest.Test(t, func(t *testing.T) {
			l := limiter.New(&memstore.Store{})
			whole, key := runtime.Priority{Name: "interactive"}.For(p, runtime.Key{})
			batch, _ := runtime.Priority{Name: "batch", Leaves: 60}.For(p, key)
			must(l.Limit(whole, key).AllowN(t.Context(), 3))
			var waits sync.WaitGroup
			waits.Go(func() {
				require.Equal(t, 3*time.Second+time.Second, elapsed(func() { require.NoError(t, l.Limit(batch, key).Wait(t.Context())) }), name)
			})
			synctest.Wait()
			require.Equal(t, time.Second, elapsed(func() { require.NoError(t, l.Limit(whole, key).Wait(t.Context())) }), name)
			waits.Wait()
		})
	}
}
