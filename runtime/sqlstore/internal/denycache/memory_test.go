package denycache_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/denycache"
)

// denying is a store that denies everything and keeps nothing, so that only the memory of the cache is left.
type denying struct{}

func (denying) Do(_ context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	answers := make([]runtime.Answer, len(calls))
	for i := range answers {
		answers[i] = runtime.Answer{Decisions: []runtime.Decision{{RetryAfter: time.Hour}}}
	}
	return answers, nil
}

// TestInventedKeysTakeBoundedMemory has a million keys denied, each of which is a few bytes of a larger text.
func TestInventedKeysTakeBoundedMemory(t *testing.T) {
	heap := func() uint64 {
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	p := &runtime.Policy{
		Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1, DenyCache: time.Hour,
	}
	before := heap()
	s := denycache.New(denying{}, nil)
	limiter := runtime.NewLimiter(s)
	for i := range 1_000_000 {
		request := fmt.Sprintf("%036d%s", i, strings.Repeat(" ", 200))
		d, err := limiter.Limit(p, runtime.KeyOf(runtime.String(request[:36]))).Allow(t.Context())
		require.NoError(t, err)
		require.False(t, d.Allowed)
	}
	during := heap()
	require.Less(t, during-before, uint64(16<<20))
	t.Logf("%d KB with a million keys", (during-before)>>10)
	goruntime.KeepAlive(s)
}
