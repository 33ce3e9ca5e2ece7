package group_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

// erratic is a store that takes random times, mostly short ones, and may ignore its context. It counts how often it has
// made each call, by its key.
type erratic struct {
	obeys bool
	mu    sync.Mutex
	made  map[string]int
	// got counts who has got the answer to a call: its caller, or Undelivered.
	got map[string]int
}

// gets counts the answers that a caller or Undelivered has got.
func (s *erratic) gets(answers []runtime.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range answers {
		s.got[a.Decisions[0].Limit]++
	}
}

func (s *erratic) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	takes := time.Duration(rand.ExpFloat64() * float64(20*time.Millisecond))
	if rand.IntN(50) == 0 {
		takes = rand.N(2 * bounds.Timeout)
	}
	ended := ctx.Done()
	if !s.obeys {
		ended = nil
	}
	select {
	case <-time.After(takes):
	case <-ended:
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]runtime.Answer, len(calls))
	for i, c := range calls {
		s.made[c.Requests[0].Key]++
		answers[i] = runtime.Answer{Decisions: []runtime.Decision{{Allowed: true, Limit: c.Requests[0].Key}}}
	}
	return answers, nil
}

// Whatever the backend does, every call returns in time with its own answer, an answered call was made once, and one that
// failed was made once at most, and never if it was still queued. Each answer goes to the caller or is undelivered.
func TestEveryCallReturnsInTimeAndIsMadeOnceAtMost(t *testing.T) {
	for _, oneWriter := range []bool{false, true} {
		for _, obeys := range []bool{true, false} {
			t.Run(fmt.Sprintf("oneWriter=%v obeys=%v", oneWriter, obeys), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					backend := &erratic{obeys: obeys, made: map[string]int{}, got: map[string]int{}}
					o := group.Options{OneWriter: oneWriter, Batch: 1 + rand.IntN(8)}
					o.Undelivered = func(calls []runtime.Call, answers []runtime.Answer) {
						require.Len(t, answers, len(calls))
						for i, a := range answers {
							require.Equal(t, calls[i].Requests[0].Key, a.Decisions[0].Limit)
						}
						backend.gets(answers)
					}
					// An InlineFunc must obey unless there is one writer.
					if obeys {
						o.Inline = func(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, bool, error) {
							if rand.IntN(8) == 0 {
								return nil, false, nil
							}
							answers, err := backend.Do(ctx, calls)
							return answers, true, err
						}
					}
					s := group.New(backend, o)
					var all sync.WaitGroup
					for caller := range 12 {
						all.Go(func() {
							for i := range 100 {
								oneCall(t, s, backend, fmt.Sprintf("%d-%d", caller, i))
								time.Sleep(time.Duration(rand.ExpFloat64() * float64(30*time.Millisecond)))
							}
						})
					}
					all.Wait()
					time.Sleep(3 * bounds.Timeout)
					require.NoError(t, s.Shutdown(t.Context()))
					backend.mu.Lock()
					defer backend.mu.Unlock()
					for key, n := range backend.made {
						require.Equal(t, 1, n, key)
						require.Equal(t, 1, backend.got[key], key)
					}
				})
			})
		}
	}
}

// oneCall makes a call under a context that mostly has a deadline.
func oneCall(t *testing.T, s *group.Store, backend *erratic, key string) {
	ctx, limit := context.Background(), bounds.Timeout
	if rand.IntN(4) > 0 {
		limit = rand.N(200 * time.Millisecond)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	begin := time.Now()
	answers, err := s.Do(ctx, take(key, 1))
	backend.gets(answers)
	require.LessOrEqual(t, time.Since(begin), limit+100*time.Millisecond, key)
	backend.mu.Lock()
	made := backend.made[key]
	backend.mu.Unlock()
	switch {
	case err == nil:
		require.Equal(t, key, answers[0].Decisions[0].Limit)
		require.Equal(t, 1, made)
	case strings.HasPrefix(err.Error(), "waiting for earlier calls"):
		require.Zero(t, made, key)
	default:
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, made, 1)
	}
}
