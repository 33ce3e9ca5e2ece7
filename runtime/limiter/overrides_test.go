package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// overriding is a limiter on a memstore.Store with a clock that stands still.
type overriding struct {
	*testing.T
	now     time.Time
	store   *memstore.Store
	limiter *limiter.Limiter
	policy  *runtime.Policy
}

func newOverriding(t *testing.T, p *runtime.Policy) *overriding {
	o := &overriding{T: t, now: epoch, policy: p}
	o.store = &memstore.Store{Clock: func() time.Time { return o.now }}
	o.limiter = limiter.New(o.store)
	return o
}

func (o *overriding) key(key string) limiter.Limit {
	return o.limiter.Limit(o.policy, runtime.KeyOf(runtime.String(key)))
}

func (o *overriding) overrides(key string) limiter.Overrides {
	return o.limiter.Overrides(o.policy, runtime.KeyOf(runtime.String(key)))
}

func (o *overriding) override(of limiter.Overrides, v runtime.Override) runtime.OverrideEntry {
	o.Helper()
	v.Reason, v.Author = "a test", "me"
	if v.Until.IsZero() {
		v.Until = o.now.Add(time.Hour)
	}
	return must(of.Set(o.Context(), v))
}

func (o *overriding) block(of limiter.Overrides, until time.Duration) {
	o.Helper()
	o.blockUntil(of, o.now.Add(until))
}

func (o *overriding) blockUntil(of limiter.Overrides, until time.Time) {
	o.Helper()
	must(of.Block(o.Context(), runtime.Block{Until: until, Reason: "abuse", Author: "me"}))
}

var overrideEnd = runtime.OverrideEnd{Reason: "over", Author: "me"}

// left returns the tokens that a request could take, and the entry that is in force; -1 if requests are denied.
func (o *overriding) left(key string) (tokens, entry int64) {
	o.Helper()
	d := must(o.key(key).CheckN(o.Context(), 0))
	entry, _ = d.Override()
	if d.BlockedFor > 0 {
		return -1, entry
	}
	return d.Remaining, entry
}

func TestPrecedenceOfOverrides(t *testing.T) {
	o := newOverriding(t, overridable())
	ctx := t.Context()
	whole := o.limiter.OverridesForAll(o.policy)
	for _, row := range []struct {
		do          func()
		left, other int64
	}{
		{func() {}, 10, 10},
		{func() { o.override(whole, runtime.Override{Capacity: 20}) }, 20, 20},
		{func() { o.override(o.overrides("a"), runtime.Override{Capacity: 30}) }, 30, 20},
		{func() { o.override(o.overrides("a"), runtime.Override{Rate: 50}) }, 50, 20}, // of a limit with equal rate and capacity, both
		{func() { o.override(o.overrides("a"), runtime.Override{Rate: 50, Capacity: 30}) }, 30, 20},
		{func() { o.block(o.overrides("a"), time.Minute) }, -1, 20},
		{func() { o.block(whole, 2*time.Minute) }, -1, -1},
		{func() { o.now = o.now.Add(time.Minute) }, -1, -1},
		{func() { o.now = o.now.Add(time.Minute) }, 30, 20}, // the blocks have ended, the overrides have not
		{func() { o.override(o.overrides("a"), runtime.Override{Mode: runtime.ModeOff}) }, runtime.MaxTokens, 20},
		{func() { o.block(o.overrides("a"), time.Minute) }, -1, 20},
		{func() { _, err := o.overrides("a").Unblock(ctx, overrideEnd); require.NoError(t, err) }, runtime.MaxTokens, 20},
		{func() { o.block(o.overrides("a"), time.Minute) }, -1, 20},
		{func() { _, err := o.overrides("a").End(ctx, overrideEnd); require.NoError(t, err) }, 20, 20},
		{func() { o.now = o.now.Add(time.Hour - 2*time.Minute - 1) }, 20, 20},
		{func() { o.now = o.now.Add(1) }, 10, 10},
		{func() { o.override(o.overrides("a"), runtime.Override{Capacity: 50, Until: runtime.ForGood()}) }, 50, 10},
		{func() { o.now = o.now.AddDate(200, 0, 0) }, 50, 10},
		{func() { _, err := o.overrides("a").End(ctx, overrideEnd); require.NoError(t, err) }, 10, 10},
	} {
		row.do()
		left, _ := o.left("a")
		require.Equal(t, row.left, left)
		other, _ := o.left("b")
		require.Equal(t, row.other, other)
	}
	_, err := o.overrides("a").End(ctx, overrideEnd)
	require.ErrorIs(t, err, runtime.ErrNoOverride)
	_, err = o.overrides("a").Unblock(ctx, overrideEnd)
	require.ErrorIs(t, err, runtime.ErrNoOverride)
	history := must(o.overrides("a").History(ctx))
	var what string
	for _, e := range history {
		what += fmt.Sprintf("%d %s, ", e.ID, e.What)
	}
	require.Equal(t, "2 numbers, 3 numbers, 4 numbers, 5 block, 7 off, 8 block, 9 unblock, 10 block, 11 none, 12 numbers, 13 none, ", what)
	require.Equal(t, runtime.OverrideEntry{
		ID: 2, Limit: "calls", Key: "a", What: "numbers", Capacity: 30, Most: o.policy.Overrides,
		Until: epoch.Add(time.Hour).UTC(), At: epoch.UTC(), Reason: "a test", Author: "me",
	}, history[0])
	require.Len(t, must(whole.History(ctx)), 2)
}

func TestInvalidOverrideIsNotWritten(t *testing.T) {
	o := newOverriding(t, overridable())
	until := o.now.Add(time.Hour)
	for _, row := range []struct {
		v    runtime.Override
		want string
	}{
		{runtime.Override{Rate: 5, Reason: "r", Author: "a"}, "Until is not set"},
		{runtime.Override{Rate: 5, Until: o.now, Reason: "r", Author: "a"}, "is not after the present"},
		{runtime.Override{Rate: 5, Until: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), Reason: "r", Author: "a"}, "set ForGood"},
		{runtime.Override{Rate: 5, Until: until, Author: "a"}, "needs a reason"},
		{runtime.Override{Rate: 5, Until: until, Reason: " ", Author: "a"}, "needs a reason"},
		{runtime.Override{Rate: 5, Until: until, Reason: "r"}, "needs an author"},
		{runtime.Override{Rate: 5, Until: until, Reason: "r\x00", Author: "a"}, "control characters"},
		{runtime.Override{Rate: 101, Until: until, Reason: "r", Author: "a"}, "rate 101 is more than 100, the most that limits.yaml declares"},
		{runtime.Override{Capacity: 101, Until: until, Reason: "r", Author: "a"}, "capacity 101 is more than 100"},
		{runtime.Override{Rate: -1, Until: until, Reason: "r", Author: "a"}, "rate -1 is negative"},
		{runtime.Override{MaxReserved: 1, Until: until, Reason: "r", Author: "a"}, "the limit has maxReserved 0, which overrides cannot change"},
		{runtime.Override{Mode: runtime.ModeOff, Rate: 1, Until: until, Reason: "r", Author: "a"}, "neither a plan nor numbers"},
		{runtime.Override{Mode: runtime.ModeBlock, Until: until, Reason: "r", Author: "a"}, "use the method Block"},
		{runtime.Override{Mode: 99, Until: until, Reason: "r", Author: "a"}, "Mode(99) is not a Mode"},
		{runtime.Override{Plan: override.PlanName("pro"), Until: until, Reason: "r", Author: "a"}, "the limit has no plans"},
	} {
		_, err := o.overrides("a").Set(t.Context(), row.v)
		require.ErrorIs(t, err, runtime.ErrInvalidOverride, row.want)
		require.ErrorContains(t, err, row.want)
		require.ErrorContains(t, err, `limit "calls": `)
	}
	_, err := o.overrides("a").Block(t.Context(), runtime.Block{Until: until, Author: "a"})
	require.ErrorContains(t, err, "needs a reason")
	o.policy.Overrides.Unlimited = false
	_, err = o.overrides("a").Set(t.Context(), runtime.Override{Mode: runtime.ModeShadow, Until: until, Reason: "r", Author: "a"})
	require.ErrorContains(t, err, "cannot be lifted")
	_, err = limiter.New(o.store).WithTx(o.store.Begin()).Overrides(o.policy, runtime.Key{}).Block(t.Context(), runtime.Block{Until: until, Reason: "r", Author: "a"})
	require.ErrorIs(t, err, runtime.ErrInvalidOverride)
	require.Empty(t, must(o.store.OverridesSince(t.Context(), 1)))
}

func TestOverrideByPlan(t *testing.T) {
	bounds := runtime.OverrideBounds{Rate: 200, Capacity: 200, Unlimited: true}
	policies := runtime.PlanPolicies{
		free: {Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Hour, Capacity: 10, Overrides: bounds},
		pro:  {Name: "calls", Kind: runtime.TokenBucket, Rate: 100, Period: time.Minute, Capacity: 100, Overrides: bounds},
		3:    {Name: "calls", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited, Overrides: bounds},
	}.Overridable(runtime.PlanNames{"", "free", "pro", "all"})
	o := newOverriding(t, nil)
	of := func(plan int) limiter.Limit {
		return o.limiter.Limit(policies.For(plan, runtime.KeyOf(runtime.String("a"))))
	}
	overrides := func(plan int) limiter.Overrides {
		return o.limiter.Overrides(policies.For(plan, runtime.KeyOf(runtime.String("a"))))
	}
	capacity := func(plan int) int64 {
		return must(of(plan).Peek(t.Context())).Capacity
	}
	o.override(overrides(free), runtime.Override{Plan: override.PlanName("pro")})
	require.Equal(t, []int64{100, 100, 100}, []int64{capacity(free), capacity(pro), capacity(3)})
	o.override(overrides(free), runtime.Override{Plan: override.PlanName("pro"), Capacity: 200})
	require.Equal(t, []int64{200, 200, 200}, []int64{capacity(free), capacity(pro), capacity(3)})
	o.override(overrides(free), runtime.Override{Plan: override.PlanName("all")})
	require.Equal(t, int64(runtime.MaxTokens), capacity(free))
	o.override(overrides(free), runtime.Override{Capacity: 50})
	require.Equal(t, []int64{50, 50, runtime.MaxTokens}, []int64{capacity(free), capacity(pro), capacity(3)}, "an unlimited plan has no numbers")
	o.block(overrides(3), time.Minute)
	for _, plan := range []int{free, pro, 3} {
		require.False(t, must(of(plan).Allow(t.Context())).Allowed)
	}
	_, err := overrides(free).Set(t.Context(), runtime.Override{Plan: override.PlanName("gold"), Until: runtime.ForGood(), Reason: "r", Author: "a"})
	require.ErrorIs(t, err, runtime.ErrInvalidPlan)
	require.ErrorIs(t, err, runtime.ErrInvalidOverride)
	must(overrides(pro).End(t.Context(), overrideEnd))
	for _, numbers := range []limiter.Overrides{overrides(3), o.limiter.OverridesForAll(&policies[3])} {
		o.override(numbers, runtime.Override{Rate: 5})
		require.Equal(t, []int64{5, 5, runtime.MaxTokens}, []int64{capacity(free), capacity(pro), capacity(3)})
		must(numbers.End(t.Context(), overrideEnd))
	}
}

// A window that ends under smaller numbers forgets the use beyond them, as package operate documents for operators.
func TestWindowThatEndsUnderAnOverrideForgets(t *testing.T) {
	for _, row := range []struct {
		until time.Duration // the end of the override
		left  int64         // after it, of 10 tokens an hour and at most 30
	}{{10 * time.Minute, 10}, {time.Hour + time.Minute, 30}} {
		p := overridable()
		p.Kind, p.Capacity, p.Start = runtime.FixedWindow, 30, runtime.StartOffset(0)
		o := newOverriding(t, p)
		o.now = o.now.Truncate(time.Hour)
		must(o.key("a").AllowN(t.Context(), 30))
		o.override(o.overrides("a"), runtime.Override{Capacity: 4, Until: o.now.Add(row.until)})
		o.now = o.now.Add(time.Hour)
		must(o.key("a").AllowN(t.Context(), 0))
		must(o.key("a").Charge(t.Context(), 4))
		o.now = o.now.Add(time.Minute)
		require.Equal(t, row.left-4, must(o.key("a").Peek(t.Context())).Remaining)
	}
}

// Tokens beyond the capacity are given once by an override of the capacity, which has an end: it keeps those that are
// left until then, and what of them was used and has not accrued by then is missing.
func TestOverrideGivesTokensBeyondTheCapacity(t *testing.T) {
	for _, row := range []struct {
		kind runtime.Kind
		used time.Duration // when the tokens are used, under an override of 3 hours
		left int64         // 10 minutes after its end, of 60 an hour and at most 60
	}{
		{runtime.TokenBucket, 0, 60}, {runtime.TokenBucket, 2*time.Hour + 50*time.Minute, 0},
		{runtime.FixedWindow, 0, 60}, {runtime.FixedWindow, 2*time.Hour + 50*time.Minute, 60},
	} {
		p := overridable()
		p.Kind, p.Rate, p.Period, p.Capacity = row.kind, 60, time.Hour, 60
		p.Overrides = runtime.OverrideBounds{Rate: 60, Capacity: 1000}
		if row.kind == runtime.FixedWindow {
			p.Start = runtime.StartOffset(0)
		}
		o := newOverriding(t, p)
		o.now = o.now.Truncate(time.Hour)
		require.NoError(t, o.key("a").RequireN(t.Context(), 20))
		o.override(o.overrides("a"), runtime.Override{Capacity: 60 + 100, Until: o.now.Add(3 * time.Hour)})
		require.EqualValues(t, 140, must(o.key("a").Peek(t.Context())).Remaining, "100 more at once")
		o.now = o.now.Add(row.used)
		require.NoError(t, o.key("a").RequireN(t.Context(), 140))
		o.now = o.now.Add(3*time.Hour + 10*time.Minute - row.used)
		require.Equal(t, row.left, must(o.key("a").Peek(t.Context())).Remaining, "%v used after %v", row.kind, row.used)
	}
}

// Whatever an entry says, and whatever the limit is now, the policy that it puts in force is valid and within the
// bounds.
func TestPolicyInForceIsValid(t *testing.T) {
	d := runtimetest.Roll(11)
	for range 20_000 {
		p := d.Policy(t)
		p.Name = "calls"
		p.Overrides = runtime.OverrideBounds{Rate: p.Rate * 2, Capacity: p.Capacity * 2, MaxReserved: min(p.MaxReserved*2, runtime.MaxTokens), Unlimited: d.IntN(2) == 0}
		if !p.Kind.Linear() {
			p.Overrides.Capacity = p.Overrides.Rate
		}
		require.NoError(t, p.Validate())
		number := func() int64 { return d.Int64N(3) * d.Int64N(1+p.Rate*2) }
		what := []string{runtime.OverrideNumbers, runtime.OverrideBlock, runtime.OverrideOff, runtime.OverrideShadow, runtime.OverrideUnlimited}[d.IntN(5)]
		most := runtime.OverrideBounds{Rate: 1 << 60, Capacity: 1 << 60, MaxReserved: 1 << 60, Unlimited: true}
		store := &memstore.Store{}
		_, err := store.AppendOverride(t.Context(), runtime.OverrideEntry{
			Limit: "calls", Key: "a", What: what, Rate: number(), Capacity: number(), MaxReserved: number(), Most: most,
			Until: runtime.ForGood(), Reason: "r", Author: "a",
		})
		require.NoError(t, err)
		b, err := limiter.New(store).Limit(&p, runtime.KeyOf(runtime.String("a"))).Peek(t.Context())
		require.NoError(t, err, "%+v", p)
		if b.Capacity != runtime.MaxTokens {
			require.Equal(t, p.Capacity == 0, b.Capacity == 0)
			require.LessOrEqual(t, b.Capacity, max(p.Capacity, p.Overrides.Capacity))
		}
	}
}

// Requests of a key fail while an entry of a later version is in force for all keys. A reset and an erasure do not depend on
// it.
func TestResetAndEraseUnderAnEntryOfALaterVersion(t *testing.T) {
	store := &memstore.Store{}
	p := overridable()
	limit := limiter.New(store).Limit(p, runtime.KeyOf(runtime.String("a")))
	must(limit.Allow(t.Context()))
	must(store.AppendOverride(t.Context(), runtime.OverrideEntry{
		Limit: p.Name, What: "teleport", Most: p.Overrides, Until: runtime.ForGood(), Reason: "r", Author: "a",
	}))
	_, err := limit.Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrUnknownOverride)
	require.NoError(t, limit.Reset(t.Context()))
	require.NoError(t, limit.Erase(t.Context()), "it has erased the key")
	rows, _ := must2(store.Rows(t.Context(), runtime.Row{Name: p.Name, Shard: -1}, 10))
	require.Empty(t, rows)
}

func TestWaiterPicksUpARaise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memstore.Store{}
		limits := limiter.New(store)
		p, key := overridable(), runtime.KeyOf(runtime.String("a"))
		limit, overrides := limits.Limit(p, key), limits.Overrides(p, key)
		must(limit.AllowN(t.Context(), 10))
		var all sync.WaitGroup
		begin := time.Now()
		waited := func(wait func() error) {
			all.Go(func() {
				require.NoError(t, wait())
				require.Equal(t, time.Minute, time.Since(begin))
			})
		}
		waited(func() error { return limit.Wait(t.Context()) })
		waited(func() error { return limits.Group(limit).Wait(t.Context()) })
		time.Sleep(time.Minute)
		must(overrides.Set(t.Context(), runtime.Override{Capacity: 100, Until: time.Now().Add(time.Hour), Reason: "r", Author: "a"}))
		all.Wait()

		// A waiter also sees the end of an override: here of one with a lower rate.
		must(overrides.Set(t.Context(), runtime.Override{Rate: 1, Capacity: 1, Until: time.Now().Add(time.Minute), Reason: "r", Author: "a"}))
		require.NoError(t, limit.Reset(t.Context()))
		must(limit.Allow(t.Context()))
		begin = time.Now()
		require.NoError(t, limit.Wait(t.Context()))
		require.Equal(t, time.Minute, time.Since(begin))
	})
}

// A denial by a block says when the block ends, and a Peek agrees with it.
func TestEndOfABlock(t *testing.T) {
	o := newOverriding(t, overridable())
	ctx := t.Context()
	whole := o.limiter.OverridesForAll(o.policy)
	for _, row := range []struct {
		do          func()
		retry       time.Duration
		text, peek  string
		left, value float64
	}{
		{func() { o.block(o.overrides("a"), time.Hour) }, time.Hour, "denied, retry after 1h", "blocked for 1h with 7 of 10 left, full after 18m", 0, 7},
		{func() { o.now = o.now.Add(10 * time.Minute) }, 50 * time.Minute, "denied, retry after 50m", "blocked for 50m with 8 of 10 left, full after 8m", 0, 8 + 2./3},
		// The later end of two blocks counts.
		{func() { o.block(whole, time.Minute) }, 50 * time.Minute, "denied, retry after 50m", "blocked for 50m with 8 of 10 left, full after 8m", 0, 8 + 2./3},
		{func() { o.block(whole, time.Hour) }, time.Hour, "denied, retry after 1h", "blocked for 1h with 8 of 10 left, full after 8m", 0, 8 + 2./3},
		{func() { o.now = o.now.Add(time.Hour - 1) }, 1, "denied, retry after 1ms", "blocked for 1ms with 10 of 10 left", 0, 10},
		{func() { o.now = o.now.Add(1) }, 0, "allowed, 10 left", "10 of 10 left", 10, 10},
		{func() { o.block(o.overrides("a"), time.Hour); o.blockUntil(whole, runtime.ForGood()) }, runtime.Never, "denied, no retry passes", "blocked with 10 of 10 left", 0, 10},
	} {
		if row.retry == time.Hour && row.value == 7 {
			must(o.key("a").AllowN(ctx, 3))
		}
		row.do()
		d := must(o.key("a").Check(ctx))
		require.Equal(t, row.retry, d.RetryAfter)
		require.Equal(t, row.text, d.String())
		d = must(o.key("a").CheckN(ctx, 0))
		require.True(t, d.Allowed, "a block takes away no tokens")
		require.Equal(t, row.retry, d.BlockedFor)
		b := must(o.key("a").Peek(ctx))
		require.Equal(t, row.peek, b.String())
		require.Equal(t, row.retry, b.BlockedFor, "as long as a request is denied")
		require.Equal(t, row.left, float64(b.Remaining))
		require.InDelta(t, row.value, b.Value, 1e-6)
		// A call that needs the store for another limit.
		ds := must(o.limiter.All(ctx, o.key("a").Checked(), o.limiter.Limit(bucket("other", 5), runtime.Key{}).CheckedN(0)))
		require.Equal(t, row.retry, ds.RetryAfter)
		require.Equal(t, row.retry == 0, ds.Allowed)
		require.Equal(t, row.retry, must(o.limiter.Group(o.key("a").Checked()).Reserve(ctx)).Decisions.RetryAfter)
	}
}

// While the store fails, a block is known from memory, and so is its end.
func TestEndOfABlockWhileTheStoreFails(t *testing.T) {
	for _, onError := range []runtime.OnError{runtime.FailOpen, runtime.FailLocal} {
		p := overridable()
		p.OnError = onError
		o := newOverriding(t, p)
		o.now = time.Now() // the counts in memory are by this clock
		store := &faulty{Store: o.store}
		o.limiter = limiter.New(store)
		o.block(o.overrides("blocked"), time.Hour)
		store.err = errors.New("down")
		ds := must(o.limiter.All(t.Context(), o.key("blocked"), o.key("other")))
		require.False(t, ds.Allowed)
		require.InDelta(t, time.Hour, ds.RetryAfter, float64(time.Minute))
	}
}

// Memory has one row for a key with shards, also for the policy that follows an override.
func TestEndOfAnOverrideOfShardsWhileTheStoreFails(t *testing.T) {
	p := overridable()
	p.OnError, p.Shards = runtime.FailLocal, 2
	o := newOverriding(t, p)
	o.now = time.Now() // the counts in memory are by this clock
	store := &faulty{Store: o.store}
	o.limiter = limiter.New(store)
	o.override(o.overrides("a"), runtime.Override{Capacity: 2, Until: o.now.Add(time.Minute)})
	store.err = errors.New("down")
	var d runtime.Decision
	for range 3 {
		d = must(o.key("a").Allow(t.Context()))
	}
	require.False(t, d.Allowed)
	require.Error(t, d.FailedLocal)
	require.Positive(t, d.RetryAfter)
}

// Clients of a block come back as spread out as those of a denial, whatever their plan.
func TestJitterAfterABlock(t *testing.T) {
	p := *overridable()
	p.Jitter = time.Minute
	plans := lifted(p)
	for plan := free; plan <= enterprise; plan++ {
		o := newOverriding(t, &plans[plan])
		o.block(o.limiter.OverridesForAll(o.policy), time.Hour)
		seen := map[time.Duration]bool{}
		for i := range 10 {
			d := must(o.key(fmt.Sprint(i)).Allow(t.Context()))
			require.Equal(t, time.Hour, d.RetryAfter)
			require.LessOrEqual(t, d.Jitter, time.Minute)
			seen[d.RetryIn()] = true
		}
		require.Len(t, seen, 10, "plan %d", plan)
	}
}

// The store decides for a key of an unlimited plan that an override has given another one.
func TestOverrideOfAnUnlimitedPlan(t *testing.T) {
	bounds := runtime.OverrideBounds{Rate: 20, MaxReserved: 20}
	policies := runtime.PlanPolicies{
		free: {Name: "jobs", Kind: runtime.TokenBucket, Rate: 10, Period: time.Hour, MaxReserved: 10, Timeout: time.Second, Overrides: bounds},
		pro:  {Name: "jobs", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited, Overrides: bounds},
	}.Overridable(runtime.PlanNames{"", "free", "pro"})
	watch := &spy{}
	o := newOverriding(t, nil)
	store := &deadlines{Store: o.store}
	o.limiter = limiter.New(store, limiter.Observe(watch))
	p, key := policies.For(pro, runtime.KeyOf(runtime.String("a")))
	limit := o.limiter.ReserveOnly(p, key)
	o.override(o.limiter.Overrides(p, key), runtime.Override{Plan: override.PlanName("free")})

	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
	defer cancel()
	for range 2 {
		// The first token has accrued already; both wait for the other one longer than the context lasts.
		require.ErrorIs(t, limit.Wait(ctx), runtime.ErrLimited, "the limit has capacity 0, so that Wait must reserve")
		require.ErrorIs(t, o.limiter.Group(limit).Wait(ctx), runtime.ErrLimited)
	}
	for _, seen := range watch.take() {
		require.Equal(t, runtime.SourceStore, seen.Source)
		require.EqualValues(t, 10, seen.Policy.MaxReserved)
	}
	require.NotZero(t, store.calls)
	require.LessOrEqual(t, store.longest, time.Second, "the plan of the override has a timeout")
}

// deadlines is a store that notes how long its calls may last.
type deadlines struct {
	*memstore.Store
	calls   int
	longest time.Duration
}

func (s *deadlines) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	deadline, _ := ctx.Deadline()
	s.calls, s.longest = s.calls+1, max(s.longest, time.Until(deadline))
	return s.Store.Do(ctx, calls)
}

// leased answers as a store that has leased all tokens: Value is the rest of the lease.
type leased struct{ *memstore.Store }

func (s leased) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	answers, err := s.Store.Do(ctx, calls)
	for i := range answers {
		if calls[i].Requests[0].Op == runtime.Take {
			answers[i].Decisions[0].Value = 0
		}
	}
	return answers, err
}

// The refund of leased tokens is that of a key that was full, by the capacity of the override.
func TestSettlementOfLeasedTokensWithAnOverride(t *testing.T) {
	p := &runtime.Policy{
		Name: "calls", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 100, MaxReserved: 100,
		Lease:     runtime.Lease{Tokens: 50, For: time.Second},
		Overrides: runtime.OverrideBounds{Rate: 60, Capacity: 1000, MaxReserved: 100},
	}
	o := newOverriding(t, p)
	o.limiter = limiter.New(leased{o.store})
	limit := o.limiter.Reservable(p, runtime.KeyOf(runtime.String("a")))
	o.override(o.overrides("a"), runtime.Override{Capacity: 1000})
	ds := must(o.limiter.All(t.Context(), limit.N(50)))
	o.now = o.now.Add(20 * time.Second)
	must(limit.AllowN(t.Context(), 500))
	r, ok := ds.Settlement(0)
	require.True(t, ok)
	require.NoError(t, r.Cancel(t.Context()))
	require.InDelta(t, 500, must(limit.Peek(t.Context())).Value, 0, "20 of the 50 have accrued again before the 500 were taken")
}

// lifted returns the plans free, a limit, and enterprise, which has none.
func lifted(p runtime.Policy) runtime.PlanPolicies {
	all := runtime.Policy{Name: p.Name, Kind: p.Kind, Precise: p.Precise, Shards: p.Shards, Mode: runtime.ModeUnlimited, AtMost: p.AtMost, Overrides: p.Overrides}
	return runtime.PlanPolicies{free: p, pro: p, enterprise: all}.Overridable(runtime.PlanNames{"", "free", "pro", "enterprise"})
}

// A plan without a limit counts nothing while its key is blocked, as it counts nothing otherwise: neither a charge nor a
// refund of what another plan has taken. Its periods differ from theirs.
func TestBlockedPlanWithoutALimitCountsNothing(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(p *runtime.Policy)
	}{
		{"bucket", func(*runtime.Policy) {}},
		{"shards", func(p *runtime.Policy) { p.Shards = 4 }},
		{"fixed", func(p *runtime.Policy) { p.Kind = runtime.FixedWindow }},
		{"fixed with shards", func(p *runtime.Policy) { p.Kind, p.Shards = runtime.FixedWindow, 2 }},
		{"first use", func(p *runtime.Policy) { p.Kind, p.Start = runtime.FixedWindow, runtime.StartFirstUse() }},
		{"sliding", func(p *runtime.Policy) { p.Kind = runtime.SlidingWindow }},
		{"precise", func(p *runtime.Policy) { p.Kind, p.Precise = runtime.SlidingWindow, true }},
	} {
		p := *overridable()
		row.change(&p)
		plans := lifted(p)
		o := newOverriding(t, &plans[free])
		with, without := o.key("a"), o.limiter.Limit(plans.For(enterprise, runtime.KeyOf(runtime.String("a"))))
		must(with.Allow(t.Context())) // the first take of a key with shards needs all of them
		taken := must(with.Allow(t.Context()))
		o.block(o.overrides("a"), time.Hour)
		o.now = o.now.Add(time.Second)
		before := must(with.Peek(t.Context()))
		rows, _, err := o.store.Rows(t.Context(), runtime.Row{Name: p.Name, Shard: -1}, 10)
		require.NoError(t, err)
		for _, change := range []func() (runtime.Decision, error){
			func() (runtime.Decision, error) { return without.Charge(t.Context(), 5) },
			func() (runtime.Decision, error) { return without.Refund(t.Context(), taken) },
		} {
			d := must(change())
			require.True(t, d.Allowed)
			require.Zero(t, d.Taken)
		}
		require.Equal(t, before, must(with.Peek(t.Context())), row.name)
		after, _, err := o.store.Rows(t.Context(), runtime.Row{Name: p.Name, Shard: -1}, 10)
		require.NoError(t, err)
		require.Equal(t, rows, after, row.name)
		balance := must(without.Peek(t.Context()))
		require.Equal(t, runtime.Balance{
			Limit: p.Name, Capacity: runtime.MaxTokens, Value: runtime.MaxTokens, BlockedFor: time.Hour - time.Second,
		}, balance, "%s: what a key has used does not depend on a block", row.name)
		require.Equal(t, "blocked for 59m59s", balance.String())
		require.NoError(t, without.Reset(t.Context()))
		require.Zero(t, must(with.Peek(t.Context())).Used, row.name)
	}
}
