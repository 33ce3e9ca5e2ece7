package group_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

func TestStore(t *testing.T) {
	for _, o := range []group.Options{{}, {Batch: 1}, {Batch: 3}, {OneWriter: true}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
				return group.New(&memstore.Store{Clock: clock}, o)
			})
		})
	}
}

// slow is a store that takes a second for each call, and records the keys of its calls.
type slow struct {
	memstore.Store
	mu      sync.Mutex
	batches [][]string
	err     error
}

func (s *slow) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	var keys []string
	for _, c := range calls {
		keys = append(keys, c.Requests[0].Key)
	}
	s.mu.Lock()
	s.batches = append(s.batches, keys)
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.Store.Do(ctx, calls)
}

var ten = &runtime.Policy{Name: "ten", Kind: runtime.TokenBucket, Rate: 10, Period: 365 * 24 * time.Hour, Capacity: 10}

// take returns a call that takes n tokens of a key.
func take(key string, n int64) []runtime.Call {
	return []runtime.Call{{Requests: []runtime.Request{{Count: n, Policy: ten, Key: key}}}}
}

// bubble runs a test of a group over a slow backend, with fake time. It fails if a goroutine is left.
func bubble(t *testing.T, o group.Options, test func(t *testing.T, s *group.Store, backend *slow)) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slow{}
		test(t, group.New(backend, o), backend)
	})
}

// start starts callers one after the other, and returns when all of them wait or have returned.
func start(all *sync.WaitGroup, callers ...func()) {
	for _, caller := range callers {
		all.Go(caller)
		synctest.Wait()
	}
}

func TestConcurrentCallsShareABatchInOrderOfArrival(t *testing.T) {
	bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
		var all sync.WaitGroup
		begin := time.Now()
		for _, key := range []string{"a", "b", "c", "a"} {
			start(&all, func() {
				answers, err := s.Do(t.Context(), take(key, 1))
				require.NoError(t, err)
				require.True(t, answers[0].Allowed())
			})
		}
		all.Wait()
		require.Equal(t, [][]string{{"a"}, {"b", "c", "a"}}, backend.batches)
		require.Equal(t, 2*time.Second, time.Since(begin), "an idle store is called at once")
	})
}

func TestAnswersOfABatchEqualSequentialAnswers(t *testing.T) {
	bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
		var all sync.WaitGroup
		counts, want := []int64{4, 3, 2, 9, 1, 1}, []bool{true, true, true, false, true, false}
		got := make([]bool, len(counts))
		for i, n := range counts {
			start(&all, func() {
				answers, err := s.Do(t.Context(), take("", n))
				require.NoError(t, err)
				got[i] = answers[0].Allowed()
			})
		}
		all.Wait()
		require.Equal(t, want, got)
	})
}

func TestBatchIsBoundedButKeepsCallsOfACallerTogether(t *testing.T) {
	bubble(t, group.Options{OneWriter: true, Batch: 3}, func(t *testing.T, s *group.Store, backend *slow) {
		var all sync.WaitGroup
		for i, n := range []int{1, 1, 1, 2, 5, 1} {
			start(&all, func() {
				var calls []runtime.Call
				for range n {
					calls = append(calls, take(fmt.Sprint(i), 1)...)
				}
				answers, err := s.Do(t.Context(), calls)
				require.NoError(t, err)
				require.Len(t, answers, n)
			})
		}
		all.Wait()
		require.Equal(t, [][]string{{"0"}, {"1", "2"}, {"3", "3"}, {"4", "4", "4", "4", "4"}, {"5"}}, backend.batches,
			"the calls of one caller stay in one batch, even if they exceed the bound")
	})
}

// A row may be locked by somebody else's transaction. Calls for other keys go around the flight that waits for it.
func TestCallsForAKeyInFlightShareTheNextBatch(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, backend *slow) {
		var all sync.WaitGroup
		call := func(key string) func() {
			return func() {
				_, err := s.Do(t.Context(), take(key, 0))
				require.NoError(t, err)
			}
		}
		for range 485 {
			start(&all, call("hot"))
		}
		for i := range 100 {
			start(&all, call(fmt.Sprint(i)))
		}
		backend.mu.Lock()
		require.Len(t, backend.batches, 1)
		backend.mu.Unlock()
		time.Sleep(aMoment / 10)
		synctest.Wait()
		backend.mu.Lock()
		require.Len(t, backend.batches, 2)
		require.NotContains(t, backend.batches[1], "hot")
		// Two of the keys may have the same hash.
		require.Greater(t, len(backend.batches[1]), 90)
		backend.mu.Unlock()
		all.Wait()
		hot := 0
		for _, batch := range backend.batches {
			if slices.Contains(batch, "hot") {
				hot++
			}
		}
		require.Equal(t, 2, hot)
	})
}

// More callers than fit into the batches of all lanes, with keys that keep batches waiting for each other.
func TestNoCallStarvesBehindLaterOnes(t *testing.T) {
	bubble(t, group.Options{Batch: 2}, func(t *testing.T, s *group.Store, _ *slow) {
		const callers = 8
		var all sync.WaitGroup
		end := time.Now().Add(10 * time.Minute)
		for i := range callers {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			all.Go(func() {
				for time.Now().Before(end) {
					key := fmt.Sprint(random.IntN(6))
					if random.IntN(3) == 0 {
						key = "hot"
					}
					begin := time.Now()
					_, err := s.Do(t.Context(), take(key, 1))
					require.NoError(t, err)
					// One lane could answer all in callers/2 seconds, and each waits at most for those before.
					require.LessOrEqual(t, time.Since(begin), (callers/2+1)*time.Second, key)
				}
			})
		}
		all.Wait()
	})
}

func TestCanceledQueuedCallTakesNothing(t *testing.T) {
	bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
		var all sync.WaitGroup
		ended, cancel := context.WithCancel(t.Context())
		late, stop := context.WithTimeout(t.Context(), 999*time.Millisecond)
		defer stop()
		leaving := func(ctx context.Context, want error) func() {
			return func() {
				_, err := s.Do(ctx, take("leaving", 1))
				require.ErrorIs(t, err, want)
			}
		}
		staying := func() {
			_, err := s.Do(t.Context(), take("staying", 1))
			require.NoError(t, err)
		}
		start(&all, staying, leaving(ended, context.Canceled), leaving(late, context.DeadlineExceeded), staying)
		cancel()
		all.Wait()
		require.Equal(t, [][]string{{"staying"}, {"staying"}}, backend.batches)
	})
}

// unnoticed is a context whose Err is set while its Done channel stays open.
type unnoticed struct {
	context.Context
	ended atomic.Bool
}

func (c *unnoticed) Err() error {
	if c.ended.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

func TestContextThatEndsBeforeTheBatchBeginsTakesNothing(t *testing.T) {
	bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
		var all sync.WaitGroup
		ctx := &unnoticed{Context: t.Context()}
		staying := func() {
			answers, err := s.Do(t.Context(), take("staying", 1))
			require.NoError(t, err)
			require.True(t, answers[0].Allowed())
		}
		start(&all, staying, staying, func() {
			_, err := s.Do(ctx, take("leaving", 1))
			require.EqualError(t, err, "waiting for earlier calls: context deadline exceeded")
		}, staying)
		ctx.ended.Store(true)
		all.Wait()
		require.Equal(t, [][]string{{"staying"}, {"staying", "staying"}}, backend.batches)
	})
}

// flickering is a context whose Err returns nil n times, and then an error.
type flickering struct {
	context.Context
	n atomic.Int64
}

func (c *flickering) Err() error {
	if c.n.Add(-1) < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// The context ends while the batch begins: either all calls of its caller are made, or none.
func TestCallsOfACallerAreDroppedTogether(t *testing.T) {
	for n := range int64(6) {
		bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
			var all sync.WaitGroup
			ctx := &flickering{Context: t.Context()}
			ctx.n.Store(n)
			start(&all, func() { s.Do(t.Context(), take("first", 1)) }, func() {
				calls := append(append(take("a", 1), take("b", 1)...), take("c", 1)...)
				answers, err := s.Do(ctx, calls)
				if err == nil {
					require.Len(t, answers, 3)
				}
				for _, a := range answers {
					require.True(t, a.Allowed())
				}
			})
			all.Wait()
			for _, batch := range backend.batches[1:] {
				require.Len(t, batch, 3)
			}
		})
	}
}

func TestCanceledCallInFlightDoesNotAffectItsBatch(t *testing.T) {
	bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
		var all sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		begin := time.Now()
		start(&all, func() { s.Do(t.Context(), take("first", 1)) }, func() {
			_, err := s.Do(ctx, take("leaving", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 1500*time.Millisecond, time.Since(begin), "a caller waits no longer than its context")
		}, func() {
			_, err := s.Do(t.Context(), take("staying", 1))
			require.NoError(t, err)
		})
		all.Wait()
		require.Equal(t, [][]string{{"first"}, {"leaving", "staying"}}, backend.batches)
	})
}

func TestBatchEndsWhenAllItsCallersHaveLeft(t *testing.T) {
	bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
		var all sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		leaving := func() {
			_, err := s.Do(ctx, take("leaving", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		start(&all, func() { s.Do(t.Context(), take("first", 1)) }, leaving, leaving)
		all.Wait()
		synctest.Wait()
		begin := time.Now()
		_, err := s.Do(t.Context(), take("next", 1))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begin), "the lane is idle again")
	})
}

func TestErrorOfTheBackendIsReturnedToAllCallers(t *testing.T) {
	bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
		backend.err = errors.New("the server is down")
		var all sync.WaitGroup
		failing := func() {
			_, err := s.Do(t.Context(), take("", 1))
			require.ErrorIs(t, err, backend.err)
		}
		start(&all, failing, failing, failing)
		all.Wait()
		require.Len(t, backend.batches, 2)
	})
}

func TestInvalidCallFailsOnlyItsCaller(t *testing.T) {
	bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
		var all sync.WaitGroup
		good := func() {
			answers, err := s.Do(t.Context(), take("", 1))
			require.NoError(t, err)
			require.True(t, answers[0].Allowed())
		}
		bad := func() {
			answers, err := s.Do(t.Context(), take("", 11))
			require.NoError(t, err)
			require.ErrorIs(t, answers[0].Err, runtime.ErrExceedsCapacity)
		}
		start(&all, good, good, bad, good)
		all.Wait()
	})
}

func TestShutdownWaitsForCallsInFlight(t *testing.T) {
	bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
		var all sync.WaitGroup
		begin := time.Now()
		call := func() {
			_, err := s.Do(t.Context(), take("", 1))
			require.NoError(t, err)
		}
		start(&all, call, call, call)
		require.NoError(t, s.Shutdown(t.Context()))
		require.Equal(t, 2*time.Second, time.Since(begin))
		all.Wait()
		call()
		require.Len(t, backend.batches, 3, "later calls go to the backend")
	})
}

func TestTransactionsAreNotGrouped(t *testing.T) {
	bubble(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *slow) {
		_, err := runtime.InTx(s, nil).Do(t.Context(), take("", 1))
		require.ErrorIs(t, err, runtime.ErrNoTx)
	})
}

// storeFunc is a store that is a function.
type storeFunc func(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error)

func (f storeFunc) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	return f(ctx, calls)
}

var errLocked = errors.New("a row is locked")

// partial is a store that answers all calls except those for the key "locked".
type partial struct{ memstore.Store }

func (s *partial) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	time.Sleep(time.Millisecond)
	answers := make([]runtime.Answer, len(calls))
	var failed error
	for i, c := range calls {
		if c.Requests[0].Key == "locked" {
			failed = errLocked
			continue
		}
		one, err := s.Store.Do(ctx, []runtime.Call{c})
		if err != nil {
			return nil, err
		}
		answers[i] = one[0]
	}
	return answers, failed
}

func TestCallThatCannotBeAnsweredDoesNotAffectItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := group.New(&partial{}, group.Options{OneWriter: true})
		var all sync.WaitGroup
		start(&all, func() { s.Do(t.Context(), take("first", 1)) })
		for _, key := range []string{"a", "locked", "b", "c"} {
			start(&all, func() {
				answers, err := s.Do(t.Context(), take(key, 1))
				if key == "locked" {
					require.ErrorIs(t, err, errLocked)
					return
				}
				require.NoError(t, err)
				require.True(t, answers[0].Allowed(), key)
			})
		}
		all.Go(func() {
			answers, err := s.Do(t.Context(), append(take("mine", 1), take("locked", 1)...))
			require.ErrorIs(t, err, errLocked)
			require.Len(t, answers, 2, "the answer to the call that was made is returned with the error")
			require.True(t, answers[0].Allowed())
			require.False(t, answers[1].Answered())
		})
		all.Wait()
	})
}
