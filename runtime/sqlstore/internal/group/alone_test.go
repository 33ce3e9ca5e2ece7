package group_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// inlineOf returns an [group.InlineFunc] that calls a store.
func inlineOf(s runtime.Store) group.InlineFunc {
	return func(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, bool, error) {
		answers, err := s.Do(ctx, calls)
		return answers, true, err
	}
}

// alone runs a test of a group over a slow backend, which takes a second also for lone callers.
func alone(t *testing.T, oneWriter bool, test func(t *testing.T, s *group.Store, backend *slow)) {
	backend := &slow{}
	synctest.Test(t, func(t *testing.T) {
		test(t, group.New(backend, group.Options{OneWriter: oneWriter, Inline: inlineOf(backend)}), backend)
	})
}

func TestStoreWithInline(t *testing.T) {
	for _, oneWriter := range []bool{false, true} {
		storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
			store := &memstore.Store{Clock: clock}
			return group.New(store, group.Options{OneWriter: oneWriter, Inline: inlineOf(store)})
		})
	}
}

func TestLoneCallRunsInTheGoroutineOfItsCaller(t *testing.T) {
	store := &memstore.Store{}
	stack := make([]byte, 1<<14)
	s := group.New(nil, group.Options{Inline: func(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, bool, error) {
		stack = stack[:goruntime.Stack(stack, false)]
		answers, err := store.Do(ctx, calls)
		return answers, true, err
	}})
	answers, err := s.Do(t.Context(), take("", 1))
	require.NoError(t, err)
	require.True(t, answers[0].Allowed())
	require.Contains(t, string(stack), "TestLoneCallRunsInTheGoroutineOfItsCaller(")
}

func TestCallThatInlineDeclinesGoesToTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		declined := 0
		inline := func(context.Context, []runtime.Call) ([]runtime.Answer, bool, error) {
			declined++
			return nil, false, nil
		}
		s := group.New(&memstore.Store{}, group.Options{OneWriter: true, Inline: inline})
		for i := range 3 {
			answers, err := s.Do(t.Context(), take("", 1))
			require.NoError(t, err)
			require.True(t, answers[0].Allowed())
			require.Equal(t, i+1, declined)
			synctest.Wait()
		}
	})
}

func TestCallsDuringALoneCallShareABatch(t *testing.T) {
	for _, oneWriter := range []bool{false, true} {
		alone(t, oneWriter, func(t *testing.T, s *group.Store, backend *slow) {
			var all sync.WaitGroup
			for _, key := range []string{"a", "a", "a", "a"} {
				start(&all, func() {
					answers, err := s.Do(t.Context(), take(key, 1))
					require.NoError(t, err)
					require.True(t, answers[0].Allowed())
				})
			}
			all.Wait()
			require.Equal(t, [][]string{{"a"}, {"a", "a", "a"}}, backend.batches)
			_, err := s.Do(t.Context(), append(take("a", 1), take("b", 1)...))
			require.NoError(t, err, "several calls are a batch")
		})
	}
}

// soon is how long a canceled lone caller waits at most, if its statement ends with the context.
const soon = 50 * time.Millisecond

func TestCanceledLoneCallReturnsSoon(t *testing.T) {
	alone(t, false, func(t *testing.T, s *group.Store, backend *slow) {
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*111*time.Millisecond)
			defer cancel()
			begin := time.Now()
			_, err := s.Do(ctx, take("", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, "waiting for the database: ")
			require.LessOrEqual(t, time.Since(begin), time.Duration(i+1)*111*time.Millisecond+soon)
			_, err = s.Do(t.Context(), take("answered, so that the next call is a lone one again", 1))
			require.NoError(t, err)
			synctest.Wait()
		}
		require.Len(t, backend.batches, 6)
		answers, err := s.Do(t.Context(), take("", 10))
		require.NoError(t, err)
		require.True(t, answers[0].Allowed(), "the statements were aborted")
	})
}

// A statement that ends a moment after the caller's context has taken: then the caller gets the answer.
func TestLoneCallThatWasAnsweredIsNotCanceled(t *testing.T) {
	alone(t, false, func(t *testing.T, s *group.Store, _ *slow) {
		ctx, cancel := context.WithTimeout(t.Context(), 990*time.Millisecond)
		defer cancel()
		answers, err := s.Do(ctx, take("", 1))
		require.NoError(t, err)
		require.True(t, answers[0].Allowed())
		require.Error(t, ctx.Err())
	})
}

func TestSilentLoneCallEndsAfterTimeout(t *testing.T) {
	for _, oneWriter := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			backend := &silent{obeys: true, release: make(chan struct{})}
			s := group.New(backend, group.Options{OneWriter: oneWriter, Inline: inlineOf(backend)})
			for range 2 {
				require.LessOrEqual(t, took(func() {
					_, err := s.Do(context.Background(), take("silent", 1))
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}), bounds.Timeout)
			}
		})
	}
}

// The statement of a lone caller does not return, although its context has ended. No other call waits for it.
func TestCallsGoAroundALoneCallThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &silent{release: make(chan struct{})}
		s := group.New(backend, group.Options{Inline: inlineOf(backend)})
		var all sync.WaitGroup
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Do(ctx, take("silent", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		synctest.Wait()
		for i := range 20 {
			require.LessOrEqual(t, took(func() {
				answers, err := s.Do(context.Background(), take(fmt.Sprint(i), 1))
				require.NoError(t, err)
				require.True(t, answers[0].Allowed())
			}), aMoment)
			time.Sleep(100 * time.Millisecond)
		}
		close(backend.release)
		all.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
	})
}

func TestShutdownWaitsForALoneCall(t *testing.T) {
	alone(t, true, func(t *testing.T, s *group.Store, _ *slow) {
		var all sync.WaitGroup
		start(&all, func() {
			_, err := s.Do(t.Context(), take("", 1))
			require.NoError(t, err)
		})
		require.Equal(t, time.Second, took(func() { require.NoError(t, s.Shutdown(t.Context())) }))
		all.Wait()
	})
}

type valueKey struct{}

func TestLoneCallHasTheValuesOfItsContext(t *testing.T) {
	s := group.New(nil, group.Options{OneWriter: true, Inline: func(ctx context.Context, _ []runtime.Call) ([]runtime.Answer, bool, error) {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		require.Equal(t, "a value", child.Value(valueKey{}))
		require.Nil(t, child.Value("another key"))
		require.NoError(t, child.Err(), "it does not end with the caller's context")
		return make([]runtime.Answer, 1), true, nil
	}})
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "a value"))
	defer cancel()
	for range 2 {
		_, err := s.Do(ctx, take("", 1))
		require.NoError(t, err)
	}
}

// A driver that opens a connection within the call is not to be interrupted each time before the connection is open.
func TestLoneCallsWithAShortTimeoutGetAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, open := &memstore.Store{}, false
		backend := storeFunc(func(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
			if !open {
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				open = true
			}
			return store.Do(ctx, calls)
		})
		s := group.New(backend, group.Options{Inline: inlineOf(backend)})
		begin := time.Now()
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			_, err := s.Do(ctx, take("", 1))
			cancel()
			if err == nil {
				break
			}
			require.Less(t, time.Since(begin), time.Second)
		}
	})
}

func TestLoneCallThatPanicsLeavesTheQueueUsable(t *testing.T) {
	for _, oneWriter := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := group.New(&memstore.Store{}, group.Options{OneWriter: oneWriter, Inline: func(context.Context, []runtime.Call) ([]runtime.Answer, bool, error) {
				time.Sleep(time.Second)
				panic("a bug of a driver")
			}})
			var all sync.WaitGroup
			start(&all, func() {
				require.PanicsWithValue(t, "a bug of a driver", func() { s.Do(t.Context(), take("", 1)) })
			}, func() {
				answers, err := s.Do(t.Context(), take("", 1))
				require.NoError(t, err)
				require.True(t, answers[0].Allowed())
			})
			all.Wait()
			require.NoError(t, s.Shutdown(t.Context()))
		})
	}
}

// Under load most calls share batches, and a lone one in between would make the next batch wait for its goroutine.
func TestCallsAreAloneOnlyAfterAFlightOfOneCall(t *testing.T) {
	for _, oneWriter := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			backend, inline := &slow{}, 0
			s := group.New(backend, group.Options{OneWriter: oneWriter, Inline: func(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, bool, error) {
				inline++
				answers, err := backend.Do(ctx, calls)
				return answers, true, err
			}})
			call := func() {
				_, err := s.Do(t.Context(), take("a", 1))
				require.NoError(t, err)
			}
			var all sync.WaitGroup
			start(&all, call, call, call)
			all.Wait()
			synctest.Wait()
			require.Equal(t, 1, inline)
			call()
			synctest.Wait()
			require.Equal(t, 1, inline, "the last batch had two calls")
			call()
			require.Equal(t, 2, inline)
			require.Equal(t, [][]string{{"a"}, {"a", "a"}, {"a"}, {"a"}}, backend.batches)
		})
	}
}

func TestIdleStoreKeepsNoContext(t *testing.T) {
	store := &memstore.Store{}
	s := group.New(store, group.Options{Inline: inlineOf(store)})
	value := new([1 << 10]byte)
	kept := weak.Make(value)
	_, err := s.Do(context.WithValue(t.Context(), valueKey{}, value), take("", 1))
	require.NoError(t, err)
	value = nil
	goruntime.GC()
	require.True(t, kept.Value() == nil, "the context of a request may hold much")
	_, err = s.Do(t.Context(), take("", 1))
	require.NoError(t, err)
}

// A single lane is for a database in this process, which no context interrupts.
func TestDeadlineHoldsAlthoughTheOnlyLaneDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &silent{release: make(chan struct{})}
		s := group.New(backend, group.Options{OneWriter: true, Inline: inlineOf(backend)})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.Equal(t, time.Second, took(func() {
				_, err := s.Do(ctx, take("silent", 1))
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}))
		}
		close(backend.release)
		synctest.Wait()
		require.NoError(t, s.Shutdown(t.Context()))
	})
}
