package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// countsOnly is what limits.yaml has as rate: unlimited with count: true.
func countsOnly(period time.Duration) runtime.Policy {
	return runtime.Policy{Name: "calls", Kind: runtime.FixedWindow, Rate: runtime.MaxTokens, Capacity: runtime.MaxTokens, Period: period, Start: runtime.StartOffset(0)}
}

// A limit that only counts allows every request, and Peek returns the use in the window, as exactly as any other count.
func TestUnlimitedRateIsCounted(t *testing.T) {
	month := countsOnly(0)
	month.Start, month.Calendar = runtime.Start{}, runtime.Calendar{Unit: runtime.Month, Zone: "America/New_York"}
	month.Period = month.Calendar.Period()
	sharded := countsOnly(time.Hour)
	sharded.Shards = 4
	day := time.Date(2026, time.November, 29, 12, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		policy runtime.Policy
		end    time.Time
	}{
		{"by the hour", countsOnly(time.Hour), time.Date(2026, time.November, 29, 13, 0, 0, 0, time.UTC)},
		{"by the calendar", month, time.Date(2026, time.December, 1, 5, 0, 0, 0, time.UTC)},
		{"in shards", sharded, time.Date(2026, time.November, 29, 13, 0, 0, 0, time.UTC)},
	} {
		now := day
		l := limiter.New(clocked(&now)).Limit(&c.policy, runtime.Key{})
		for _, step := range []struct {
			at   time.Time
			n    int64
			used int64
		}{
			{day, 1, 1},
			{day, 1_000_000_000_000, 1_000_000_000_001},
			{c.end.Add(-1), 7, 1_000_000_000_008},
			{c.end, 2, 2}, // the count of the window before is gone
			{c.end, 0, 2},
		} {
			now = step.at
			d := must(l.AllowN(t.Context(), step.n))
			require.Equal(t, []any{true, "allowed", time.Duration(0)}, []any{d.Allowed, d.String(), d.RetryAfter}, "%s: %+v", c.name, step)
			require.Equal(t, step.used, must(l.Peek(t.Context())).Used, "%s: %+v", c.name, step)
		}
		b := must(l.Peek(t.Context()))
		require.Equal(t, []any{int64(2), "unlimited, 2 used"}, []any{b.Used, b.String()}, c.name)
		require.Equal(t, int64(5), must(l.AllowUpTo(t.Context(), 5)).Taken)
		require.True(t, must(l.Charge(t.Context(), 3)).Allowed)
		d := must(l.AllowN(t.Context(), 100))
		must(l.RefundN(t.Context(), d, 100))
		require.Equal(t, int64(10), must(l.Peek(t.Context())).Used, c.name)
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.Reset(t.Context()))
		require.Zero(t, must(l.Peek(t.Context())).Used)
	}
	now := day
	one := countsOnly(time.Hour)
	b := must(limiter.New(clocked(&now)).Limit(&one, runtime.Key{}).Peek(t.Context()))
	require.Equal(t, time.Date(2026, time.November, 29, 13, 0, 0, 0, time.UTC), b.ResetAt.UTC())
}

// A key has one count whatever its plan: use without a bound counts on a plan with one, until the window ends.
func TestCountsOfAnUnlimitedPlanAreThoseOfTheOthers(t *testing.T) {
	now := epoch
	free := countsOnly(time.Hour)
	free.Rate, free.Capacity = 100, 100
	policies := runtime.PlanPolicies{1: free, 2: countsOnly(time.Hour)}
	limits := limiter.New(clocked(&now))
	on := func(plan int) limiter.Limit { return limits.Limit(policies.For(plan, runtime.Key{})) }
	for _, step := range []struct {
		plan    int
		n       int64
		allowed bool
		used    int64
	}{
		{1, 100, true, 100},
		{1, 1, false, 100},
		{2, 5_000, true, 5_100},
		{1, 1, false, 5_100},
	} {
		require.Equal(t, step.allowed, must(on(step.plan).AllowN(t.Context(), step.n)).Allowed, "%+v", step)
		require.Equal(t, step.used, must(on(step.plan).Peek(t.Context())).Used, "%+v", step)
	}
	now = now.Add(time.Hour)
	require.True(t, must(on(1).AllowN(t.Context(), 100)).Allowed)
}

// An operator can block a key of it, or give it numbers.
func TestUnlimitedRateCanBeOverridden(t *testing.T) {
	store := still()
	p := countsOnly(time.Hour)
	p.Overrides = runtime.OverrideBounds{Rate: runtime.MaxTokens, Capacity: runtime.MaxTokens}
	key := runtime.KeyOf(runtime.Int64(7))
	l := limiter.New(store).Limit(&p, key)
	require.True(t, must(l.AllowN(t.Context(), 1_000)).Allowed)
	overrides := limiter.New(store).Overrides(&p, key)
	must(overrides.Set(t.Context(), runtime.Override{Rate: 1_001, Capacity: 1_001, Until: epoch.Add(time.Minute), Reason: "pays later", Author: "ann"}))
	require.True(t, must(l.Allow(t.Context())).Allowed)
	require.False(t, must(l.Allow(t.Context())).Allowed)
	must(overrides.Block(t.Context(), runtime.Block{Until: epoch.Add(time.Minute), Reason: "abuse", Author: "ann"}))
	b := must(l.Peek(t.Context()))
	require.Contains(t, b.String(), "blocked for 1m with 0 of 1,001 left")
	require.Equal(t, int64(1_001), b.Used)
}
