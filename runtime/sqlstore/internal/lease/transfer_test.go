package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lease"
)

func TestBlockTakenBeforeAResetIsNotSpentAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, policy := &slow{}, leased(runtime.TokenBucket)
		policy.Rate = 1
		p := newProcess(backend, policy)
		gone, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		_, err := p.limit.Allow(gone)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the block is still being taken")
		require.NoError(t, p.limit.Reset(t.Context()))
		for range 100 {
			require.True(t, p.take(t, 1))
		}
		require.False(t, p.take(t, 1), "100 tokens, without those of the block")

		var all sync.WaitGroup
		all.Go(func() { require.NoError(t, p.limit.Reset(t.Context())) })
		time.Sleep(time.Microsecond)
		require.True(t, p.take(t, 1), "during a reset requests go to the row")
		all.Wait()
		require.InDelta(t, 99, left(t, backend, policy), 0.1)
		require.NoError(t, p.close())
	})
}

// slowRefund is a store whose refunds take 5 seconds.
type slowRefund struct{ memstore.Store }

func (s *slowRefund) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if calls[0].Requests[0].Op == runtime.Refund {
		time.Sleep(5 * time.Second)
	}
	return s.Store.Do(ctx, calls)
}

// The key is reset while its block is being refunded.
func TestBlockIsNotRefundedAfterAReset(t *testing.T) {
	for name, refund := range map[string]func(p process){
		"the block has ended":         func(p process) { time.Sleep(2 * time.Second) },
		"a request needs more tokens": func(p process) { go p.limit.AllowN(context.Background(), 20) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := leased(runtime.TokenBucket)
				policy.Rate = 1
				backend := &slowRefund{}
				p := newProcess(backend, policy)
				require.True(t, p.take(t, 1))
				refund(p)
				synctest.Wait()
				require.NoError(t, p.limit.Reset(t.Context()))
				others := newProcess(backend, policy)
				for range 100 {
					require.True(t, others.take(t, 1))
				}
				time.Sleep(2 * time.Minute)
				require.False(t, others.take(t, 5), "100 tokens since the reset, and what has accrued")
				require.NoError(t, errors.Join(p.close(), others.close()))
			})
		})
	}
}

func TestResetWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{}
		p := newProcess(backend, leased(runtime.TokenBucket))
		var all sync.WaitGroup
		all.Go(func() { p.take(t, 1) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		require.ErrorIs(t, p.limit.Reset(ctx), context.DeadlineExceeded)
		all.Wait()
		require.True(t, p.take(t, 9), "nothing was reset: the block is kept")
		require.Equal(t, 1, backend.called)
		require.NoError(t, p.close())
	})
}

func TestShutdownDuringTakesAndResets(t *testing.T) {
	policy := leased(runtime.TokenBucket)
	policy.Rate, policy.Capacity = 1_000_000, 1_000_000
	for range 20 {
		s := lease.New(&memstore.Store{}, nil)
		limits := limiter.New(s)
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 200 {
					limit := limits.Limit(policy, runtime.KeyOf(runtime.Int(100*g+i%20)))
					require.NoError(t, limit.Require(t.Context()))
					require.NoError(t, limit.RequireN(t.Context(), 20))
					require.NoError(t, limit.Reset(t.Context()))
				}
			})
		}
		require.NoError(t, shutdown(s))
		all.Wait()
		require.NoError(t, shutdown(s))
	}
}

// silent is a store that, while it is silent, returns only when its context ends.
type silent struct {
	memstore.Store
	silent bool
}

func (s *silent) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if s.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Do(ctx, calls)
}

// elapsed returns how long f takes.
func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func TestCallWithoutDeadlineEndsAfterTimeout(t *testing.T) {
	for _, call := range []func(l limiter.Limit) error{
		func(l limiter.Limit) error { return l.Require(context.Background()) },
		func(l limiter.Limit) error { return l.RequireN(context.Background(), 11) },
		func(l limiter.Limit) error { return l.Reset(context.Background()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := leased(runtime.TokenBucket)
			backend := &silent{silent: true}
			limit := newProcess(backend, p).limit
			go limit.Require(context.Background())
			synctest.Wait()
			require.LessOrEqual(t, elapsed(func() {
				require.ErrorIs(t, call(limit), context.DeadlineExceeded)
			}), 10*time.Second)
		})
	}
}

func TestPolicyTimeoutAppliesWhileWaitingForABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leased(runtime.TokenBucket)
		p.Timeout = 50 * time.Millisecond
		limit := newProcess(&silent{silent: true}, p).limit
		require.Equal(t, p.Timeout, elapsed(func() {
			require.ErrorIs(t, limit.Require(t.Context()), context.DeadlineExceeded)
		}))
		time.Sleep(time.Minute)
	})
}

func TestShutdownOverASilentBackendEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &silent{}
		s := lease.New(backend, nil)
		p := leased(runtime.TokenBucket)
		for i := range 9 {
			require.NoError(t, limiter.New(s).Limit(p, runtime.KeyOf(runtime.String(fmt.Sprint(i)))).Require(t.Context()))
		}
		backend.silent = true
		go limiter.New(s).Limit(p, runtime.KeyOf(runtime.String("another"))).Require(t.Context())
		synctest.Wait()
		require.LessOrEqual(t, elapsed(func() {
			require.ErrorIs(t, shutdown(s), context.DeadlineExceeded)
		}), 10*time.Second, "for all blocks together, and the one that is being taken")
	})
}
