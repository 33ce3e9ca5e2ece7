package sweep_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/sweep"
)

var errDown = errors.New("the server is down")

// sweeps is a store that records when it was swept. Each sweep takes some time, and may fail.
type sweeps struct {
	took time.Duration
	err  error
	at   []time.Time
}

func (s *sweeps) Sweep(ctx context.Context, _ ...*runtime.Policy) (int, error) {
	s.at = append(s.at, time.Now())
	select {
	case <-time.After(s.took):
		return len(s.at), s.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func TestSweepEverySweepsOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, store := time.Now(), &sweeps{took: 20 * time.Minute, err: errDown}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Hour+30*time.Minute, errors.New("the server ends"))
		defer cancel()
		reported := 0
		err := sweep.Every(ctx, store, time.Hour, func(deleted int, err error) {
			reported++
			require.Equal(t, reported, deleted)
			require.ErrorIs(t, err, errDown, "the loop goes on after an error")
		}, runtimetest.Bucket("limit", 1))
		require.EqualError(t, err, "the server ends")
		require.Equal(t, 10*time.Hour+30*time.Minute, time.Since(begin), "it ends with its context")
		require.Less(t, store.at[0].Sub(begin), time.Hour)
		for i, at := range store.at[1:] {
			require.Equal(t, time.Hour, at.Sub(store.at[i]), "a slow sweep does not shift the next")
		}
		require.InDelta(t, 10, len(store.at), 1)
		require.InDelta(t, len(store.at), reported, 1)
	})
}

func TestSweepEveryStartsAtDifferentTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		stores, quarters := make([]sweeps, 400), [4]int{}
		var all sync.WaitGroup
		for i := range stores {
			stores[i].err = errDown // which nobody hears of
			all.Go(func() { sweep.Every(ctx, &stores[i], time.Hour, nil) })
		}
		all.Wait()
		for _, s := range stores {
			require.Len(t, s.at, 1)
			quarters[s.at[0].Sub(begin)/(15*time.Minute)]++
		}
		for _, n := range quarters {
			require.InDelta(t, 100, n, 50)
		}
	})
}

func TestSweepEveryRefusesBadArguments(t *testing.T) {
	store := &sweeps{}
	require.EqualError(t, sweep.Every(t.Context(), store, 0, nil), "sweep every 0s: the interval must be more than 0s")
	require.ErrorIs(t, sweep.Every(t.Context(), store, time.Hour, nil, &runtime.Policy{}), runtime.ErrInvalidPolicy)
	require.ErrorIs(t, sweep.Every(t.Context(), store, time.Hour, nil, nil), runtime.ErrInvalidPolicy)
	require.Empty(t, store.at)
}
