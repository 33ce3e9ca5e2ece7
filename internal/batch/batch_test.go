package batch_test

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

var (
	epoch                                                   = runtimetest.Epoch
	take, check, refund, charge, reserve, upTo, peek, reset = runtimetest.Take, runtimetest.Check, runtimetest.Refund,
		runtimetest.Charge, runtimetest.Reserve, runtimetest.UpTo, runtimetest.Peek, runtimetest.Reset
	call, of, do, decide, left = runtimetest.Call, runtimetest.Of, runtimetest.Do, runtimetest.Decide, runtimetest.Left
	bucket                     = runtimetest.Bucket
)

// clocked returns a store with a clock that shows *now.
func clocked(now *time.Time) *memstore.Store {
	return &memstore.Store{Clock: func() time.Time { return *now }}
}

// still returns a store whose clock stands still.
func still() *memstore.Store { return clocked(&epoch) }

func TestInvalidCallDoesNotFailOtherCalls(t *testing.T) {
	p := bucket("limit", 5)
	for name, bad := range map[string]struct {
		request runtime.Request
		err     error
	}{
		"no policy":        {of(nil, take(1)), runtime.ErrInvalidPolicy},
		"the zero policy":  {of(&runtime.Policy{}, take(1)), runtime.ErrInvalidPolicy},
		"too many shards":  {of(&runtime.Policy{Name: "other", Shards: math.MaxInt}, take(1)), runtime.ErrInvalidPolicy},
		"count below 0":    {of(p, take(math.MinInt64)), runtime.ErrInvalidCount},
		"count beyond":     {of(p, take(6)), runtime.ErrExceedsCapacity},
		"count far beyond": {of(p, take(math.MaxInt64)), runtime.ErrExceedsCapacity},
		"not a take":       {of(p, refund(1)), runtime.ErrInvalidCall},
	} {
		t.Run(name, func(t *testing.T) {
			store := still()
			answers := do(t, store, call(of(p, take(1))), call(of(p, take(1)), bad.request), call(of(p, take(1))))
			require.True(t, answers[0].Allowed())
			require.ErrorIs(t, answers[1].Err, bad.err)
			require.False(t, answers[1].Allowed())
			require.True(t, answers[2].Allowed())
			require.Equal(t, 3.0, left(t, store, p))
		})
	}
}

func TestOnlyTakesAndChecksCanBeCombined(t *testing.T) {
	p := bucket("limit", 5)
	for _, other := range []runtime.Request{peek(), refund(1), charge(1), reset()} {
		for _, requests := range [][]runtime.Request{{take(1), other}, {other, take(1)}, {other, other}} {
			store := still()
			do(t, store, call(of(p, take(2))))
			answer := do(t, store, call(of(p, requests[0]), of(p, requests[1])))[0]
			require.ErrorIs(t, answer.Err, runtime.ErrInvalidCall, "%+v", requests)
			require.Equal(t, 3.0, left(t, store, p), "%+v", requests)
		}
	}
}

func TestSumOfManyRequestsDoesNotOverflow(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second,
		Capacity: runtime.MaxTokens, MaxReserved: runtime.Unbounded}
	store := still()
	var c runtime.Call
	for range 20_000 {
		c.Requests = append(c.Requests, of(p, reserve(runtime.MaxTokens)))
	}
	require.ErrorIs(t, do(t, store, c)[0].Err, runtime.ErrExceedsCapacity)
	require.Equal(t, float64(runtime.MaxTokens), left(t, store, p))
}

func TestRowsAreSortedAndUnique(t *testing.T) {
	a, b := bucket("a", 5), bucket("b", 5)
	b.Rate, b.Shards = 5, 5
	bt := batch.New([]runtime.Call{
		call(of(b, peek()), of(a, take(1))),
		call(of(a, take(1)), runtime.Request{Policy: a, Key: "j", Count: 1}),
		call(of(nil, take(1))),
	})
	rows := bt.Rows()
	require.True(t, slices.IsSortedFunc(rows, runtime.Row.Compare))
	require.Equal(t, []runtime.Row{{Name: "a", Key: "j", Shard: 0}, {Name: "a", Key: "k", Shard: 0}, {Name: "b", Key: "k", Shard: 0}, {Name: "b", Key: "k", Shard: 1}, {Name: "b", Key: "k", Shard: 2}, {Name: "b", Key: "k", Shard: 3}, {Name: "b", Key: "k", Shard: 4}}, rows)
}

func TestOnlyChangedRowsAreWritten(t *testing.T) {
	p := bucket("limit", 2)
	b := batch.New([]runtime.Call{call(of(p, take(2))), call(of(p, take(1))), call(of(p, refund(1)))})
	require.True(t, b.Run(epoch.UnixNano(), make([]runtime.State, 1)))
	changes := b.Changes()
	require.Len(t, changes, 1)
	stored := changes[0].State
	require.Equal(t, runtime.StoredRow{Row: runtime.Row{Name: "limit", Key: "k"}, State: runtime.State{Value: -1, TS: epoch.UnixNano(), Prev: stored.Prev, Exists: true}}, changes[0])

	again := batch.New([]runtime.Call{call(of(p, take(2))), call(of(p, check(1))), call(of(p, peek()))})
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
	d := runtimetest.Roll(41)
	for range runtimetest.Steps() / runtimetest.TraceSteps / 10 {
		policies := []runtime.Policy{d.Policy(t), d.Policy(t), d.Policy(t)}
		for i := range policies {
			policies[i].Name = string(rune('a' + i))
		}
		now, want := epoch, model{}
		store := clocked(&now)
		for range runtimetest.TraceSteps {
			calls := randomCalls(d, policies)
			for i, answer := range do(t, store, calls...) {
				require.Equal(t, want.answer(t, calls[i], now.UnixNano()), answer.Allowed(), "%+v", calls[i])
			}
			for i := range policies {
				require.InDelta(t, want.value(t, &policies[i], "k", now.UnixNano()), left(t, store, &policies[i]), 1e-9)
			}
			now = now.Add(d.UpTo(min(policies[0].Period, 24*time.Hour)))
		}
	}
}

// randomCalls returns random calls for few keys, so that they meet.
func randomCalls(d runtimetest.Dice, policies []runtime.Policy) []runtime.Call {
	calls := make([]runtime.Call, 1+d.IntN(4))
	for i := range calls {
		requests := make([]runtime.Request, d.IntN(4))
		for j := range requests {
			p := &policies[d.IntN(len(policies))]
			key := runtimetest.Pick(d, "", "k")
			requests[j] = d.Request(*p)
			requests[j].Policy, requests[j].Key = p, key
			if len(requests) > 1 {
				requests[j].Op = runtimetest.Pick(d, runtime.Take, runtime.Take, runtime.Check)
			}
		}
		calls[i].Requests = requests
	}
	return calls
}

// busy returns a limit that has tokens for the whole benchmark.
func busy() *runtime.Policy {
	return &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1_000_000_000, Period: time.Second, Capacity: 1_000_000_000}
}

func TestBatchOfOneAllocatesWhatItKeeps(t *testing.T) {
	calls, states := []runtime.Call{call(of(busy(), take(1)))}, make([]runtime.State, 1)
	// The batch and its slices rows, states, answers, decisions, undo log and changes, but no copy of the request.
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		b := batch.New(calls)
		b.Run(epoch.UnixNano(), states)
		b.Changes()
	}), 7.0)
}

func BenchmarkBatchOfOne(b *testing.B) {
	calls, now := []runtime.Call{call(of(busy(), take(1)))}, epoch.UnixNano()
	states := make([]runtime.State, 1)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		bt := batch.New(calls)
		bt.Run(now, states)
		states[0] = bt.Changes()[0].State
	}
}
