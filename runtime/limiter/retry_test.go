package limiter_test

import (
	"context"
	"errors"
	"fmt"
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

// outOfReach is a store that fails while down is set.
type outOfReach struct {
	runtime.Store
	down atomic.Bool
}

func (f *outOfReach) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if f.down.Load() {
		return nil, errors.New("connection refused")
	}
	return f.Store.Do(ctx, calls)
}

// Four workers run 60 jobs at one per second. The store fails from the 10th second to the 40th, and once more later.
func TestWorkersOutlastTheStore(t *testing.T) {
	for kind, p := range map[string]*runtime.Policy{"reserving": reservable(1), "retrying": bucket("limit", 1)} {
		t.Run(kind, func(t *testing.T) {
			var reports []error
			var reporting sync.Mutex
			synctest.Test(t, func(t *testing.T) {
				store := &outOfReach{Store: &memstore.Store{}}
				l := limiter.New(store).Reservable(p, runtime.KeyOf(runtime.String("secret")))
				start := time.Now()
				for at, down := range map[int]bool{10: true, 40: false, 60: true, 63: false} {
					time.AfterFunc(time.Duration(at)*time.Second+time.Millisecond, func() { store.down.Store(down) })
				}
				jobs := make(chan int, 60)
				for job := range cap(jobs) {
					jobs <- job
				}
				close(jobs)
				var mu sync.Mutex
				runs, ranAt := map[int]int{}, []time.Duration(nil)
				outage := limiter.Retry{Report: func(err error) {
					reporting.Lock()
					defer reporting.Unlock()
					reports = append(reports, err)
				}}
				var workers sync.WaitGroup
				for range 4 {
					workers.Go(func() {
						for job := range jobs {
							require.NoError(t, outage.Do(t.Context(), l.Wait))
							mu.Lock()
							runs[job]++
							ranAt = append(ranAt, time.Since(start))
							mu.Unlock()
						}
					})
				}
				workers.Wait()
				require.Len(t, runs, 60, "no job is lost")
				for i, at := range ranAt {
					require.Equal(t, 1, runs[i])
					require.GreaterOrEqual(t, at, time.Duration(i)*time.Second, "the %dth run has a token", i)
				}
				require.Less(t, time.Since(start), 110*time.Second, "60s of tokens, and the outages with a last pause of 10s each")
			})
			require.Len(t, reports, 4, "two outages begin and end")
			for i, err := range reports {
				if i%2 == 1 {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, "connection refused")
				require.NotContains(t, err.Error(), "secret")
			}
		})
	}
}

// The pauses end with the context, and so does a wait for tokens.
func TestRetryEndsWithItsContext(t *testing.T) {
	for _, down := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := &outOfReach{Store: &memstore.Store{}}
			l := limiter.New(store).Limit(bucket("limit", 1), runtime.Key{})
			require.NoError(t, l.Wait(t.Context()))
			store.down.Store(down)
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			var outage limiter.Retry
			var err error
			took := elapsed(func() { err = outage.Do(ctx, l.Wait) })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			if down {
				require.Equal(t, 700*time.Millisecond, took)
				require.ErrorContains(t, err, "connection refused")
			} else {
				require.Zero(t, took, "the token comes after the deadline")
				require.ErrorIs(t, err, runtime.ErrLimited)
			}
			store.down.Store(false)
			require.Equal(t, time.Second-took, elapsed(func() { require.NoError(t, l.Wait(t.Context())) }), "no token was taken")
		})
	}
}

// The first pause is at most a tenth of a second, the longest ten, and none is less than half of that.
func TestRetryPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		var outage limiter.Retry
		require.NoError(t, outage.Do(t.Context(), func(context.Context) error {
			if tries = append(tries, time.Now()); len(tries) < 12 {
				return errors.New("down")
			}
			return nil
		}))
		for i, at := range tries[1:] {
			most := min(100*time.Millisecond<<i, 10*time.Second)
			pause := at.Sub(tries[i])
			require.True(t, most/2 <= pause && pause < most, "pause %d is %v", i, pause)
		}
	})
}

// What another call would not mend is returned at once.
func TestRetryReturnsWhatItCannotMend(t *testing.T) {
	blocked := bucket("limit", 1)
	blocked.Mode = runtime.ModeBlock
	limits := limiter.New(&memstore.Store{})
	for want, f := range map[error]func(context.Context) error{
		runtime.ErrLimited:         limits.Limit(blocked, runtime.Key{}).Wait,
		runtime.ErrNoStore:         (&limiter.Limiter{}).Limit(bucket("limit", 1), runtime.Key{}).Wait,
		runtime.ErrExceedsCapacity: func(ctx context.Context) error { return limits.Limit(bucket("limit", 1), runtime.Key{}).WaitN(ctx, 2) },
		runtime.ErrClosed:          func(context.Context) error { return fmt.Errorf("store: %w", runtime.ErrClosed) },
	} {
		calls := 0
		outage := limiter.Retry{Report: func(err error) { t.Errorf("reported: %v", err) }}
		require.ErrorIs(t, outage.Do(t.Context(), func(ctx context.Context) error {
			calls++
			return f(ctx)
		}), want)
		require.Equal(t, 1, calls)
	}
}

// A reservation is kept by the function that waits for it.
func TestRetryWaitReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &outOfReach{Store: &memstore.Store{}}
		l := limiter.New(store).Reservable(reservable(3), runtime.Key{})
		store.down.Store(true)
		time.AfterFunc(time.Second, func() { store.down.Store(false) })
		var outage limiter.Retry
		var r *limiter.Reservation
		require.NoError(t, outage.Do(t.Context(), func(ctx context.Context) (err error) {
			r, err = l.WaitReserveN(ctx, 3)
			return err
		}))
		require.NoError(t, r.Settle(t.Context(), 1))
		require.EqualValues(t, 2, must(l.Peek(t.Context())).Remaining)
	})
}
