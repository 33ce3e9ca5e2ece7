package lease_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lease"
)

// silent is a store that returns only when its context ends, once it is silent.
type silent struct {
	runtime.MemStore
	silent bool
}

func (s *silent) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if s.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.MemStore.Do(ctx, calls)
}

// elapsed returns how long f takes.
func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func TestCallWithoutDeadlineDoesNotWaitForASilentStore(t *testing.T) {
	for _, ask := range []func(l runtime.Limit) error{
		func(l runtime.Limit) error { return l.Require(context.Background()) },
		func(l runtime.Limit) error { return l.RequireN(context.Background(), 11) },
		func(l runtime.Limit) error { return l.Reset(context.Background()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := leased(runtime.TokenBucket)
			behind := &silent{silent: true}
			limit := newProcess(behind, p).limit
			go limit.Require(context.Background())
			synctest.Wait()
			require.LessOrEqual(t, elapsed(func() {
				require.ErrorIs(t, ask(limit), context.DeadlineExceeded)
			}), 10*time.Second)
		})
	}
}

func TestTimeoutOfACallThatWaitsForABlock(t *testing.T) {
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

func TestCloseOfASilentStoreEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := &silent{}
		s := lease.New(behind, nil)
		p := leased(runtime.TokenBucket)
		for i := range 9 {
			require.NoError(t, runtime.NewLimiter(s).Limit(p, runtime.KeyOf(runtime.String(fmt.Sprint(i)))).Require(t.Context()))
		}
		behind.silent = true
		go runtime.NewLimiter(s).Limit(p, runtime.KeyOf(runtime.String("another"))).Require(t.Context())
		synctest.Wait()
		require.LessOrEqual(t, elapsed(func() {
			require.ErrorIs(t, s.Close(), context.DeadlineExceeded)
		}), 10*time.Second, "for all blocks together, and for the one that is being taken")
	})
}
