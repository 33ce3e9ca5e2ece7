package lease_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lease"
)

// forgetful is a store that allows everything and keeps nothing, so that only the memory of a lease is left.
type forgetful struct{}

func (forgetful) Do(_ context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	answers := make([]runtime.Answer, len(calls))
	for i := range answers {
		answers[i] = runtime.Answer{Decisions: []runtime.Decision{{Allowed: true}}, At: time.Now().UnixNano()}
	}
	return answers, nil
}

// heap returns how many bytes are in use.
func heap() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestInventedKeysTakeBoundedMemory takes from a million keys, as of somebody who makes them up, each of which is
// a few bytes of a larger text.
func TestInventedKeysTakeBoundedMemory(t *testing.T) {
	policy := leased(runtime.TokenBucket)
	policy.Lease.For = time.Hour
	before := heap()
	s := lease.New(forgetful{}, nil)
	limiter := runtime.NewLimiter(s)
	take := func(n int) runtime.Decision {
		request := fmt.Sprintf("%036d%s", n, strings.Repeat(" ", 200))
		d, err := limiter.Limit(policy, runtime.KeyOf(runtime.String(request[:36]))).Allow(t.Context())
		require.NoError(t, err)
		return d
	}
	for i := range 1_000_000 {
		take(i)
	}
	during := heap()
	require.Less(t, during-before, uint64(48<<20))
	require.Equal(t, policy.Lease.Tokens-2, take(0).Remaining, "the first keys have a block")
	require.Zero(t, take(999_999).Remaining, "the store was asked")
	require.NoError(t, s.Close())
	after := heap()
	require.Less(t, after, before+4<<20)
	t.Logf("%d MB with a million keys, %d KB after Close", (during-before)>>20, (int64(after)-int64(before))>>10)
	goruntime.KeepAlive(s)
}
