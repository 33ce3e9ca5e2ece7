package group_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

// silent is a store that does not answer calls for the key "silent" until release is closed.
type silent struct {
	memstore.Store
	// obeys: Do returns when its context ends, as most drivers do.
	obeys   bool
	release chan struct{}
	mu      sync.Mutex
	begun   []string // the keys of all calls
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
	return s.Store.Do(ctx, calls)
}

// silence runs a test over a silent backend, which answers when the test has ended.
func silence(t *testing.T, o group.Options, test func(t *testing.T, s *group.Store, backend *silent)) {
	for _, obeys := range []bool{true, false} {
		t.Run(fmt.Sprintf("obeys=%v", obeys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := &silent{obeys: obeys, release: make(chan struct{})}
				defer close(backend.release)
				test(t, group.New(backend, o), backend)
			})
		})
	}
}

// took returns how long f takes.
func took(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

func TestCallEndsAfterTimeout(t *testing.T) {
	for _, o := range []group.Options{{}, {Batch: 1}} {
		for name, deadline := range map[string]time.Duration{"none": 0, "later": time.Hour} {
			silence(t, o, func(t *testing.T, s *group.Store, backend *silent) {
				ctx := context.Background()
				if deadline > 0 {
					later, cancel := context.WithTimeout(ctx, deadline)
					defer cancel()
					ctx = later
				}
				require.LessOrEqual(t, took(func() {
					_, err := s.Do(ctx, take("silent", 1))
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}), bounds.Timeout, name)
			})
		}
	}
}

func TestQueueGoesOnWithoutABackendThatDoesNotReturn(t *testing.T) {
	silence(t, group.Options{}, func(t *testing.T, s *group.Store, backend *silent) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, time.Second, took(func() {
			_, err := s.Do(ctx, take("silent", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}))
		require.Less(t, took(func() {
			for i := range 20 {
				answers, err := s.Do(context.Background(), take(fmt.Sprint(i), 1))
				require.NoError(t, err)
				require.True(t, answers[0].Allowed())
			}
		}), time.Second)
	})
}

// aMoment is how long a call waits for a silent connection if its key has the hash of one in flight. All others wait for a
// tenth of that.
const aMoment = 250 * time.Millisecond

// The second call is for the same key, so that it waits, but only for a moment.
func TestCallForAKeyOnASilentConnectionWaitsForAMoment(t *testing.T) {
	silence(t, group.Options{}, func(t *testing.T, s *group.Store, backend *silent) {
		go s.Do(context.Background(), take("silent", 1))
		synctest.Wait()
		begin := time.Now()
		go s.Do(context.Background(), take("silent", 1))
		time.Sleep(aMoment - time.Millisecond)
		backend.mu.Lock()
		require.Len(t, backend.begun, 1)
		backend.mu.Unlock()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		backend.mu.Lock()
		require.Len(t, backend.begun, 2)
		backend.mu.Unlock()
		require.Equal(t, aMoment, time.Since(begin))
		time.Sleep(2 * bounds.Timeout)
	})
}

func TestCallsSoonGoAroundASilentConnection(t *testing.T) {
	silence(t, group.Options{}, func(t *testing.T, s *group.Store, backend *silent) {
		go s.Do(context.Background(), take("silent", 1))
		synctest.Wait()
		require.LessOrEqual(t, took(func() {
			answers, err := s.Do(context.Background(), take("other", 1))
			require.NoError(t, err)
			require.True(t, answers[0].Allowed())
		}), aMoment)
		time.Sleep(bounds.Timeout)
	})
}

// The first batch takes longer than calls wait for it, and the second one, which its calls then make, falls silent.
func TestCallBehindTwoSlowBatchesWaitsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store memstore.Store
		var begun atomic.Int64
		release := make(chan struct{})
		s := group.New(storeFunc(func(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
			switch begun.Add(1) {
			case 1:
				time.Sleep(aMoment + aMoment/5)
			case 2:
				<-release
			}
			return store.Do(ctx, calls)
		}), group.Options{Batch: 1})
		var all sync.WaitGroup
		call := func() { s.Do(context.Background(), take("hot", 1)) }
		start(&all, call, call)
		require.LessOrEqual(t, took(func() {
			_, err := s.Do(context.Background(), take("hot", 1))
			require.NoError(t, err)
		}), 2*aMoment)
		close(release)
		all.Wait()
	})
}

func TestQueuedCallsAfterASilentBatchEndWithinTimeout(t *testing.T) {
	silence(t, group.Options{Batch: 1}, func(t *testing.T, s *group.Store, backend *silent) {
		var all sync.WaitGroup
		begin := time.Now()
		for range 4 {
			start(&all, func() {
				_, err := s.Do(context.Background(), take("silent", 1))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.LessOrEqual(t, time.Since(begin), bounds.Timeout+100*time.Millisecond)
			})
		}
		all.Wait()
		backend.mu.Lock()
		defer backend.mu.Unlock()
		require.Len(t, backend.begun, 4, "each after a moment, as soon as a lane is free")
	})
}

func TestSingleLaneNeverReordersBatches(t *testing.T) {
	silence(t, group.Options{OneWriter: true}, func(t *testing.T, s *group.Store, backend *silent) {
		var all sync.WaitGroup
		begin := time.Now()
		start(&all, func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := s.Do(ctx, take("silent", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}, func() {
			_, err := s.Do(context.Background(), take("next", 1))
			if backend.obeys {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		})
		all.Wait()
		require.LessOrEqual(t, time.Since(begin), bounds.Timeout+100*time.Millisecond)
		backend.mu.Lock()
		defer backend.mu.Unlock()
		require.Equal(t, backend.obeys, len(backend.begun) == 2, "the next batch begins only when the backend has returned")
	})
}

func TestCallBehindAnAbandonedBatchEndsAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &silent{release: make(chan struct{})}
		s := group.New(backend, group.Options{OneWriter: true})
		for range 3 {
			require.LessOrEqual(t, took(func() {
				_, err := s.Do(context.Background(), take("silent", 1))
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}), bounds.Timeout)
		}
		close(backend.release)
		synctest.Wait()
		_, err := s.Do(context.Background(), take("next", 1))
		require.NoError(t, err)
	})
}

func TestBatchThatAllCallersHaveLeftMayEndALittleLater(t *testing.T) {
	silence(t, group.Options{}, func(t *testing.T, s *group.Store, backend *silent) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := s.Do(ctx, take("silent", 1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(200 * time.Millisecond)
		backend.release <- struct{}{}
		synctest.Wait()
		answers, err := s.Do(t.Context(), take("silent2", 10))
		require.NoError(t, err)
		require.True(t, answers[0].Allowed())
		answers, err = backend.Store.Do(t.Context(), take("silent", 10))
		require.NoError(t, err)
		require.False(t, answers[0].Allowed(), "the abandoned batch has taken its token")
	})
}

func TestLateAnswerOfAnAbandonedBatchIsDropped(t *testing.T) {
	silence(t, group.Options{}, func(t *testing.T, s *group.Store, backend *silent) {
		if backend.obeys {
			return
		}
		var all sync.WaitGroup
		for range 3 {
			start(&all, func() {
				_, err := s.Do(context.Background(), take("silent", 1))
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		all.Wait()
		backend.release <- struct{}{}
		backend.release <- struct{}{}
		synctest.Wait()
		answers, err := backend.Store.Do(t.Context(), take("silent", 7))
		require.NoError(t, err)
		require.True(t, answers[0].Allowed(), "at most the three tokens were taken")
	})
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	silence(t, group.Options{}, func(t *testing.T, s *group.Store, backend *silent) {
		go s.Do(context.Background(), take("silent", 1))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, time.Second, took(func() {
			require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		}))
		ctx, cancel = context.WithTimeout(context.Background(), bounds.Timeout)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx), "the batch is abandoned within Timeout")
	})
}
