package runtime_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// overridable returns a bucket of 10 tokens an hour, of which operators can make 100 or none at all.
func overridable() *runtime.Policy {
	return &runtime.Policy{
		Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Hour, Capacity: 10,
		Overrides: runtime.OverrideBounds{Rate: 100, Capacity: 100, Unlimited: true},
	}
}

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
	e, err := of.Set(o.Context(), v)
	require.NoError(o, err)
	return e
}

func (o *overriding) block(of limiter.Overrides, until time.Duration) {
	o.Helper()
	_, err := of.Block(o.Context(), runtime.Block{Until: o.now.Add(until), Reason: "abuse", Author: "me"})
	require.NoError(o, err)
}

func (o *overriding) blockForGood(of limiter.Overrides) {
	o.Helper()
	_, err := of.Block(o.Context(), runtime.Block{Until: runtime.ForGood, Reason: "abuse", Author: "me"})
	require.NoError(o, err)
}

var ending = runtime.OverrideEnd{Reason: "over", Author: "me"}

// left returns the tokens that a request could take, and the entry that is in force; -1 if requests are denied.
func (o *overriding) left(key string) (tokens, entry int64) {
	o.Helper()
	d, err := o.key(key).CheckN(o.Context(), 0)
	require.NoError(o, err)
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
		{func() { _, err := o.overrides("a").Unblock(ctx, ending); require.NoError(t, err) }, runtime.MaxTokens, 20},
		{func() { o.block(o.overrides("a"), time.Minute) }, -1, 20},
		{func() { _, err := o.overrides("a").End(ctx, ending); require.NoError(t, err) }, 20, 20},
		{func() { o.now = o.now.Add(time.Hour - 2*time.Minute) }, 10, 10},
	} {
		row.do()
		left, _ := o.left("a")
		require.Equal(t, row.left, left)
		other, _ := o.left("b")
		require.Equal(t, row.other, other)
	}
	_, err := o.overrides("a").End(ctx, ending)
	require.ErrorIs(t, err, runtime.ErrNoOverride)
	_, err = o.overrides("a").Unblock(ctx, ending)
	require.ErrorIs(t, err, runtime.ErrNoOverride)
	history, err := o.overrides("a").History(ctx)
	require.NoError(t, err)
	var what string
	for _, e := range history {
		what += fmt.Sprintf("%d %s, ", e.ID, e.What)
	}
	require.Equal(t, "2 numbers, 3 numbers, 4 numbers, 5 block, 7 off, 8 block, 9 unblock, 10 block, 11 none, ", what)
	require.Equal(t, runtime.OverrideEntry{
		ID: 2, Limit: "calls", Key: "a", What: "numbers", Capacity: 30, Most: o.policy.Overrides,
		Until: epoch.Add(time.Hour).UTC(), At: epoch.UTC(), Reason: "a test", Author: "me",
	}, history[0])
	wholes, err := whole.History(ctx)
	require.NoError(t, err)
	require.Len(t, wholes, 2)
}

func TestOverrideEndsByTheClockAlone(t *testing.T) {
	o := newOverriding(t, overridable())
	e := o.override(o.overrides("a"), runtime.Override{Capacity: 50, Until: o.now.Add(time.Minute)})
	o.now = o.now.Add(time.Minute - 1)
	left, entry := o.left("a")
	require.Equal(t, []int64{50, e.ID}, []int64{left, entry})
	o.now = o.now.Add(1)
	left, entry = o.left("a")
	require.Equal(t, []int64{10, 0}, []int64{left, entry})

	o.override(o.overrides("a"), runtime.Override{Capacity: 50, Until: runtime.ForGood})
	o.now = o.now.AddDate(200, 0, 0)
	left, _ = o.left("a")
	require.Equal(t, int64(50), left)
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
		{runtime.Override{Until: until, Reason: "r", Author: "a"}, "changes nothing"},
		{runtime.Override{Rate: 101, Until: until, Reason: "r", Author: "a"}, "rate 101 is more than 100, the most that limits.yaml declares"},
		{runtime.Override{Capacity: 101, Until: until, Reason: "r", Author: "a"}, "capacity 101 is more than 100"},
		{runtime.Override{Rate: -1, Until: until, Reason: "r", Author: "a"}, "rate -1 is negative"},
		{runtime.Override{MaxReserved: 1, Until: until, Reason: "r", Author: "a"}, "the limit has maxReserved 0, which overrides cannot change"},
		{runtime.Override{Mode: runtime.ModeOff, Rate: 1, Until: until, Reason: "r", Author: "a"}, "neither a plan nor numbers"},
		{runtime.Override{Mode: runtime.ModeBlock, Until: until, Reason: "r", Author: "a"}, "use the method Block"},
		{runtime.Override{Mode: 99, Until: until, Reason: "r", Author: "a"}, "Mode(99) is not a Mode"},
		{runtime.Override{Plan: runtime.PlanText("pro"), Until: until, Reason: "r", Author: "a"}, "the limit has no plans"},
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
	entries, err := o.store.OverridesSince(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestInvalidBoundsAreRefused(t *testing.T) {
	for _, row := range []struct {
		edit func(p *runtime.Policy)
		want string
	}{
		{func(p *runtime.Policy) { p.Overrides.Rate = 9 }, "less than the limit's own numbers"},
		{func(p *runtime.Policy) { p.Overrides.Rate = 0 }, "have no rate"},
		{func(p *runtime.Policy) { p.Overrides.Capacity = 5 }, "less than the limit's own numbers"},
		{func(p *runtime.Policy) { p.Overrides.MaxReserved = 5 }, "cannot give reservations"},
		{func(p *runtime.Policy) { p.Overrides.Rate = runtime.MaxTokens + 1 }, "more than 1000000000000000"},
		{func(p *runtime.Policy) { p.Capacity, p.MaxReserved, p.Overrides.MaxReserved = 0, 1, 1 }, "cannot give a capacity"},
		{func(p *runtime.Policy) { p.Kind, p.Overrides.Capacity = runtime.SlidingWindow, 50 }, "equal rate and capacity"},
		{func(p *runtime.Policy) {
			p.Kind, p.Precise, p.Overrides.Rate, p.Overrides.Capacity = runtime.SlidingWindow, true, 2000, 2000
		}, "up to 1000"},
	} {
		p := overridable()
		row.edit(p)
		require.ErrorContains(t, p.Validate(), row.want)
	}
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
		b, err := of(plan).Peek(t.Context())
		require.NoError(t, err)
		return b.Capacity
	}
	o.override(overrides(free), runtime.Override{Plan: runtime.PlanText("pro")})
	require.Equal(t, []int64{100, 100, 100}, []int64{capacity(free), capacity(pro), capacity(3)})
	o.override(overrides(free), runtime.Override{Plan: runtime.PlanText("pro"), Capacity: 200})
	require.Equal(t, []int64{200, 200, 200}, []int64{capacity(free), capacity(pro), capacity(3)})
	o.override(overrides(free), runtime.Override{Plan: runtime.PlanText("all")})
	require.Equal(t, int64(runtime.MaxTokens), capacity(free))
	o.override(overrides(free), runtime.Override{Capacity: 50})
	require.Equal(t, []int64{50, 50, runtime.MaxTokens}, []int64{capacity(free), capacity(pro), capacity(3)}, "an unlimited plan has no numbers")
	o.block(overrides(3), time.Minute)
	for _, plan := range []int{free, pro, 3} {
		d, err := of(plan).Allow(t.Context())
		require.NoError(t, err)
		require.False(t, d.Allowed)
	}
	_, err := overrides(free).Set(t.Context(), runtime.Override{Plan: runtime.PlanText("gold"), Until: runtime.ForGood, Reason: "r", Author: "a"})
	require.ErrorIs(t, err, runtime.ErrInvalidPlan)
	require.ErrorIs(t, err, runtime.ErrInvalidOverride)
	_, err = overrides(pro).End(t.Context(), ending)
	require.NoError(t, err)
	for _, numbers := range []limiter.Overrides{overrides(3), o.limiter.OverridesForAll(&policies[3])} {
		o.override(numbers, runtime.Override{Rate: 5})
		require.Equal(t, []int64{5, 5, runtime.MaxTokens}, []int64{capacity(free), capacity(pro), capacity(3)})
		_, err = numbers.End(t.Context(), ending)
		require.NoError(t, err)
	}
}

func TestOverrideAppliesToCallsOverSeveralLimits(t *testing.T) {
	o := newOverriding(t, overridable())
	other := bucket("other", 10)
	o.override(o.overrides("a"), runtime.Override{Capacity: 30})
	ds, err := o.limiter.All(t.Context(), o.key("a").N(25), o.limiter.Limit(other, runtime.Key{}).N(5), o.key("a").N(5))
	require.NoError(t, err)
	require.True(t, ds.Allowed)
	require.Same(t, ds.Each[0].Policy, ds.Each[2].Policy)
	rs, err := o.limiter.ReserveAll(t.Context(), o.key("b").N(5), o.limiter.Limit(other, runtime.Key{}).N(5))
	require.NoError(t, err)
	o.block(o.overrides("b"), time.Minute)
	require.NoError(t, rs.Cancel(t.Context()), "a block does not keep tokens from being given back")
	o.now = o.now.Add(time.Minute)
	left, _ := o.left("b")
	require.Equal(t, int64(10), left)
	ds, err = o.limiter.All(t.Context(), o.key("c"), o.limiter.Limit(other, runtime.Key{}))
	require.NoError(t, err)
	require.True(t, ds.Allowed)
	o.block(o.overrides("c"), time.Minute)
	ds, err = o.limiter.All(t.Context(), o.key("c"), o.limiter.Limit(other, runtime.Key{}))
	require.NoError(t, err)
	require.Equal(t, []string{"calls"}, ds.DeniedBy())
}

func TestOverridesInTransactions(t *testing.T) {
	o := newOverriding(t, overridable())
	o.override(o.overrides("a"), runtime.Override{Capacity: 30})
	tx := o.store.Begin()
	d, err := o.limiter.WithTx(tx).Limit(o.policy, runtime.KeyOf(runtime.String("a"))).AllowN(t.Context(), 30)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.NoError(t, tx.Commit())
}
