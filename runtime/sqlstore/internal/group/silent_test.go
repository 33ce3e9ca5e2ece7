package group_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

// silent is a store that does not answer calls for the key "silent" until release is closed.
type silent struct {
	runtime.MemStore
	// obeys: it returns when its context ends, as most drivers do.
	obeys   bool
	release chan struct{}
	mu      sync.Mutex
	begun   []string
}

func (s *silent) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	s.mu.Lock()
	for _, c := range calls {
		s.begun = append(s.begun, c.Requests[0].Key)
	}
	s.mu.Unlock()
	ended := ctx.Done()
	if !s.obeys {
		ended = nil
	}
	if calls[0].Requests[0].Key == "silent" {
		select {
		case <-s.release:
		case <-ended:
			return nil, ctx.Err()
		}
	}
	return s.MemStore.Do(ctx, calls)
}

// silence runs a test before a silent store, and has the store answer in the end.
func silence(t *testing.T, o group.Options, test func(t *testing.T, s *group.Store, behind *silent)) {
	for _, obeys := range []bool{true, false} {
		t.Run(fmt.Sprintf("obeys=%v", obeys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := &silent{obeys: obeys, release: make(chan struct{})}
				defer close(behind.release)
				test(t, group.New(behind, o), behind)
			})
		})
	}
}

// took returns how long f takes.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func TestCallWithoutDeadlineEndsWithTheTimeout(t *testing.T) {
	for _, o := range []group.Options{{Lanes: 2}, {Lanes: group.NoLanes}} {
		silence(t, o, func(t *testing.T, s *group.Store, behind *silent) {
			require.LessOrEqual(t, took(func() {
				_, err := s.Do(context.Background(), ask("silent", 1))
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}), group.Timeout)
		})
	}
}

func TestLaneGoesOnWithoutAStoreThatDoesNotAnswer(t *testing.T) {
	silence(t, group.Options{Lanes: 2}, func(t *testing.T, s *group.Store, behind *silent) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, time.Second, took(func() {
			_, err := s.Do(ctx, ask("silent", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}))
		// Both lanes: one of them is that of the silent key.
		require.Less(t, took(func() {
			for i := range 20 {
				answers, err := s.Do(context.Background(), ask(fmt.Sprint(i), 1))
				require.NoError(t, err)
				require.True(t, answers[0].Allowed())
			}
		}), time.Second)
	})
}

func TestCallsBehindASilentBatchHaveTheRestOfTheTimeout(t *testing.T) {
	silence(t, group.Options{Lanes: 2, Batch: 1}, func(t *testing.T, s *group.Store, behind *silent) {
		var all sync.WaitGroup
		start := time.Now()
		for range 4 {
			come(&all, func() {
				_, err := s.Do(context.Background(), ask("silent", 1))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.LessOrEqual(t, time.Since(start), group.Timeout+100*time.Millisecond)
			})
		}
		all.Wait()
		behind.mu.Lock()
		defer behind.mu.Unlock()
		require.Len(t, behind.begun, 2, "one after the other, each for half of the timeout")
	})
}

func TestASingleLaneKeepsItsOrder(t *testing.T) {
	silence(t, group.Options{}, func(t *testing.T, s *group.Store, behind *silent) {
		var all sync.WaitGroup
		start := time.Now()
		come(&all, func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := s.Do(ctx, ask("silent", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}, func() {
			_, err := s.Do(context.Background(), ask("next", 1))
			if behind.obeys {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		})
		all.Wait()
		require.LessOrEqual(t, time.Since(start), group.Timeout+100*time.Millisecond)
		behind.mu.Lock()
		defer behind.mu.Unlock()
		require.Equal(t, behind.obeys, len(behind.begun) == 2, "not before the store has returned")
	})
}

func TestABatchThatAllHaveLeftMayEndALittleLater(t *testing.T) {
	silence(t, group.Options{Lanes: 2}, func(t *testing.T, s *group.Store, behind *silent) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := s.Do(ctx, ask("silent", 1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(200 * time.Millisecond)
		behind.release <- struct{}{}
		synctest.Wait()
		answers, err := s.Do(t.Context(), ask("silent2", 10))
		require.NoError(t, err)
		require.True(t, answers[0].Allowed())
		answers, err = behind.MemStore.Do(t.Context(), ask("silent", 10))
		require.NoError(t, err)
		require.False(t, answers[0].Allowed(), "it has been carried out")
	})
}

func TestALateAnswerOfAGivenUpBatchIsNobodys(t *testing.T) {
	silence(t, group.Options{Lanes: 2}, func(t *testing.T, s *group.Store, behind *silent) {
		if behind.obeys {
			return
		}
		var all sync.WaitGroup
		for range 3 {
			come(&all, func() {
				_, err := s.Do(context.Background(), ask("silent", 1))
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		all.Wait()
		behind.release <- struct{}{}
		behind.release <- struct{}{}
		synctest.Wait()
		answers, err := behind.MemStore.Do(t.Context(), ask("silent", 7))
		require.NoError(t, err)
		require.True(t, answers[0].Allowed(), "no more than the three were taken")
	})
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	silence(t, group.Options{Lanes: 2}, func(t *testing.T, s *group.Store, behind *silent) {
		go s.Do(context.Background(), ask("silent", 1))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, time.Second, took(func() {
			require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		}))
		require.NoError(t, s.Close(), "by then, the batch has been given up")
	})
}
