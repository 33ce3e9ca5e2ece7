// Package internal has tests only: the common behaviour of the decorators of the SQL store, and the path of a call. Those
// of the path are not in package sqlstore because a program that imports it would then get SQLite into its go.sum.
package internal

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/denycache"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lease"
)

func TestUnknownOpIsAnErrorThroughAllDecorators(t *testing.T) {
	policy := &runtime.Policy{
		Name: "limit", Kind: runtime.TokenBucket, Rate: 100, Period: 100 * time.Second, Capacity: 100,
		Lease: runtime.Lease{Tokens: 10, For: time.Second}, DenyCache: time.Second, OnError: runtime.FailOpen,
	}
	store := lease.New(denycache.New(group.New(&memstore.Store{}, group.Options{}), nil), nil)
	q := runtime.Request{Policy: policy, Op: 255, Count: 1}
	answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
	require.NoError(t, err)
	require.ErrorIs(t, answers[0].Err, runtime.ErrInvalidCall)
}

// constant is a store that gives the same decision on every call. It keeps nothing, so that only the memory of the
// decorator grows.
type constant struct{ runtime.Decision }

func (c constant) Do(_ context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	answers := make([]runtime.Answer, len(calls))
	for i := range answers {
		answers[i] = runtime.Answer{Decisions: []runtime.Decision{c.Decision}, At: time.Now().UnixNano()}
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

// take takes a token of the nth key. The key is a substring of a longer text, which the decorator must not keep.
func take(t *testing.T, store runtime.Store, p *runtime.Policy, n int) runtime.Decision {
	request := fmt.Sprintf("%036d%s", n, strings.Repeat(" ", 200))
	d, err := limiter.New(store).Limit(p, runtime.KeyOf(runtime.String(request[:36]))).Allow(t.Context())
	require.NoError(t, err)
	return d
}

func TestManyLeasedKeysUseBoundedMemory(t *testing.T) {
	policy := &runtime.Policy{
		Name: "leased", Kind: runtime.TokenBucket, Rate: 100, Period: 100 * time.Second, Capacity: 100,
		Lease: runtime.Lease{Tokens: 10, For: time.Hour},
	}
	before := heap()
	s := lease.New(constant{runtime.Decision{Allowed: true}}, nil)
	for i := range 200_000 {
		take(t, s, policy, i)
	}
	during := heap()
	require.Less(t, during-before, uint64(48<<20))
	require.Equal(t, policy.Lease.Tokens-2, take(t, s, policy, 0).Remaining, "the first keys have a block")
	require.Zero(t, take(t, s, policy, 199_999).Remaining, "the last keys go to the backend")
	require.NoError(t, s.Shutdown(t.Context()))
	after := heap()
	require.Less(t, after, before+4<<20)
	t.Logf("%d MB with 200,000 keys, %d KB after Shutdown", (during-before)>>20, (int64(after)-int64(before))>>10)
	goruntime.KeepAlive(s)
}

func TestManyDeniedKeysUseBoundedMemory(t *testing.T) {
	policy := &runtime.Policy{
		Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1, DenyCache: time.Hour,
	}
	before := heap()
	s := denycache.New(constant{runtime.Decision{RetryAfter: time.Hour}}, nil)
	for i := range 200_000 {
		require.False(t, take(t, s, policy, i).Allowed)
	}
	during := heap()
	require.Less(t, during-before, uint64(16<<20))
	t.Logf("%d KB with 200,000 keys", (during-before)>>10)
	goruntime.KeepAlive(s)
}
