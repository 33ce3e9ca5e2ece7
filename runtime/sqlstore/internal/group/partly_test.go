package group_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

var errLocked = errors.New("a row is locked")

// partly is a store that answers all calls but those for the key "locked".
type partly struct{ runtime.MemStore }

func (s *partly) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	time.Sleep(time.Millisecond)
	answers := make([]runtime.Answer, len(calls))
	var failed error
	for i, c := range calls {
		if c.Requests[0].Key == "locked" {
			failed = errLocked
			continue
		}
		one, err := s.MemStore.Do(ctx, []runtime.Call{c})
		if err != nil {
			return nil, err
		}
		answers[i] = one[0]
	}
	return answers, failed
}

// TestPartlyAnswered has calls go together of which one cannot be answered: its neighbours get what they have taken.
func TestPartlyAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 10}
		s := group.New(&partly{}, group.Options{})
		call := func(key string) []runtime.Call {
			return []runtime.Call{{Requests: []runtime.Request{{Policy: policy, Key: key, Count: 1}}}}
		}
		var all sync.WaitGroup
		all.Go(func() { s.Do(t.Context(), call("first")) })
		synctest.Wait()
		for _, key := range []string{"a", "locked", "b", "c"} {
			all.Go(func() {
				answers, err := s.Do(t.Context(), call(key))
				if key == "locked" {
					require.ErrorIs(t, err, errLocked)
					return
				}
				require.NoError(t, err)
				require.True(t, answers[0].Allowed(), key)
			})
			synctest.Wait()
		}
		all.Go(func() {
			answers, err := s.Do(t.Context(), append(call("mine"), call("locked")...))
			require.ErrorIs(t, err, errLocked)
			require.Len(t, answers, 2, "what was taken is told")
			require.True(t, answers[0].Allowed())
			require.False(t, answers[1].Given())
		})
		all.Wait()
	})
}
