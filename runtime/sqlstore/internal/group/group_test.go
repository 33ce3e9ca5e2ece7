package group_test

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
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

func TestStore(t *testing.T) {
	for _, o := range []group.Options{{}, {Batch: 1}, {Lanes: 4, Batch: 3}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
				return group.New(&runtime.MemStore{Clock: clock}, o)
			})
		})
	}
}

// slow is a store that takes a second, and notes what it was asked.
type slow struct {
	runtime.MemStore
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
	return s.MemStore.Do(ctx, calls)
}

var ten = &runtime.Policy{Name: "ten", Kind: runtime.TokenBucket, Rate: 10, Period: 365 * 24 * time.Hour, Capacity: 10}

// ask is a call that takes n tokens of a key.
func ask(key string, n int64) []runtime.Call {
	return []runtime.Call{{Requests: []runtime.Request{{Count: n, Policy: ten, Key: key}}}}
}

// bubble runs a test of a group before a slow store, with fake time and in which no goroutine may be left.
func bubble(t *testing.T, o group.Options, test func(t *testing.T, s *group.Store, behind *slow)) {
	synctest.Test(t, func(t *testing.T) {
		behind := &slow{}
		test(t, group.New(behind, o), behind)
	})
}

// come lets callers ask one after the other, and returns when all of them wait or are answered.
func come(all *sync.WaitGroup, callers ...func()) {
	for _, caller := range callers {
		all.Go(caller)
		synctest.Wait()
	}
}

func TestCallsThatArriveMeanwhileGoTogetherInTheirOrder(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
		var all sync.WaitGroup
		start := time.Now()
		for _, key := range []string{"a", "b", "c", "a"} {
			come(&all, func() {
				answers, err := s.Do(t.Context(), ask(key, 1))
				require.NoError(t, err)
				require.True(t, answers[0].Allowed())
			})
		}
		all.Wait()
		require.Equal(t, [][]string{{"a"}, {"b", "c", "a"}}, behind.batches)
		require.Equal(t, 2*time.Second, time.Since(start), "an idle store is asked at once")
	})
}

func TestAnswersAreThoseOfOneAfterTheOther(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
		var all sync.WaitGroup
		counts, want := []int64{4, 3, 2, 9, 1, 1}, []bool{true, true, true, false, true, false}
		got := make([]bool, len(counts))
		for i, n := range counts {
			come(&all, func() {
				answers, err := s.Do(t.Context(), ask("", n))
				require.NoError(t, err)
				got[i] = answers[0].Allowed()
			})
		}
		all.Wait()
		require.Equal(t, want, got)
	})
}

func TestBatchesAreBounded(t *testing.T) {
	bubble(t, group.Options{Batch: 3}, func(t *testing.T, s *group.Store, behind *slow) {
		var all sync.WaitGroup
		for i, n := range []int{1, 1, 1, 2, 5, 1} {
			come(&all, func() {
				var calls []runtime.Call
				for range n {
					calls = append(calls, ask(fmt.Sprint(i), 1)...)
				}
				answers, err := s.Do(t.Context(), calls)
				require.NoError(t, err)
				require.Len(t, answers, n)
			})
		}
		all.Wait()
		require.Equal(t, [][]string{{"0"}, {"1", "2"}, {"3", "3"}, {"4", "4", "4", "4", "4"}, {"5"}}, behind.batches,
			"the calls of one caller stay together, however many")
	})
}

func TestLanesDoNotWaitForEachOther(t *testing.T) {
	bubble(t, group.Options{Lanes: 8}, func(t *testing.T, s *group.Store, behind *slow) {
		var all sync.WaitGroup
		start := time.Now()
		for i := range 100 {
			come(&all, func() {
				_, err := s.Do(t.Context(), ask(fmt.Sprint(i), 1))
				require.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Len(t, behind.batches, 16, "8 alone, and 8 batches with all the others")
	})
}

func TestLeavingTheQueueTakesNothing(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
		var all sync.WaitGroup
		ended, cancel := context.WithCancel(t.Context())
		late, stop := context.WithTimeout(t.Context(), 999*time.Millisecond)
		defer stop()
		leaving := func(ctx context.Context, want error) func() {
			return func() {
				_, err := s.Do(ctx, ask("leaving", 1))
				require.ErrorIs(t, err, want)
			}
		}
		staying := func() {
			_, err := s.Do(t.Context(), ask("staying", 1))
			require.NoError(t, err)
		}
		come(&all, staying, leaving(ended, context.Canceled), leaving(late, context.DeadlineExceeded), staying)
		cancel()
		all.Wait()
		require.Equal(t, [][]string{{"staying"}, {"staying"}}, behind.batches)
	})
}

// about is a context that has ended, of which its caller has not heard yet.
type about struct {
	context.Context
	ended atomic.Bool
}

func (c *about) Err() error {
	if c.ended.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

func TestOneAboutToLeaveTakesNothing(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
		var all sync.WaitGroup
		ctx := &about{Context: t.Context()}
		staying := func() {
			answers, err := s.Do(t.Context(), ask("staying", 1))
			require.NoError(t, err)
			require.True(t, answers[0].Allowed())
		}
		come(&all, staying, staying, func() {
			_, err := s.Do(ctx, ask("leaving", 1))
			require.EqualError(t, err, "while earlier calls were under way: context deadline exceeded")
		}, staying)
		ctx.ended.Store(true)
		all.Wait()
		require.Equal(t, [][]string{{"staying"}, {"staying", "staying"}}, behind.batches)
	})
}

// flickering is a context that has ended when it is asked for the nth time, and not before.
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

// TestTheCallsOfACallerStayTogether has a context end while the batch begins: of several calls, all or none go on.
func TestTheCallsOfACallerStayTogether(t *testing.T) {
	for n := range int64(6) {
		bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
			var all sync.WaitGroup
			ctx := &flickering{Context: t.Context()}
			ctx.n.Store(n)
			come(&all, func() { s.Do(t.Context(), ask("first", 1)) }, func() {
				calls := append(append(ask("a", 1), ask("b", 1)...), ask("c", 1)...)
				answers, err := s.Do(ctx, calls)
				if err == nil {
					require.Len(t, answers, 3)
				}
				for _, a := range answers {
					require.True(t, a.Allowed())
				}
			})
			all.Wait()
			for _, batch := range behind.batches[1:] {
				require.Len(t, batch, 3)
			}
		})
	}
}

func TestLeavingABatchLeavesItToTheOthers(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
		var all sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		come(&all, func() { s.Do(t.Context(), ask("first", 1)) }, func() {
			_, err := s.Do(ctx, ask("leaving", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 1500*time.Millisecond, time.Since(start), "nobody waits longer than the context")
		}, func() {
			_, err := s.Do(t.Context(), ask("staying", 1))
			require.NoError(t, err)
		})
		all.Wait()
		require.Equal(t, [][]string{{"first"}, {"leaving", "staying"}}, behind.batches)
	})
}

func TestABatchThatAllHaveLeftEnds(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
		var all sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		leaving := func() {
			_, err := s.Do(ctx, ask("leaving", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		come(&all, func() { s.Do(t.Context(), ask("first", 1)) }, leaving, leaving)
		all.Wait()
		synctest.Wait()
		start := time.Now()
		_, err := s.Do(t.Context(), ask("next", 1))
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start), "the lane is idle again")
	})
}

func TestAnErrorOfTheStoreIsEverybodys(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
		behind.err = errors.New("the server is down")
		var all sync.WaitGroup
		failing := func() {
			_, err := s.Do(t.Context(), ask("", 1))
			require.ErrorIs(t, err, behind.err)
		}
		come(&all, failing, failing, failing)
		all.Wait()
		require.Len(t, behind.batches, 2)
	})
}

func TestABadCallIsItsCallersAlone(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
		var all sync.WaitGroup
		good := func() {
			answers, err := s.Do(t.Context(), ask("", 1))
			require.NoError(t, err)
			require.True(t, answers[0].Allowed())
		}
		bad := func() {
			answers, err := s.Do(t.Context(), ask("", 11))
			require.NoError(t, err)
			require.ErrorIs(t, answers[0].Err, runtime.ErrExceedsCapacity)
		}
		come(&all, good, good, bad, good)
		all.Wait()
	})
}

func TestCloseWaitsForThoseWhoHaveCome(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
		var all sync.WaitGroup
		start := time.Now()
		asking := func() {
			_, err := s.Do(t.Context(), ask("", 1))
			require.NoError(t, err)
		}
		come(&all, asking, asking, asking)
		require.NoError(t, s.Close())
		require.Equal(t, 2*time.Second, time.Since(start))
		all.Wait()
		asking()
		require.Len(t, behind.batches, 3, "who comes later is answered by the store behind")
	})
}

func TestATransactionOfTheCallerGoesByItself(t *testing.T) {
	bubble(t, group.Options{}, func(t *testing.T, s *group.Store, behind *slow) {
		_, err := s.WithTx(nil).Do(t.Context(), ask("", 1))
		require.ErrorIs(t, err, runtime.ErrNoTx, "the store behind knows none")
	})
}
