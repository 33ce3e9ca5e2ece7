package runtime_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// plansOf returns two plans of a limit, the second with twenty times the tokens of the first.
func plansOf(kind runtime.Kind) runtime.PlanPolicies {
	small := runtime.Policy{Name: "calls", Kind: kind, Rate: 10, Period: time.Hour, Capacity: 10}
	large := small
	large.Rate, large.Capacity = 200, 200
	return runtime.PlanPolicies{free: small, pro: large}
}

// Whoever has used up a plan has the difference at once after an upgrade, and nothing new after a thousand changes back
// and forth: they grant what the larger plan grants.
func TestChangeOfPlanKeepsWhatWasUsed(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			policies := plansOf(kind)
			now := time.Unix(1e9, 0)
			store := &memstore.Store{Clock: func() time.Time { return now }}
			limits := limiter.New(store)
			on := func(plan int) limiter.Limit { return limits.Limit(policies.For(plan, runtime.Key{})) }
			random := rand.New(rand.NewPCG(1, 1))

			d, err := on(free).AllowN(t.Context(), 10)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			d, err = on(free).Allow(t.Context())
			require.NoError(t, err)
			require.False(t, d.Allowed)
			d, err = on(pro).Check(t.Context())
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Equal(t, int64(190), d.Remaining, "an upgrade of a used-up key helps at once")

			taken := int64(10)
			for i := range 1000 {
				for _, plan := range []int{pro, free} {
					n := 1 + random.Int64N(3)
					d, err := on(plan).AllowN(t.Context(), n)
					require.NoError(t, err)
					if d.Allowed {
						taken += n
					}
					require.LessOrEqual(t, taken, int64(200), "flip %d", i)
				}
			}
			require.Greater(t, taken, int64(197))
			b, err := on(free).Peek(t.Context())
			require.NoError(t, err)
			require.Zero(t, b.Remaining, "a downgrade below what was used denies")
		})
	}
}
