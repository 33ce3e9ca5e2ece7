package runtime_test

import (
	"context"
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

// sharded returns p split into n shards, whose parts are whole tokens.
func sharded(p runtime.Policy, n int) *runtime.Policy {
	p.Name, p.Shards = "sharded", n
	return &p
}

// clocked returns a store with a clock that shows *now.
func clocked(now *time.Time) *memstore.Store {
	return &memstore.Store{Clock: func() time.Time { return *now }}
}

// decide executes one request for the key "k", which is not an error.
func decide(t *testing.T, s runtime.Store, p *runtime.Policy, q runtime.Request) runtime.Decision {
	t.Helper()
	answer := do(t, s, call(request(p, q)))[0]
	require.NoError(t, answer.Err)
	return answer.Decisions[0]
}

func TestSharesAddUpExactly(t *testing.T) {
	d := roll(31)
	for range 1000 {
		n := 1 + d.IntN(runtime.MaxShards)
		total := pick(d, int64(n), int64(n)+d.Int64N(3000), runtime.MaxTokens-d.Int64N(1000))
		p := runtime.Policy{Rate: total, Capacity: total, MaxReserved: total, Period: time.Second, Kind: runtime.TokenBucket}
		whole, sum, smallest, largest := meter.RuleOf(&p, ""), 0.0, math.Inf(1), 0.0
		for i := range n {
			part := whole.Shard(i, n)
			if part.Rate != math.Trunc(part.Rate) || part.Rate != part.Capacity || part.Rate != part.Debt {
				require.Fail(t, "whole tokens stay whole, and equal numbers equal", "shard %d of %d: %+v", i, n, part)
			}
			sum += part.Rate
			smallest, largest = min(smallest, part.Rate), max(largest, part.Rate)
		}
		require.Equal(t, float64(total), sum)
		require.LessOrEqual(t, largest-smallest, 1.0)
		require.GreaterOrEqual(t, smallest, 1.0)
	}
}

// All shards of a key share their windows, so that the decisions are the same for any sequence of requests.
func TestShardedWindowDecidesAsUnshardedOne(t *testing.T) {
	d := roll(32)
	for range 200 {
		rate := 10 + d.Int64N(200)
		p := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: rate, Capacity: rate, Period: time.Minute,
			Start: runtime.StartOffset(0)}
		now := epoch
		store, many := clocked(&now), sharded(p, 1+d.IntN(10))
		for range 100 {
			q := take(d.count(rate))
			require.Equal(t, decide(t, store, &p, q).Allowed, decide(t, store, many, q).Allowed, "%+v of %+v", q, many)
			now = now.Add(d.upTo(20 * time.Second))
		}
	}
}

// Every whole token of a bucket can be taken, on whichever shard it is.
func TestShardedBucketIsDrainedToTheLastToken(t *testing.T) {
	for _, shards := range []int{1, 2, 3, 7, 10, 64} {
		now := epoch
		p := sharded(*bucket("limit", 100), shards)
		p.Rate = 64
		store, passed := clocked(&now), 0
		for decide(t, store, p, take(1)).Allowed {
			passed++
		}
		require.Equal(t, 100, passed, "%d shards", shards)
		now = now.Add(250 * time.Millisecond)
		require.True(t, decide(t, store, p, check(16)).Allowed, "%d shards with 16 tokens on all of them", shards)
		for range 16 {
			require.True(t, decide(t, store, p, take(1)).Allowed, "%d shards", shards)
		}
		require.False(t, decide(t, store, p, take(1)).Allowed)
	}
}

func TestShardedKeyGrantsAllTokensAtOnce(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		p := &runtime.Policy{Name: "limit", Kind: kind, Rate: 10, Period: time.Second, Capacity: 10, Shards: 5}
		store := still()
		require.True(t, decide(t, store, p, take(10)).Allowed, "no shard has 10 tokens, but all of them together have")
		require.False(t, decide(t, store, p, take(1)).Allowed)
	}
}

func TestShardedRetryAtRetryAfterPasses(t *testing.T) {
	d := roll(34)
	for range randomSteps() / traceSteps / 4 {
		p := d.policyOf(t, pick[int64](d, 10, 97, 1000))
		p.Shards = 2 + d.IntN(4)
		p.MaxReserved = max(p.MaxReserved, int64(p.Shards)*min(1, p.MaxReserved))
		if p.Start.FirstUse() {
			p.Start = runtime.Start{}
		}
		require.NoError(t, p.Validate())
		now := epoch
		store := clocked(&now)
		for i := 0; i < traceSteps && now.UnixNano() < lastInstant; i++ {
			q := d.take(p)
			decision := decide(t, store, &p, q)
			if !decision.Allowed && int64(decision.RetryAfter) < lastInstant-now.UnixNano() {
				require.Positive(t, decision.RetryAfter)
				asked := now
				now = asked.Add(decision.RetryAfter)
				again := q
				again.Op = runtime.Check
				require.True(t, decide(t, store, &p, again).Allowed, "%+v of %+v at %v", q, p, decision)
				now = asked
			}
			now = now.Add(d.jump(p))
		}
	}
}

func TestShardedCapacityZero(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 4, Period: time.Second, MaxReserved: 6, Shards: 3}
	store := still()
	for i := range 6 {
		d := decide(t, store, p, reserve(1))
		require.True(t, d.Allowed)
		require.Equal(t, time.Duration(i+1)*250*time.Millisecond, d.Delay)
	}
	d := decide(t, store, p, reserve(1))
	require.False(t, d.Allowed)
	require.Equal(t, 250*time.Millisecond, d.RetryAfter)
}

func TestShardedPeekResetRefundUseAllShards(t *testing.T) {
	now := epoch
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Period: time.Second, Capacity: 10, Shards: 4}
	store := clocked(&now)
	require.Equal(t, 10.0, decide(t, store, p, peek()).Value)
	require.True(t, decide(t, store, p, take(7)).Allowed)
	require.Equal(t, 3.0, decide(t, store, p, peek()).Value)
	require.Equal(t, 5.0, decide(t, store, p, refund(2)).Value)
	require.Equal(t, 10.0, decide(t, store, p, refund(20)).Value)
	require.Equal(t, -5.0, decide(t, store, p, charge(15)).Value)
	decide(t, store, p, reset())
	require.Equal(t, 10.0, decide(t, store, p, peek()).Value)
}

// The shards share what is left when one of them cannot decide. A request that took from one of them is then refunded in full.
func TestRefundAfterShardsHaveShared(t *testing.T) {
	at := time.Unix(0, 0).UTC()
	for _, kind := range []runtime.Kind{runtime.TokenBucket, runtime.FixedWindow, runtime.SlidingWindow} {
		p := sharded(runtime.Policy{Kind: kind, Rate: 40, Period: time.Minute, Capacity: 40}, 4)
		store := clocked(&at)
		require.True(t, decide(t, store, p, runtime.Request{Count: 40}).Allowed)
		decide(t, store, p, runtime.Request{Op: runtime.Reset})

		of := decide(t, store, p, runtime.Request{Count: 9})
		require.True(t, of.Allowed)
		require.True(t, decide(t, store, p, runtime.Request{Count: 25}).Allowed, "of all shards, which share the 6 that are left")
		refund := of.RefundRequest(9)
		refund.Policy = p
		require.True(t, decide(t, store, p, refund).Allowed)
		require.Equal(t, 15.0, decide(t, store, p, runtime.Request{Op: runtime.Peek}).Value, kind)
	}
}

// Tokens that return to one shard pay the debts of all: otherwise it would allow requests ahead of them.
func TestRefundToAShardPaysTheDebtOfAll(t *testing.T) {
	for range 50 { // which shards are used is random
		at := time.Unix(0, 0).UTC()
		p := sharded(runtime.Policy{Kind: runtime.FixedWindow, Rate: 13, Period: time.Hour, Capacity: 9, MaxReserved: 9}, 5)
		store := clocked(&at)
		decide(t, store, p, runtime.Request{Op: runtime.Charge, Count: 9})
		decide(t, store, p, runtime.Request{Op: runtime.Reset})
		of := decide(t, store, p, runtime.Request{Count: 2})
		decide(t, store, p, runtime.Request{Op: runtime.Charge, Count: 9})
		refund := of.RefundRequest(2)
		refund.Policy = p
		decide(t, store, p, refund)
		require.Equal(t, 0.0, decide(t, store, p, runtime.Request{Op: runtime.Peek}).Value)
		require.False(t, decide(t, store, p, runtime.Request{Op: runtime.TakeUpTo, Count: 1}).Allowed)
	}
}

// Remaining is estimated from the two shards that were read.
func TestShardedRemainingIsNearTheTruth(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1000, Period: time.Hour, Capacity: 1000, Shards: 10}
	store := still()
	for taken := 1; taken <= 1000; taken++ {
		d := decide(t, store, p, take(1))
		require.True(t, d.Allowed)
		require.InDelta(t, 1000-taken, d.Remaining, 200)
		require.GreaterOrEqual(t, d.Remaining, int64(0))
		require.LessOrEqual(t, d.Remaining, p.Capacity)
	}
	require.Zero(t, decide(t, store, p, peek()).Remaining)
}

// A call reads only two shards as long as one of them has enough tokens.
func TestShardedCallReadsTwoRows(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 100, Period: time.Second, Capacity: 100, Shards: 10}
	b := batch.New([]runtime.Call{call(request(p, take(1)))})
	require.Len(t, b.Rows(), 2)
	full := slices.Repeat([]runtime.State{{TS: epoch.UnixNano(), Exists: true}}, 10)
	require.True(t, b.Run(epoch.UnixNano(), full[:2]))
	require.Len(t, b.Changes(), 1)

	large := batch.New([]runtime.Call{call(request(p, take(11)))})
	require.False(t, large.Run(epoch.UnixNano(), full[:2]), "no shard has 11 tokens")
	require.Len(t, large.Rows(), 10)
	require.True(t, large.Run(epoch.UnixNano(), full))
	require.True(t, large.Answers()[0].Allowed())
}

// A new shard may be one that the policy did not have when the key went into debt, so all are read. Then all are
// written, so that this happens once.
func TestShardedCallReadsAllRowsOfANewKey(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 100, Period: time.Second, Capacity: 100, Shards: 10}
	b := batch.New([]runtime.Call{call(request(p, take(1)))})
	require.False(t, b.Run(epoch.UnixNano(), make([]runtime.State, 2)))
	require.Len(t, b.Rows(), 10)
	require.True(t, b.Run(epoch.UnixNano(), make([]runtime.State, 10)))
	require.Len(t, b.Changes(), 10)
}

// AllowUpTo finds the tokens of all shards, however they are spread.
func TestTakeUpToTakesFromAllShards(t *testing.T) {
	d := roll(38)
	for range 500 {
		p := d.policyOf(t, pick[int64](d, 10, 97, 1000))
		if p.Start.FirstUse() || p.Capacity == 0 {
			continue
		}
		p.MaxReserved, p.Shards = 0, 2+d.IntN(8)
		if p.Capacity < int64(p.Shards) || p.Rate < int64(p.Shards) {
			continue
		}
		now := epoch
		store := clocked(&now)
		for left, step := p.Capacity, 0; left > 0 && step < 20; step++ {
			n := 1 + d.Int64N(p.Capacity)
			got := decide(t, store, &p, upTo(n))
			require.True(t, got.Allowed)
			require.Equal(t, min(n, left), got.Taken, "%d of %d left of %+v", n, left, p)
			left -= got.Taken
			if left == 0 {
				require.False(t, decide(t, store, &p, take(1)).Allowed)
			}
		}
		if denied := decide(t, store, &p, upTo(p.Capacity)); !denied.Allowed {
			require.Zero(t, denied.Taken)
			now = now.Add(denied.RetryAfter)
			require.GreaterOrEqual(t, decide(t, store, &p, upTo(p.Capacity)).Taken, int64(1), "after %v of %+v", denied.RetryAfter, p)
		}
	}
}

// A key in debt has as many tokens with more shards as with the old number, at any later time.
func TestMoreShardsKeepADebt(t *testing.T) {
	d := roll(37)
	for range 2000 {
		p := d.policyOf(t, pick[int64](d, 10, 97, 1000), runtime.TokenBucket, runtime.FixedWindow)
		if p.Start.FirstUse() {
			p.Start = runtime.Start{}
		}
		p.MaxReserved = max(p.MaxReserved, p.Rate)
		p.Shards = 1 + d.IntN(5)
		more := p
		more.Shards += 1 + d.IntN(5)
		if p.Capacity > 0 && p.Capacity < int64(more.Shards) {
			continue
		}
		require.NoError(t, more.Validate())
		now := epoch
		store := clocked(&now)
		debt := min(p.MaxReserved, 3*p.Rate)
		require.True(t, decide(t, store, &p, reserve(p.Capacity+debt)).Allowed)
		for range 5 {
			now = now.Add(d.upTo(p.Period))
			was, is := decide(t, store, &p, peek()).Value, decide(t, store, &more, peek()).Value
			require.InDelta(t, was, is, 1e-9*float64(p.Rate), "%+v with %d shards, after %v", p, more.Shards, now.Sub(epoch))
			q := check(1)
			q.Reserve = true
			before, after := decide(t, store, &p, q), decide(t, store, &more, q)
			require.Equal(t, before.Allowed, after.Allowed)
			require.InDelta(t, before.RetryAfter, after.RetryAfter, 2+1e-9*float64(p.Period))
		}
		q := reserve(1)
		if decide(t, store, &more, q).Allowed {
			require.Equal(t, more.Shards, store.Len(), "the debt is spread over all shards")
		}
	}
}

// On day 3 the shards hold 1 and -1 tokens: together they are out of debt, and 11 reserved tokens are due. The token of
// the first shard is one of them.
func TestShardWithTokensDoesNotServeAheadOfReservations(t *testing.T) {
	p := runtime.Policy{
		Name: "limit", Kind: runtime.FixedWindow, Rate: 3, Period: 24 * time.Hour, Capacity: 2, MaxReserved: 7, Shards: 2,
		Start: runtime.StartOffset(0),
	}
	now := epoch.Truncate(p.Period)
	start := now
	store := clocked(&now)
	require.Equal(t, 3*p.Period, decide(t, store, &p, reserve(9)).Delay)
	now = start.Add(p.Period)
	require.Equal(t, 2*p.Period, decide(t, store, &p, reserve(2)).Delay)
	now = start.Add(3 * p.Period)
	d := decide(t, store, &p, take(1))
	require.False(t, d.Allowed)
	require.Equal(t, p.Period, d.RetryAfter)
}

// Two keys in debt, in numbers.
func TestFiveShardsOfAKeyInDebt(t *testing.T) {
	for _, row := range []struct {
		capacity, reserved int64
		after              time.Duration
		left               float64
	}{
		{20, 40, 3 * time.Second, 10},
		{0, 10, 983 * time.Millisecond, -0.17},
	} {
		now := epoch
		store := clocked(&now)
		p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Period: time.Second, Capacity: row.capacity, MaxReserved: 20}
		require.True(t, decide(t, store, &p, reserve(row.reserved)).Allowed)
		now = now.Add(row.after)
		require.InDelta(t, row.left, decide(t, store, &p, peek()).Value, 1e-9)
		p.Shards = 5
		require.InDelta(t, row.left, decide(t, store, &p, peek()).Value, 1e-9)
	}
}

func TestShardedBatchAdmitsExactlyTheCapacity(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 100, Period: time.Hour, Capacity: 100, Shards: 10}
	var calls []runtime.Call
	for range 150 {
		calls = append(calls, call(request(p, take(1))))
	}
	answers, err := still().Do(context.Background(), calls)
	require.NoError(t, err)
	for i, a := range answers {
		require.Equal(t, i < 100, a.Allowed(), "call %d", i)
	}
}

// At one instant it makes no difference whether a key has shards.
func TestShardedCallsDecideAsUnshardedOnes(t *testing.T) {
	d := roll(35)
	for range 300 {
		one := *bucket("limit", 20+d.Int64N(20))
		one.Rate, one.MaxReserved = 10, pick[int64](d, 0, 10, 25)
		many := one
		many.Shards = 2 + d.IntN(9)
		split, whole := still(), still()
		for range 20 {
			var calls, same []runtime.Call
			for _, c := range d.calls([]runtime.Policy{one}) {
				other := call(slices.Clone(c.Requests)...)
				for i := range other.Requests {
					other.Requests[i].Policy = &many
				}
				calls, same = append(calls, c), append(same, other)
			}
			want, got := do(t, whole, calls...), do(t, split, same...)
			for i := range calls {
				require.Equal(t, want[i].Allowed(), got[i].Allowed(), "%+v of %+v", calls[i], many)
				require.Equal(t, want[i].Err == nil, got[i].Err == nil)
			}
			require.Equal(t, left(t, whole, &one), left(t, split, &many))
		}
	}
}

// With the same seed, StepShards on all shards decides as a batch on those that it reads.
func TestStepShardsEqualsBatch(t *testing.T) {
	d := roll(36)
	for range randomSteps() / traceSteps {
		p := d.policyOf(t, pick[int64](d, 10, 97, 1000))
		p.Shards = 2 + d.IntN(9)
		p.MaxReserved = max(p.MaxReserved, int64(p.Shards)*min(1, p.MaxReserved))
		if p.Start.FirstUse() || p.Capacity > 0 && p.Capacity < int64(p.Shards) {
			continue
		}
		require.NoError(t, p.Validate())
		now, latest, states := epoch, epoch, make([]runtime.State, p.Shards)
		for i := 0; i < traceSteps && now.UnixNano() < lastInstant; i++ {
			q, seed := d.request(p), d.Uint64()
			want, decision := batched(t, &p, states, now.UnixNano(), q, seed)
			got, err := meter.StepShards(&p, states, "k", now.UnixNano(), q, seed)
			require.NoError(t, err)
			require.Equal(t, want, states, "%+v of %+v", q, p)

			if _, left := batched(t, &p, states, now.UnixNano(), peek(), seed); !now.Before(latest) {
				require.InDelta(t, left.Value, got.Value, 1e-9*(1+math.Abs(left.Value)), "%+v of %+v", q, p)
				latest = now
			}
			got.Limit, got.Policy, got.Value, got.Remaining = p.Name, &p, decision.Value, decision.Remaining
			require.Equal(t, decision, got, "%+v of %+v", q, p)
			now = now.Add(d.jump(p))
		}
	}
	p := sharded(*bucket("limit", 100), 4)
	p.Rate = 4
	_, err := meter.StepShards(p, make([]runtime.State, 4), "k", 0, take(101), 0)
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
}

// batched returns the states and the decision of a batch of one request.
func batched(t *testing.T, p *runtime.Policy, states []runtime.State, now int64, q runtime.Request, seed uint64) ([]runtime.State, runtime.Decision) {
	t.Helper()
	b := batch.NewSeeded([]runtime.Call{call(request(p, q))}, seed)
	read := func() (some []runtime.State) {
		for _, row := range b.Rows() {
			some = append(some, states[row.Shard])
		}
		return some
	}
	for !b.Run(now, read()) {
	}
	require.NoError(t, b.Answers()[0].Err)
	after := slices.Clone(states)
	for _, change := range b.Changes() {
		after[change.Row.Shard] = change.State
	}
	return after, b.Answers()[0].Decisions[0]
}
