package limiter_test

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

var planPolicies = runtime.PlanPolicies{
	free:       {Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10, MaxReserved: 10},
	pro:        {Name: "calls", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 60, MaxReserved: 60},
	enterprise: {Name: "calls", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited},
}

// unreached is a store that must not be reached.
type unreached struct{ t *testing.T }

func (f unreached) Do(context.Context, []runtime.Call) ([]runtime.Answer, error) {
	f.t.Error("the store was used for an invalid plan")
	return nil, nil
}

// However a handle is used, a request without a plan is an error with the name of the limit, although one of the plans
// is unlimited and each policy fails open.
func TestInvalidPlanIsNeverAllowed(t *testing.T) {
	open := append(runtime.PlanPolicies{}, planPolicies...)
	for i := range open {
		open[i].OnError = runtime.FailOpen
	}
	unlimitedFirst := runtime.PlanPolicies{{}, planPolicies[enterprise], planPolicies[free]}
	for _, policies := range []runtime.PlanPolicies{planPolicies, open, unlimitedFirst} {
		for _, plan := range []int{-1, 0, len(policies), math.MaxInt} {
			limits := limiter.New(unreached{t})
			of, key := policies.For(plan, runtime.KeyOf(runtime.String("k")))
			for _, v := range append(verbs(limits), verb{"ReserveOnly", func(ctx context.Context, _ limiter.ReservableLimit) error {
				_, err := limits.ReserveOnly(of, key).Reserve(ctx)
				return err
			}}, verb{"WithTx", func(ctx context.Context, _ limiter.ReservableLimit) error {
				return limits.WithTx(nil).Limit(of, key).Require(ctx)
			}}) {
				err := v.call(t.Context(), limits.Reservable(of, key))
				require.ErrorIs(t, err, runtime.ErrInvalidPlan, "%s of plan %d", v.name, plan)
				require.ErrorContains(t, err, `limit "calls": invalid plan: `, v.name)
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

// A plan that is billed has the largest number as its limit: what it uses is counted to the token, also across changes
// of the plan, and a month begins with 0.
func TestPlanWithTheLargestNumberCountsItsUse(t *testing.T) {
	small := runtime.Policy{Name: "exports", Kind: runtime.FixedWindow, Rate: 1000, Capacity: 1000,
		Calendar: runtime.Calendar{Unit: runtime.Month, Count: 1, Zone: "Europe/Berlin"}}
	small.Period = small.Calendar.Period()
	large := small
	large.Rate, large.Capacity = runtime.MaxTokens, runtime.MaxTokens
	clock := time.Date(2026, time.March, 29, 12, 0, 0, 0, time.UTC)
	policies := runtime.PlanPolicies{free: small, pro: large}
	limits := limiter.New(&memstore.Store{Clock: func() time.Time { return clock }})
	on := func(plan int) limiter.Limit { return limits.Limit(policies.For(plan, runtime.Key{})) }

	require.NoError(t, on(free).RequireN(t.Context(), 400))
	for range 1000 {
		require.NoError(t, on(pro).RequireN(t.Context(), 1_234_567))
	}
	b := must(on(pro).Peek(t.Context()))
	assert.Equal(t, int64(1_234_567_400), b.Used)
	assert.Equal(t, "unlimited, 1,234,567,400 used", b.String())
	assert.Equal(t, time.Date(2026, time.March, 31, 22, 0, 0, 0, time.UTC), b.ResetAt.UTC(), "midnight in Berlin")
	assert.ErrorIs(t, on(free).Require(t.Context()), runtime.ErrLimited, "a downgrade forgets no use")
	clock = b.ResetAt
	assert.Zero(t, must(on(pro).Peek(t.Context())).Used)
}

// Plans with windows of two lengths are two limits, each without a bound for the plans of the other: a key has a count
// for each length, so that changes of its plan grant what the two plans grant together. One row for both would be full
// for one plan whenever a window of the other has begun.
func TestPlansWithWindowsOfTwoLengthsAreTwoLimits(t *testing.T) {
	window := func(name string, rate int64, period time.Duration) runtime.Policy {
		return runtime.Policy{Name: name, Kind: runtime.FixedWindow, Rate: rate, Capacity: rate, Period: period, Start: runtime.StartOffset(0)}
	}
	unlimited := func(p runtime.Policy) runtime.Policy {
		p.Mode = runtime.ModeUnlimited
		return p
	}
	daily, minutely := window("callsPerDay", 100, 24*time.Hour), window("callsPerMinute", 10, time.Minute)
	perDay := runtime.PlanPolicies{free: daily, pro: unlimited(daily)}
	perMinute := runtime.PlanPolicies{free: unlimited(minutely), pro: minutely}
	oneRow := runtime.PlanPolicies{free: window("calls", 100, 24*time.Hour), pro: window("calls", 10, time.Minute)}

	clock := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	limits := limiter.New(&memstore.Store{Clock: func() time.Time { return clock }})
	taken, together := map[int]int{}, 0
	for range 24 * 60 {
		for _, plan := range []int{free, pro, free} {
			for must(limits.All(t.Context(), limits.Limit(perDay.For(plan, runtime.Key{})), limits.Limit(perMinute.For(plan, runtime.Key{})))).Allowed {
				taken[plan]++
			}
			for must(limits.Limit(oneRow.For(plan, runtime.Key{})).Allow(t.Context())).Allowed {
				together++
			}
		}
		clock = clock.Add(time.Minute)
	}
	assert.Equal(t, map[int]int{free: 100, pro: 14_400}, taken, "a plan to which a key returns has the count that it left")
	assert.Equal(t, 144_000, together, "what one row would grant, nearly ten times as much")

	require.True(t, must(limits.All(t.Context(), limits.Limit(perDay.For(free, runtime.Key{})).N(100), limits.Limit(perMinute.For(free, runtime.Key{})))).Allowed, "the next day has all its tokens")
}
