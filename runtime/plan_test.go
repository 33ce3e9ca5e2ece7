package runtime_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

const (
	free = iota + 1
	pro
	enterprise
)

var planNames = runtime.PlanNames{free: "free", pro: "pro", enterprise: "enterprise"}

var planPolicies = runtime.PlanPolicies{
	free:       {Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10, MaxReserved: 10},
	pro:        {Name: "calls", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 60, MaxReserved: 60},
	enterprise: {Name: "calls", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited},
}

func TestNamesOfPlansRoundTrip(t *testing.T) {
	for plan := free; plan <= enterprise; plan++ {
		text, err := planNames.Text(plan)
		require.NoError(t, err)
		assert.Equal(t, planNames.Name(plan), string(text))
		parsed, err := planNames.Parse(string(text))
		require.NoError(t, err)
		assert.Equal(t, plan, parsed)
		value, err := planNames.Value(plan)
		require.NoError(t, err)
		for _, from := range []any{value, text} {
			scanned, err := planNames.Scan(from)
			require.NoError(t, err)
			assert.Equal(t, plan, scanned)
		}
	}
}

func TestNamesThatAreNoPlans(t *testing.T) {
	for _, name := range []string{"", "Free", "free ", "gold", "Plan(0)"} {
		plan, err := planNames.Parse(name)
		require.ErrorIs(t, err, runtime.ErrInvalidPlan, name)
		assert.ErrorContains(t, err, "the plans are free, pro, enterprise")
		assert.Zero(t, plan)
	}
	for _, from := range []any{nil, int64(1), true, "gold", []byte("gold")} {
		plan, err := planNames.Scan(from)
		require.ErrorIs(t, err, runtime.ErrInvalidPlan, "%v", from)
		assert.Zero(t, plan)
	}
	for _, plan := range []int{-1, 0, 4} {
		_, err := planNames.Text(plan)
		require.ErrorIs(t, err, runtime.ErrInvalidPlan)
		_, err = planNames.Value(plan)
		require.ErrorIs(t, err, runtime.ErrInvalidPlan)
	}
	assert.Equal(t, "Plan(0)", planNames.Name(0))
	assert.Equal(t, "Plan(4)", planNames.Name(4))
	_, err := runtime.PlanNames(nil).Parse("free")
	assert.ErrorIs(t, err, runtime.ErrInvalidPlan)
}

// unreached is a store that must not be reached.
type unreached struct{ t *testing.T }

func (f unreached) Do(context.Context, []runtime.Call) ([]runtime.Answer, error) {
	f.t.Error("the store was used for an invalid plan")
	return nil, nil
}

// However a handle is used, a request without a plan is an error with the name of the limit, although one of the plans is
// unlimited and each policy fails open.
func TestInvalidPlanIsNeverAllowed(t *testing.T) {
	open := append(runtime.PlanPolicies{}, planPolicies...)
	for i := range open {
		open[i].OnError = runtime.FailOpen
	}
	unlimitedFirst := runtime.PlanPolicies{{}, planPolicies[enterprise], planPolicies[free]}
	for _, policies := range []runtime.PlanPolicies{planPolicies, open, unlimitedFirst} {
		for _, plan := range []int{-1, 0, len(policies), math.MaxInt} {
			limits := limiter.New(unreached{t})
			key := runtime.KeyOf(runtime.String("k"))
			l, only := limits.Reservable(policies.For(plan, key)), limits.ReserveOnly(policies.For(plan, key))
			ctx := t.Context()
			for name, do := range map[string]func() error{
				"Allow":       func() error { d, err := l.Allow(ctx); assert.False(t, d.Allowed); return err },
				"Check":       func() error { d, err := l.Check(ctx); assert.False(t, d.Allowed); return err },
				"Require":     func() error { return l.Require(ctx) },
				"Wait":        func() error { return l.Wait(ctx) },
				"Peek":        func() error { _, err := l.Peek(ctx); return err },
				"Reset":       func() error { return l.Reset(ctx) },
				"Refund":      func() error { _, err := l.Refund(ctx, runtime.Decision{TakenAt: time.Unix(1, 0)}); return err },
				"Reserve":     func() error { _, err := l.Reserve(ctx); return err },
				"ReserveOnly": func() error { _, err := only.Reserve(ctx); return err },
				"All":         func() error { ds, err := limits.All(ctx, l.N(2)); assert.False(t, ds.Allowed); return err },
				"WithTx": func() error {
					_, err := limits.WithTx(nil).Limit(policies.For(plan, key)).Allow(ctx)
					return err
				},
			} {
				err := do()
				require.ErrorIs(t, err, runtime.ErrInvalidPlan, "%s of plan %d", name, plan)
				assert.ErrorContains(t, err, `limit "calls": invalid plan: `, name)
			}
		}
	}
}

func TestPlanPoliciesWithoutPlansAreErrors(t *testing.T) {
	for _, policies := range []runtime.PlanPolicies{nil, {{}}} {
		_, err := limiter.New(unreached{t}).Limit(policies.For(1, runtime.Key{})).Allow(t.Context())
		assert.ErrorIs(t, err, runtime.ErrInvalidPlan)
	}
}

func TestPlansShareTheCountOfAKey(t *testing.T) {
	now := time.Unix(1e9, 0)
	store := &memstore.Store{Clock: func() time.Time { return now }}
	limits := limiter.New(store)
	key := runtime.KeyOf(runtime.String("k"))
	take := func(plan int, n int64) bool {
		d, err := limits.Limit(planPolicies.For(plan, key)).AllowN(t.Context(), n)
		require.NoError(t, err)
		return d.Allowed
	}
	require.True(t, take(free, 4))
	require.True(t, take(enterprise, 1_000_000))
	require.Equal(t, 1, store.Len(), "an unlimited plan has no row")
	require.True(t, take(free, 6), "what an unlimited plan takes is not counted")
	require.False(t, take(free, 1))
}

// Different keys of a limit may have different plans in one call, but one key cannot have two.
func TestAllTakesFromDifferentPlansOfDifferentKeys(t *testing.T) {
	now := time.Unix(1e9, 0)
	store := &memstore.Store{Clock: func() time.Time { return now }}
	limits := limiter.New(store)
	item := func(name string, plan int, n int64) limiter.Item {
		return limits.Limit(planPolicies.For(plan, runtime.KeyOf(runtime.String(name)))).N(n)
	}
	ds, err := limits.All(t.Context(), item("a", free, 10), item("b", pro, 60), item("c", enterprise, 1000))
	require.NoError(t, err)
	require.True(t, ds.Allowed)
	ds, err = limits.All(t.Context(), item("c", enterprise, 1000), item("b", pro, 1), item("d", free, 1))
	require.NoError(t, err)
	require.False(t, ds.Allowed)
	assert.Equal(t, time.Second, ds.RetryAfter)
	require.Equal(t, 2, store.Len(), "a denied call takes nothing")
	_, err = limits.All(t.Context(), item("a", free, 1), item("a", pro, 1))
	assert.ErrorIs(t, err, runtime.ErrInvalidCall)
}

func TestSweepKeepsARowThatSomePlanNeeds(t *testing.T) {
	now := time.Unix(1e9, 0)
	store := &memstore.Store{Clock: func() time.Time { return now }}
	slow := append(runtime.PlanPolicies{}, planPolicies...)
	slow[pro].Rate = 1
	_, err := limiter.New(store).Limit(slow.For(pro, runtime.Key{})).AllowN(t.Context(), 60)
	require.NoError(t, err)
	policies := []*runtime.Policy{&slow[free], &slow[pro], &slow[enterprise]}
	now = now.Add(90 * time.Minute) // full for free since 6m, and for pro since 1h
	swept, err := store.Sweep(t.Context(), policies...)
	require.NoError(t, err)
	require.Zero(t, swept)
	now = now.Add(31 * time.Minute)
	swept, err = store.Sweep(t.Context(), policies...)
	require.NoError(t, err)
	require.Equal(t, 1, swept)
}
