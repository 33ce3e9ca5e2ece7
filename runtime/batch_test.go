package runtime_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// bucket returns a token bucket of n tokens, which refills by one per second.
func bucket(name string, n int64) *runtime.Policy {
	return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: n}
}

// request returns q as a request for the key "k" of a limit.
func request(p *runtime.Policy, q runtime.Request) runtime.Request {
	q.Policy, q.Key = p, "k"
	return q
}

func call(requests ...runtime.Request) runtime.Call { return runtime.Call{Requests: requests} }

// still returns a store with a clock that always shows the epoch.
func still() *memstore.Store {
	return &memstore.Store{Clock: func() time.Time { return epoch }}
}

// do executes calls, and returns one answer per call.
func do(t *testing.T, s runtime.Store, calls ...runtime.Call) []runtime.Answer {
	t.Helper()
	answers, err := s.Do(context.Background(), calls)
	require.NoError(t, err)
	require.Len(t, answers, len(calls))
	return answers
}

// left returns the number of tokens left for the key "k".
func left(t *testing.T, s runtime.Store, p *runtime.Policy) float64 {
	t.Helper()
	return do(t, s, call(request(p, peek())))[0].Decisions[0].Value
}

func TestCallTakesAllOrNone(t *testing.T) {
	store, small, large := still(), bucket("small", 2), bucket("large", 10)
	both := func(n int64) runtime.Answer {
		return do(t, store, call(request(large, take(n)), request(small, take(n))))[0]
	}
	require.True(t, both(2).Allowed())
	denied := both(1)
	require.False(t, denied.Allowed())
	require.True(t, denied.Decisions[0].Allowed, "this limit would have passed")
	require.Equal(t, time.Second, denied.Decisions[1].RetryAfter)
	require.Equal(t, 8.0, left(t, store, large))

	failed := both(3)
	require.ErrorIs(t, failed.Err, runtime.ErrExceedsCapacity)
	require.ErrorContains(t, failed.Err, `"small"`)
	require.False(t, failed.Allowed())
	require.Equal(t, 8.0, left(t, store, large))
}

func TestCallsAreExecutedInOrder(t *testing.T) {
	store, p := still(), bucket("limit", 5)
	answers := do(t, store,
		call(request(p, take(4))),
		call(request(p, take(2))),
		call(request(p, refund(1))),
		call(request(p, take(2))),
		call(request(p, take(1))),
	)
	for i, want := range []bool{true, false, true, true, false} {
		require.Equal(t, want, answers[i].Allowed(), "call %d", i)
	}
}

func TestInvalidCallDoesNotFailOtherCalls(t *testing.T) {
	p := bucket("limit", 5)
	for name, bad := range map[string]struct {
		request runtime.Request
		err     error
	}{
		"no policy":        {request(nil, take(1)), runtime.ErrInvalidPolicy},
		"the zero policy":  {request(&runtime.Policy{}, take(1)), runtime.ErrInvalidPolicy},
		"too many shards":  {request(&runtime.Policy{Name: "other", Shards: math.MaxInt}, take(1)), runtime.ErrInvalidPolicy},
		"count below 0":    {request(p, take(math.MinInt64)), runtime.ErrInvalidCount},
		"count beyond":     {request(p, take(6)), runtime.ErrExceedsCapacity},
		"count far beyond": {request(p, take(math.MaxInt64)), runtime.ErrExceedsCapacity},
		"not a take":       {request(p, refund(1)), runtime.ErrInvalidCall},
	} {
		t.Run(name, func(t *testing.T) {
			store := still()
			answers := do(t, store, call(request(p, take(1))), call(request(p, take(1)), bad.request), call(request(p, take(1))))
			require.True(t, answers[0].Allowed())
			require.ErrorIs(t, answers[1].Err, bad.err)
			require.False(t, answers[1].Allowed())
			require.True(t, answers[2].Allowed())
			require.Equal(t, 3.0, left(t, store, p))
		})
	}
}

func TestEmptyCallsTakeNothing(t *testing.T) {
	store := still()
	require.Empty(t, do(t, store))
	require.False(t, do(t, store, call())[0].Allowed(), "a call without requests is not allowed")
	require.Zero(t, store.Len())
}

func TestRequestsOfACallForOneKeyAddUp(t *testing.T) {
	p := bucket("limit", 5)
	for _, row := range []struct {
		requests []runtime.Request
		allowed  bool
		left     float64
	}{
		{[]runtime.Request{take(2), take(0), take(3), take(0)}, true, 0},
		{[]runtime.Request{take(2), take(3)}, true, 0},
		{[]runtime.Request{take(1), take(1), take(1)}, true, 2},
		{[]runtime.Request{take(5)}, true, 0},
	} {
		store := still()
		var c runtime.Call
		for _, q := range row.requests {
			c.Requests = append(c.Requests, request(p, q))
		}
		require.Equal(t, row.allowed, do(t, store, c)[0].Allowed(), "%+v", row.requests)
		require.Equal(t, row.left, left(t, store, p), "%+v", row.requests)
	}
}

func TestOnlyTakesAndChecksCanBeCombined(t *testing.T) {
	p := bucket("limit", 5)
	for _, other := range []runtime.Request{peek(), refund(1), charge(1), reset()} {
		for _, requests := range [][]runtime.Request{{take(1), other}, {other, take(1)}, {other, other}} {
			store := still()
			do(t, store, call(request(p, take(2))))
			answer := do(t, store, call(request(p, requests[0]), request(p, requests[1])))[0]
			require.ErrorIs(t, answer.Err, runtime.ErrInvalidCall, "%+v", requests)
			require.Equal(t, 3.0, left(t, store, p), "%+v", requests)
		}
	}
}

func TestSumOfACallIsChecked(t *testing.T) {
	store, p := still(), bucket("limit", 5)
	answer := do(t, store, call(request(p, take(3)), request(p, take(3))))[0]
	require.ErrorIs(t, answer.Err, runtime.ErrExceedsCapacity, "a sum of 6 never fits into 5")
	require.Equal(t, 5.0, left(t, store, p))

	do(t, store, call(request(p, take(4))))
	answer = do(t, store, call(request(p, take(1)), request(p, take(3))))[0]
	require.False(t, answer.Allowed())
	require.Equal(t, 3*time.Second, answer.Decisions[1].RetryAfter, "4 are needed, and 1 is available")
	require.Equal(t, 1.0, left(t, store, p))
}

func TestSumOfManyRequestsDoesNotOverflow(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second,
		Capacity: runtime.MaxTokens, MaxReserved: runtime.Unbounded}
	store := still()
	var c runtime.Call
	for range 20_000 {
		c.Requests = append(c.Requests, request(p, reserve(runtime.MaxTokens)))
	}
	require.ErrorIs(t, do(t, store, c)[0].Err, runtime.ErrExceedsCapacity)
	require.Equal(t, float64(runtime.MaxTokens), left(t, store, p))
}

func TestPoliciesOfOneNameShareTheCount(t *testing.T) {
	store, small, large := still(), bucket("limit", 3), bucket("limit", 10)
	for _, answer := range do(t, store, call(request(small, take(1))), call(request(large, take(1)))) {
		require.True(t, answer.Allowed())
	}
	require.Equal(t, 1, store.Len())
	require.Equal(t, 1.0, left(t, store, small))
	twin := *large
	require.True(t, do(t, store, call(request(large, take(1))), call(request(&twin, refund(1))))[0].Allowed())
	answer := do(t, store, call(request(large, take(1)), request(small, take(1))))[0]
	require.ErrorIs(t, answer.Err, runtime.ErrInvalidCall, "the policies differ in the bound of the sum")
}

func TestRowsAreSortedAndUnique(t *testing.T) {
	a, b := bucket("a", 5), bucket("b", 5)
	b.Rate, b.Shards = 5, 5
	bt := batch.New([]runtime.Call{
		call(request(b, peek()), request(a, take(1))),
		call(request(a, take(1)), runtime.Request{Policy: a, Key: "j", Count: 1}),
		call(request(nil, take(1))),
	})
	rows := bt.Rows()
	require.True(t, slices.IsSortedFunc(rows, runtime.Row.Compare))
	require.Equal(t, []runtime.Row{{Name: "a", Key: "j", Shard: 0}, {Name: "a", Key: "k", Shard: 0}, {Name: "b", Key: "k", Shard: 0}, {Name: "b", Key: "k", Shard: 1}, {Name: "b", Key: "k", Shard: 2}, {Name: "b", Key: "k", Shard: 3}, {Name: "b", Key: "k", Shard: 4}}, rows)
}

func TestOnlyChangedRowsAreWritten(t *testing.T) {
	p := bucket("limit", 2)
	b := batch.New([]runtime.Call{call(request(p, take(2))), call(request(p, take(1))), call(request(p, refund(1)))})
	require.True(t, b.Run(epoch.UnixNano(), make([]runtime.State, 1)))
	changes := b.Changes()
	require.Len(t, changes, 1)
	stored := changes[0].State
	require.Equal(t, batch.Change{Row: runtime.Row{Name: "limit", Key: "k"}, State: runtime.State{Value: -1, TS: epoch.UnixNano(), Prev: stored.Prev, Exists: true}}, changes[0])

	again := batch.New([]runtime.Call{call(request(p, take(2))), call(request(p, check(1))), call(request(p, peek()))})
	require.True(t, again.Run(epoch.UnixNano(), []runtime.State{stored}))
	require.Empty(t, again.Changes())
}

// model is a store as its contract describes it: one step after the other.
type model map[runtime.Row]runtime.State

func (m model) answer(t *testing.T, c runtime.Call, now int64) bool {
	next := maps.Clone(m)
	for _, q := range c.Requests {
		row, rule := runtime.Row{Name: q.Policy.Name, Key: q.Key}, meter.RuleOf(q.Policy, q.Key)
		before := next[row]
		if q.Op == runtime.Check {
			before = m[row]
		}
		state, d, err := rule.Step(before, now, q)
		if err != nil || !d.Allowed {
			return false
		}
		if q.Op != runtime.Check {
			next[row] = state
		}
	}
	maps.Copy(m, next)
	return len(c.Requests) > 0
}

// value returns the number of tokens left for a key.
func (m model) value(t *testing.T, p *runtime.Policy, key string, now int64) float64 {
	rule := meter.RuleOf(p, key)
	_, d, err := rule.Step(m[runtime.Row{Name: p.Name, Key: key}], now, peek())
	require.NoError(t, err)
	return d.Value
}

func TestBatchEqualsSequentialSteps(t *testing.T) {
	d := roll(41)
	for range randomSteps() / traceSteps / 10 {
		policies := []runtime.Policy{d.policy(t), d.policy(t), d.policy(t)}
		for i := range policies {
			policies[i].Name = string(rune('a' + i))
		}
		now, want := epoch, model{}
		store := clocked(&now)
		for range traceSteps {
			calls := d.calls(policies)
			for i, answer := range do(t, store, calls...) {
				require.Equal(t, want.answer(t, calls[i], now.UnixNano()), answer.Allowed(), "%+v", calls[i])
			}
			for i := range policies {
				require.InDelta(t, want.value(t, &policies[i], "k", now.UnixNano()), left(t, store, &policies[i]), 1e-9)
			}
			now = now.Add(d.upTo(min(policies[0].Period, 24*time.Hour)))
		}
	}
}

// calls returns random calls for few keys, so that they meet.
func (d dice) calls(policies []runtime.Policy) []runtime.Call {
	calls := make([]runtime.Call, 1+d.IntN(4))
	for i := range calls {
		requests := make([]runtime.Request, d.IntN(4))
		for j := range requests {
			p := &policies[d.IntN(len(policies))]
			key := pick(d, "", "k")
			requests[j] = d.request(*p)
			requests[j].Policy, requests[j].Key = p, key
			if len(requests) > 1 {
				requests[j].Op = pick(d, runtime.Take, runtime.Take, runtime.Check)
			}
		}
		calls[i].Requests = requests
	}
	return calls
}
