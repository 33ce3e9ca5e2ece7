package group_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

// lockable is a backend with rows that other transactions lock: those whose keys begin with "locked", until they are freed.
type lockable struct {
	memstore.Store
	freed chan struct{}

	mu sync.Mutex
	// waiting counts the calls of Wait in flight by key, and most is how many there were at once.
	waiting map[string]int
	most    int
}

func (s *lockable) locks(r *runtime.Request) bool {
	select {
	case <-s.freed:
		return false
	default:
		return strings.HasPrefix(r.Key, "locked") && r.Op != runtime.Peek
	}
}

// Do answers the calls whose rows are free. It takes a millisecond, and with others a moment longer.
func (s *lockable) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	time.Sleep(time.Millisecond)
	answers, found := make([]runtime.Answer, len(calls)), &group.LockedError{Err: errors.New("lock timeout")}
	for i, c := range calls {
		before := len(found.Rows)
		for j := range c.Requests {
			if r := &c.Requests[j]; s.locks(r) {
				found.Rows = append(found.Rows, runtime.Row{Name: r.Policy.Name, Key: r.Key})
			}
		}
		if len(found.Rows) > before {
			continue
		}
		got, err := s.Store.Do(ctx, calls[i:i+1])
		if err != nil {
			return answers, err
		}
		answers[i] = got[0]
	}
	if len(found.Rows) > 0 {
		time.Sleep(50 * time.Millisecond)
		return answers, found
	}
	return answers, nil
}

// Wait answers all calls, when their rows are free.
func (s *lockable) Wait(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	for _, c := range calls {
		for i := range c.Requests {
			if r := &c.Requests[i]; s.locks(r) {
				s.count(r.Key, 1)
				defer s.count(r.Key, -1)
				select {
				case <-s.freed:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		}
	}
	time.Sleep(time.Millisecond)
	return s.Store.Do(ctx, calls)
}

func (s *lockable) count(key string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[key] += n
	sum := 0
	for _, n := range s.waiting {
		sum += n
	}
	s.most = max(s.most, sum)
}

// locking runs a test of a group over a backend whose rows are locked until the test ends.
func locking(t *testing.T, o group.Options, test func(t *testing.T, s *group.Store, backend *lockable)) {
	synctest.Test(t, func(t *testing.T) {
		backend := &lockable{freed: make(chan struct{}), waiting: map[string]int{}}
		o.Wait = backend.Wait
		s := group.New(backend, o)
		test(t, s, backend)
		require.NoError(t, s.Shutdown(context.Background()))
	})
}

// callOthers makes calls for keys that are free, each of which must be answered in a moment.
func callOthers(t *testing.T, s *group.Store, of time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	begin := time.Now()
	for i := range 10 {
		all.Go(func() {
			for n := 0; time.Since(begin) < of; n++ {
				assert.LessOrEqual(t, took(func() {
					answers, err := s.Do(t.Context(), take(fmt.Sprint("free ", i, " ", n), 1))
					if assert.NoError(t, err) {
						assert.True(t, answers[0].Allowed())
					}
				}), 2*aMoment)
			}
		})
	}
	all.Wait()
}

func TestLockedRowsMakeNoOtherCallWait(t *testing.T) {
	for _, c := range []struct{ keys, connections, most int }{{1, 0, 1}, {3, 0, 3}, {20, 0, 8}, {20, 6, 3}, {2, 1, 1}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			locking(t, group.Options{Connections: func() int { return c.connections }}, func(t *testing.T, s *group.Store, backend *lockable) {
				var patient sync.WaitGroup
				for i := range c.keys {
					for range 4 {
						patient.Go(func() {
							answers, err := s.Do(t.Context(), take(fmt.Sprint("locked ", i), 1))
							if assert.NoError(t, err) {
								assert.True(t, answers[0].Allowed())
							}
						})
					}
				}
				callOthers(t, s, 4*time.Second)
				backend.mu.Lock()
				for key, n := range backend.waiting {
					assert.LessOrEqual(t, n, 1, "calls of the backend that wait for %s", key)
				}
				assert.Positive(t, backend.most)
				assert.LessOrEqual(t, backend.most, c.most, "calls of the backend that wait")
				backend.mu.Unlock()
				close(backend.freed)
				patient.Wait()
				for i := range c.keys {
					answers, err := s.Do(t.Context(), take(fmt.Sprint("locked ", i), 7))
					require.NoError(t, err)
					require.False(t, answers[0].Allowed(), "each of the four calls has taken its token once")
				}
			})
		})
	}
}

// Calls that need a row which is locked wait, and others about the same limits do not.
func TestCallsWithALockedRowAmongOthersWait(t *testing.T) {
	locking(t, group.Options{}, func(t *testing.T, s *group.Store, backend *lockable) {
		both := take("free", 1)
		both[0].Requests = append(both[0].Requests, take("locked", 1)[0].Requests...)
		begin := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				answers, err := s.Do(t.Context(), both)
				if assert.NoError(t, err) {
					assert.True(t, answers[0].Allowed())
				}
				assert.GreaterOrEqual(t, time.Since(begin), time.Second)
			})
		}
		callOthers(t, s, time.Second)
		close(backend.freed)
		all.Wait()
	})
}

func TestReadsDoNotWaitForLockedRows(t *testing.T) {
	locking(t, group.Options{}, func(t *testing.T, s *group.Store, backend *lockable) {
		var all sync.WaitGroup
		all.Go(func() { s.Do(t.Context(), take("locked", 1)) })
		callOthers(t, s, time.Second)
		peek := take("locked", 0)
		peek[0].Requests[0].Op = runtime.Peek
		require.LessOrEqual(t, took(func() {
			_, err := s.Do(t.Context(), peek)
			require.NoError(t, err)
		}), aMoment)
		close(backend.freed)
		all.Wait()
	})
}

// The calls of a caller that were answered beside one that waits are not made again.
func TestAnsweredCallsAreNotRepeated(t *testing.T) {
	locking(t, group.Options{}, func(t *testing.T, s *group.Store, backend *lockable) {
		time.AfterFunc(time.Second, func() { close(backend.freed) })
		answers, err := s.Do(t.Context(), append(take("free", 6), take("locked", 6)...))
		require.NoError(t, err)
		require.Len(t, answers, 2)
		require.True(t, answers[0].Allowed())
		require.True(t, answers[1].Allowed())
		for _, key := range []string{"free", "locked"} {
			answers, err := s.Do(t.Context(), take(key, 4))
			require.NoError(t, err)
			require.True(t, answers[0].Allowed(), "six of ten are taken")
		}
	})
}

// The error names the limit, and the transaction if that is known.
func TestErrorOfACallForALockedRowNamesItsLimit(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, patience := range []time.Duration{time.Second, time.Hour} {
			o := group.Options{Holder: func(context.Context, runtime.Row) (string, bool) { return "session 7", true }}
			locking(t, o, func(t *testing.T, s *group.Store, backend *lockable) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				var all sync.WaitGroup
				if shared {
					all.Go(func() { callOthers(t, s, 100*time.Millisecond) })
				}
				require.LessOrEqual(t, took(func() {
					_, err := s.Do(ctx, take("locked", 1))
					var row *group.RowError
					require.ErrorAs(t, err, &row)
					require.Equal(t, "ten", row.Limit)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorContains(t, err, `another transaction (session 7) has locked the row of limit "ten" and this key: `)
					require.NotContains(t, err.Error(), "locked 1")
				}), min(patience, bounds.Timeout))
				all.Wait()
				require.LessOrEqual(t, took(func() {
					_, err := s.Do(t.Context(), take("free", 1))
					require.NoError(t, err)
				}), aMoment)
			})
		}
	}
}

// Where nothing says that the row is locked, the error does not either.
func TestErrorOfASlowBackendNamesNoTransaction(t *testing.T) {
	locking(t, group.Options{Holder: func(context.Context, runtime.Row) (string, bool) { return "", false }},
		func(t *testing.T, s *group.Store, backend *lockable) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Do(ctx, take("locked", 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.False(t, errors.As(err, new(*group.RowError)))
		})
}

func TestCallThatWaitsForALockedRowEndsAfterTimeout(t *testing.T) {
	locking(t, group.Options{}, func(t *testing.T, s *group.Store, backend *lockable) {
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				require.LessOrEqual(t, took(func() {
					_, err := s.Do(context.Background(), take("locked", 1))
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}), bounds.Timeout)
			})
		}
		callOthers(t, s, 2*bounds.Timeout)
		all.Wait()
		require.NoError(t, s.Shutdown(t.Context()))
	})
}
