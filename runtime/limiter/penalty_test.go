package limiter_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

func penalized(n int64, steps ...time.Duration) *runtime.Policy {
	p := bucket("limit", n)
	p.Penalty = runtime.PenaltyOf(0, steps...)
	return p
}

// Several callers wait for the end of a penalty, which has tokens for some of them only. The retries of the others are
// denied, and must not start the next penalty.
func TestRetriesOfWaitStartNoPenalty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := penalized(2, time.Second, time.Hour)
		store := &memstore.Store{}
		// Each in a process of its own, so that they do not queue.
		for range 2 {
			require.NoError(t, limiter.New(store).Limit(p, runtime.Key{}).Require(t.Context()))
		}
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				limits := limiter.New(store)
				require.NoError(t, limits.Limit(p, runtime.Key{}).Wait(t.Context()))
			})
			wg.Go(func() {
				limits := limiter.New(store)
				require.NoError(t, limits.Group(limits.Limit(p, runtime.Key{}).N(1)).Wait(t.Context()))
			})
		}
		require.Less(t, elapsed(wg.Wait), 30*time.Second)
		b := must(limiter.New(store).Limit(p, runtime.Key{}).Peek(t.Context()))
		require.Zero(t, b.PenaltyFor)
	})
}

// So it is with slots, for which WaitAcquire asks again and again.
func TestRetriesOfWaitAcquireStartNoPenalty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slotPolicy(1)
		p.Penalty = runtime.PenaltyOf(0, time.Second, time.Hour)
		store := &memstore.Store{}
		elsewhere := acquire(t, limiter.New(store).Slots(p, runtime.Key{}))
		time.AfterFunc(10*time.Second, func() { _ = elsewhere.Release(t.Context()) })
		begun := time.Now()
		must(limiter.New(store).Slots(p, runtime.Key{}).WaitAcquire(t.Context()))
		require.LessOrEqual(t, time.Since(begun), 11*time.Second)
	})
}

func TestPenaltyInBalanceAndErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := limiter.New(&memstore.Store{}).Limit(penalized(2, time.Minute), runtime.Key{})
		require.NoError(t, limit.RequireN(t.Context(), 2))
		err := limit.Require(t.Context())
		require.EqualError(t, err, `limit "limit": rate limited, retry after 1m`)
		limited, ok := errors.AsType[*runtime.LimitedError](err)
		require.True(t, ok)
		require.Equal(t, time.Minute, limited.PenaltyFor)
		require.Equal(t, "denied, penalty for 1m, retry after 1m", limited.String())
		time.Sleep(10 * time.Second)
		b := must(limit.Peek(t.Context()))
		require.Equal(t, runtime.Balance{Limit: "limit", Capacity: 2, Value: 2, PenaltyFor: 50 * time.Second}, b)
		require.Equal(t, "penalty for 50s with 2 of 2 left", b.String())
		require.NoError(t, limit.Reset(t.Context()))
		require.NoError(t, limit.RequireN(t.Context(), 2))
	})
}

// While the store fails, the memory of the process has the penalty that the store has reported last, also if the tokens
// are back.
func TestPenaltyHoldsWhileTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := penalized(2, time.Minute)
		p.OnError = runtime.FailLocal
		store := &breaking{Store: &memstore.Store{}}
		limit := limiter.New(store).Limit(p, runtime.Key{})
		require.NoError(t, limit.RequireN(t.Context(), 2))
		require.ErrorIs(t, limit.Require(t.Context()), runtime.ErrLimited)
		time.Sleep(10 * time.Second)
		must(limit.Check(t.Context()))
		store.fails = true
		d := must(limit.Allow(t.Context()))
		require.False(t, d.Allowed)
		require.Error(t, d.FailedLocal)
		require.Equal(t, 50*time.Second, d.PenaltyFor)
		time.Sleep(50 * time.Second)
		d = must(limit.Allow(t.Context()))
		require.True(t, d.Allowed)
		require.Error(t, d.FailedLocal)
	})
}

type breaking struct {
	runtime.Store
	fails bool
}

func (f *breaking) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if f.fails {
		return nil, errors.New("broken on purpose")
	}
	return f.Store.Do(ctx, calls)
}

// Unblock ends a penalty as it ends a block, and leaves the tokens.
func TestUnblockEndsAPenalty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := penalized(2, time.Minute, time.Hour)
		p.Overrides = runtime.OverrideBounds{Rate: p.Rate, Capacity: p.Capacity}
		limits := limiter.New(&memstore.Store{})
		limit, overrides := limits.Limit(p, runtime.Key{}), limits.Overrides(p, runtime.Key{})
		end := runtime.OverrideEnd{Reason: "a test", Author: "tester"}
		_, err := overrides.Unblock(t.Context(), end)
		require.ErrorIs(t, err, runtime.ErrNoOverride)
		require.NoError(t, limit.Require(t.Context()))
		require.ErrorIs(t, limit.RequireN(t.Context(), 2), runtime.ErrLimited)
		require.ErrorIs(t, limit.Require(t.Context()), runtime.ErrLimited)
		e := must(overrides.Unblock(t.Context(), end))
		require.Equal(t, runtime.OverrideUnblock, e.What)
		require.NoError(t, limit.Require(t.Context()))
		// The tokens are as before, and the next penalty is a first one.
		err = limit.Require(t.Context())
		limited, ok := errors.AsType[*runtime.LimitedError](err)
		require.True(t, ok)
		require.Equal(t, time.Minute, limited.PenaltyFor)
	})
}

// It ends a penalty whatever the plan of the handle, which for operators is any, and also while the limit is lifted: the
// penalty would be in force again afterwards. It needs neither the time zone nor the anniversary of the key.
func TestUnblockEndsAPenaltyOfAnyPlan(t *testing.T) {
	p := *penalized(2, time.Hour)
	p.Kind, p.Period = runtime.FixedWindow, runtime.Calendar{Unit: runtime.Month}.Period()
	p.Calendar = runtime.Calendar{Unit: runtime.Month, ZonePerKey: true, Anniversary: true}
	p.Overrides = runtime.OverrideBounds{Rate: 10, Capacity: 10, Unlimited: true}
	plans := lifted(p)
	plans[pro].Penalty = runtime.Penalty{}
	key := runtime.KeyOf(runtime.String("a"))
	for plan := free; plan <= enterprise; plan++ {
		for _, by := range []runtime.Override{{}, {Mode: runtime.ModeOff}, {Plan: override.PlanName("pro")}, {Plan: override.PlanName("enterprise")}} {
			o := newOverriding(t, &plans[plan])
			l := o.limiter.Limit(&plans[free], key.In(time.UTC).Since(epoch))
			must(l.Allow(t.Context()))
			must(l.AllowN(t.Context(), 2))
			require.NotZero(t, must(l.Peek(t.Context())).PenaltyFor)
			if by != (runtime.Override{}) {
				o.override(o.overrides("a"), by)
			}
			must(o.overrides("a").Unblock(t.Context(), overrideEnd))
			_, err := o.overrides("a").Unblock(t.Context(), overrideEnd)
			require.ErrorIs(t, err, runtime.ErrNoOverride)
			if by != (runtime.Override{}) {
				must(o.overrides("a").End(t.Context(), overrideEnd))
			}
			b := must(l.Peek(t.Context()))
			require.Zero(t, b.PenaltyFor)
			require.Equal(t, int64(1), b.Remaining, "the tokens are as before")
		}
	}
}
