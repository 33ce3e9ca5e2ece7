package batch_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
)

// sharded returns p split into n shards, whose parts are whole tokens.
func sharded(p runtime.Policy, n int) *runtime.Policy {
	p.Name, p.Shards = "sharded", n
	return &p
}

// randomSharded returns a valid policy with at most so many shards.
func randomSharded(t *testing.T, d runtimetest.Dice, most int, kinds ...runtime.Kind) runtime.Policy {
	for {
		p := d.PolicyOf(t, runtimetest.Pick[int64](d, 10, 97, 1000), kinds...)
		p.Shards = 2 + d.IntN(most-1)
		if p.Reserves() {
			p.MaxReserved = max(p.MaxReserved, int64(p.Shards))
		}
		if p.Validate() == nil {
			return p
		}
	}
}

// All shards of a key share their windows, so that the decisions are the same for any sequence of requests.
func TestShardedWindowDecidesAsUnshardedOne(t *testing.T) {
	d := runtimetest.Roll(32)
	for range 200 {
		rate := 10 + d.Int64N(200)
		p := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: rate, Capacity: rate, Period: time.Minute,
			Start: runtime.StartOffset(0)}
		now := epoch
		store, many := clocked(&now), sharded(p, 1+d.IntN(10))
		for range 100 {
			q := take(d.CountUpTo(rate))
			require.Equal(t, decide(t, store, &p, q).Allowed, decide(t, store, many, q).Allowed, "%+v of %+v", q, many)
			now = now.Add(d.UpTo(20 * time.Second))
		}
	}
}

// At one instant it makes no difference whether a key has shards.
func TestShardedCallsDecideAsUnshardedOnes(t *testing.T) {
	decideAsUnsharded(t, runtimetest.Roll(35), 2, 9, func() runtime.Store { return still() })
}

// decideAsUnsharded compares random calls on a key with shards, from least to least+more-1 of them, with the same calls on
// one row.
func decideAsUnsharded(t *testing.T, d runtimetest.Dice, least, more int, open func() runtime.Store) {
	t.Helper()
	for range 300 {
		one := *bucket("limit", 20+d.Int64N(20))
		one.Rate, one.MaxReserved = 10, runtimetest.Pick[int64](d, 0, 10, 25)
		many := one
		many.Shards = least + d.IntN(more)
		split, whole := open(), still()
		for range 20 {
			var calls, same []runtime.Call
			for _, c := range randomCalls(d, []runtime.Policy{one}) {
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

func TestShardedRetryAtRetryAfterPasses(t *testing.T) {
	d := runtimetest.Roll(34)
	for range runtimetest.Steps() / runtimetest.TraceSteps / 4 {
		p, now := randomSharded(t, d, 5), epoch
		store := clocked(&now)
		for i := 0; i < runtimetest.TraceSteps && now.UnixNano() < runtimetest.LastInstant; i++ {
			q := d.Take(p)
			decision := decide(t, store, &p, q)
			if !decision.Allowed && int64(decision.RetryAfter) < runtimetest.LastInstant-now.UnixNano() {
				require.Positive(t, decision.RetryAfter)
				asked := now
				now = asked.Add(decision.RetryAfter)
				q.Op = runtime.Check
				require.True(t, decide(t, store, &p, q).Allowed, "%+v of %+v at %v", q, p, decision)
				now = asked
			}
			now = now.Add(d.Jump(p))
		}
	}
}

func TestShardedCapacityZero(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 4, Period: time.Second, MaxReserved: 6, Shards: 3}
	store := still()
	for i := range 6 {
		d := decide(t, store, p, reserve(1))
		require.True(t, d.Allowed)
		require.Equal(t, time.Duration(i+1)*250*time.Millisecond, d.UsableAfter)
	}
	d := decide(t, store, p, reserve(1))
	require.False(t, d.Allowed)
	require.Equal(t, 250*time.Millisecond, d.RetryAfter)
}

// An empty request passes, and no tokens are left, which is a number too.
func TestEmptyRequestOfShardsWithoutCapacity(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 4, Period: time.Second, MaxReserved: 6, Shards: 3}
	store := still()
	require.True(t, decide(t, store, p, reserve(3)).Allowed)
	decide(t, store, p, reset())
	for _, q := range []runtime.Request{take(0), check(0), upTo(0)} {
		d := decide(t, store, p, q)
		require.True(t, d.Allowed)
		require.Equal(t, 0.0, d.Value)
		require.Zero(t, d.Remaining)
	}
}

// AllowUpTo finds the tokens of all shards, however they are spread.
func TestTakeUpToTakesFromAllShards(t *testing.T) {
	d := runtimetest.Roll(38)
	for range 500 {
		p, now := randomSharded(t, d, 9), epoch
		if p.MaxReserved = 0; p.Capacity == 0 {
			continue
		}
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
	d := runtimetest.Roll(37)
	for range 2000 {
		more, now := randomSharded(t, d, 10, runtime.TokenBucket, runtime.FixedWindow), epoch
		more.MaxReserved = max(more.MaxReserved, more.Rate)
		p := more
		p.Shards = 1 + d.IntN(more.Shards-1)
		store := clocked(&now)
		debt := min(p.MaxReserved, 3*p.Rate)
		require.True(t, decide(t, store, &p, reserve(p.Capacity+debt)).Allowed)
		for range 5 {
			now = now.Add(d.UpTo(p.Period))
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

// The shards share the rest when one of them cannot decide. A request that took from one of them is then refunded in
// full.
func TestRefundAfterShardsHaveShared(t *testing.T) {
	for _, kind := range runtimetest.TokenKinds() {
		p, store := sharded(runtime.Policy{Kind: kind, Rate: 40, Period: time.Minute, Capacity: 40}, 4), still()
		require.True(t, decide(t, store, p, take(40)).Allowed)
		decide(t, store, p, reset())

		taken := decide(t, store, p, take(9))
		require.True(t, taken.Allowed)
		require.True(t, decide(t, store, p, take(25)).Allowed, "of all shards, which share the 6 that are left")
		require.True(t, decide(t, store, p, taken.RefundRequest(9)).Allowed)
		require.Equal(t, 15.0, left(t, store, p), kind)
	}
}

// Tokens that return to one shard pay the debts of all: otherwise it would allow requests ahead of them.
func TestRefundToAShardPaysTheDebtOfAll(t *testing.T) {
	for range 50 { // which shards are used is random
		p := sharded(runtime.Policy{Kind: runtime.FixedWindow, Rate: 13, Period: time.Hour, Capacity: 9, MaxReserved: 9}, 5)
		store := still()
		decide(t, store, p, charge(9))
		decide(t, store, p, reset())
		taken := decide(t, store, p, take(2))
		decide(t, store, p, charge(9))
		decide(t, store, p, taken.RefundRequest(2))
		require.Equal(t, 0.0, left(t, store, p))
		require.False(t, decide(t, store, p, upTo(1)).Allowed)
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
	require.Equal(t, 3*p.Period, decide(t, store, &p, reserve(9)).UsableAfter)
	now = start.Add(p.Period)
	require.Equal(t, 2*p.Period, decide(t, store, &p, reserve(2)).UsableAfter)
	now = start.Add(3 * p.Period)
	d := decide(t, store, &p, take(1))
	require.False(t, d.Allowed)
	require.Equal(t, p.Period, d.RetryAfter)
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

// A call reads only two shards as long as one of them has enough tokens. A new shard may be one that the policy did not
// have when the key went into debt, so all are read. Then all are written, so that this happens once.
func TestRowsOfAShardedCall(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 100, Period: time.Second, Capacity: 100, Shards: 10}
	now := epoch.UnixNano()
	full := slices.Repeat([]runtime.State{{TS: now, Exists: true}}, 10)
	for _, row := range []struct {
		n       int64
		states  []runtime.State
		twoDo   bool
		changes int
	}{
		{1, full, true, 1},
		{11, full, false, 10}, // no shard has 11 tokens
		{1, make([]runtime.State, 10), false, 10},
	} {
		b := batch.New([]runtime.Call{call(of(p, take(row.n)))})
		require.Len(t, b.Rows(), 2)
		require.Equal(t, row.twoDo, b.Run(now, row.states[:2]))
		if !row.twoDo {
			require.Len(t, b.Rows(), 10)
			require.True(t, b.Run(now, row.states))
		}
		require.True(t, b.Answers()[0].Allowed())
		require.Len(t, b.Changes(), row.changes)
	}
}

// Calls for new keys find together that they need all shards, and not one after the other, each by another transaction.
func TestRowsOfManyShardedCalls(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 100, Period: time.Second, Capacity: 100, Shards: 10}
	var calls []runtime.Call
	for _, key := range []string{"a", "b", "c", "b"} {
		q := of(p, take(1))
		q.Key = key
		calls = append(calls, call(q))
	}
	b, now := batch.New(calls), epoch.UnixNano()
	require.Len(t, b.Rows(), 6)
	require.False(t, b.Run(now, make([]runtime.State, 6)))
	require.Len(t, b.Rows(), 30)
	require.True(t, b.Run(now, make([]runtime.State, 30)))
	require.Len(t, b.Changes(), 30)
}

// With the same seed, StepShards on all shards decides as a batch on those that it reads.
func TestStepShardsEqualsBatch(t *testing.T) {
	d := runtimetest.Roll(36)
	for range runtimetest.Steps() / runtimetest.TraceSteps {
		p := randomSharded(t, d, 10)
		now, latest, states := epoch, epoch, make([]runtime.State, p.Shards)
		for i := 0; i < runtimetest.TraceSteps && now.UnixNano() < runtimetest.LastInstant; i++ {
			q, seed := d.Request(p), d.Uint64()
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
			now = now.Add(d.Jump(p))
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
	b := batch.NewSeeded([]runtime.Call{call(of(p, q))}, seed)
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
