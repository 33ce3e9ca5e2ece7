package limiter_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// numbered is a limit whose callers give its rate and capacity.
func numbered() *runtime.Policy {
	return &runtime.Policy{
		Name: "calls", Kind: runtime.TokenBucket, Rate: 10_000, Period: time.Minute, Capacity: 20_000, MaxReserved: 10, Shards: 2,
		AtMost: runtime.Numbers{Rate: 10_000, Capacity: 20_000}, OnError: runtime.FailOpen,
	}
}

// However a handle is used, numbers that the policy does not allow are an error with the name of the limit, the number
// and its bounds, although the limit fails open and one of its plans is unlimited.
func TestInvalidNumbersNeverReachTheStore(t *testing.T) {
	policies := runtime.PlanPolicies{free: *numbered(), enterprise: {Name: "calls", Kind: runtime.TokenBucket, Shards: 2, Mode: runtime.ModeUnlimited, AtMost: numbered().AtMost}}
	for _, test := range []struct {
		numbers runtime.Numbers
		want    string
	}{
		{runtime.Numbers{Rate: 1, Capacity: 5}, "rate 1 is not between 2 and 10000, the most that limits.yaml allows"},
		{runtime.Numbers{Rate: -5, Capacity: 5}, "rate -5 is not between 2 and 10000, the most that limits.yaml allows"},
		{runtime.Numbers{Rate: 10_001, Capacity: 5}, "rate 10001 is not between 2 and 10000, the most that limits.yaml allows"},
		{runtime.Numbers{Rate: 500, Capacity: 20_001}, "capacity 20001 is not between 2 and 20000, the most that limits.yaml allows"},
		{runtime.Numbers{Unlimited: true}, "they are unlimited, which limits.yaml does not allow: give the rate {at most: unlimited} there"},
		{runtime.Numbers{Rate: 500, Capacity: 500, MaxReserved: 5}, "the maxReserved is that of the policy, and not given by callers"},
	} {
		for _, plan := range []int{free, enterprise} {
			limits := limiter.New(unreached{t})
			of, key := test.numbers.For(policies.For(plan, runtime.KeyOf(runtime.String("k"))))
			for _, v := range append(verbs(limits), verb{"WithTx", func(ctx context.Context, _ limiter.ReservableLimit) error {
				return limits.WithTx(nil).Limit(of, key).Require(ctx)
			}}) {
				err := v.call(t.Context(), limits.Reservable(of, key))
				require.ErrorIs(t, err, runtime.ErrInvalidNumbers, "%s with %+v", v.name, test.numbers)
				require.ErrorContains(t, err, `limit "calls": invalid numbers: `+test.want, v.name)
				require.Equal(t, runtime.OriginProgram, runtime.OriginOf(err), v.name)
			}
		}
	}
	_, err := limiter.New(unreached{t}).Limit(runtime.Numbers{Rate: 500, Capacity: 500}.For(policies.For(7, runtime.Key{}))).Allow(t.Context())
	assert.ErrorIs(t, err, runtime.ErrInvalidPlan, "an invalid plan stays one")
}

// The decision has the numbers that decided, and a request without them is decided by the most.
func TestDecisionHasTheNumbersOfItsCaller(t *testing.T) {
	p, limits := numbered(), limiter.New(still())
	d := must(limits.Limit(runtime.Numbers{Rate: 500, Capacity: 1_000}.For(p, runtime.Key{})).Allow(t.Context()))
	assert.Equal(t, []int64{500, 1_000, 10}, []int64{d.Policy.Rate, d.Policy.Capacity, d.Policy.MaxReserved})
	assert.Equal(t, int64(999), d.Remaining)
	assert.Equal(t, int64(19_999), must(limits.Limit(p, runtime.Key{}).Check(t.Context())).Remaining)
	assert.Equal(t, int64(10_000), p.Rate, "the policy stays as it was")
	assert.Equal(t, "token bucket: rate at most 10000 per 1m0s, capacity at most 20000, maxReserved 10", runtime.RegistrationOf("", p).Numbers)
}

// A call has one set of numbers for each key, as it has one plan.
func TestCallWithDifferentNumbersForOneKeyIsInvalid(t *testing.T) {
	p, limits := numbered(), limiter.New(still())
	with := func(rate int64, key string) limiter.Limit {
		return limits.Limit(runtime.Numbers{Rate: rate, Capacity: 10}.For(p, runtime.KeyOf(runtime.String(key))))
	}
	_, err := limits.All(t.Context(), with(5, "a"), with(6, "a"))
	assert.ErrorIs(t, err, runtime.ErrInvalidCall)
	assert.ErrorContains(t, err, "two different policies have this name and key")
	ds := must(limits.All(t.Context(), with(5, "a"), with(6, "b"), with(5, "a")))
	assert.True(t, ds.Allowed)
}

// An override replaces the numbers that it gives, and leaves the caller's others. That of a plan has the caller's
// numbers, also if the key's own plan is unlimited.
func TestOverrideComesBeforeTheNumbersOfTheCaller(t *testing.T) {
	p := *numbered()
	p.Overrides = runtime.OverrideBounds{Rate: 30_000, Capacity: 20_000, MaxReserved: 10}
	policies := runtime.PlanPolicies{free: p, pro: p, enterprise: {Name: "calls", Kind: p.Kind, Shards: 2, Mode: runtime.ModeUnlimited, AtMost: p.AtMost, Overrides: p.Overrides}}
	policies[pro].AtMost.Capacity, policies[pro].Capacity = 100, 100
	policies.Overridable(runtime.PlanNames{"", "free", "pro", "enterprise"})
	limits := limiter.New(still())
	overrides := limits.Overrides(&policies[free], runtime.Key{})
	numbers := func(plan int) []int64 {
		d := must(limits.Limit(runtime.Numbers{Rate: 500, Capacity: 1_000}.For(policies.For(plan, runtime.Key{}))).Check(t.Context()))
		return []int64{d.Policy.Rate, d.Policy.Capacity}
	}
	set := func(v runtime.Override) {
		v.Until, v.Reason, v.Author = runtime.ForGood(), "a test", "a test"
		must(overrides.Set(t.Context(), v))
	}
	require.Equal(t, []int64{500, 1_000}, numbers(free))
	set(runtime.Override{Rate: 30_000})
	require.Equal(t, []int64{30_000, 1_000}, numbers(free))
	set(runtime.Override{Plan: override.PlanName("pro")})
	require.Equal(t, []int64{500, 100}, numbers(free), "at most what the plan allows")
	require.Equal(t, []int64{500, 100}, numbers(enterprise))
}

// A denial that is repeated from memory is one by the same numbers.
func TestPoliciesWithOtherNumbersAreNotEqual(t *testing.T) {
	p := numbered()
	with := func(n runtime.Numbers) *runtime.Policy {
		of, key := n.For(p, runtime.Key{})
		require.NoError(t, key.Err())
		return of
	}
	small, large := with(runtime.Numbers{Rate: 5, Capacity: 5}), with(runtime.Numbers{Rate: 5, Capacity: 6})
	assert.False(t, small.Inside().Equal(large))
	assert.True(t, small.Inside().Equal(with(runtime.Numbers{Rate: 5, Capacity: 5})))
	assert.False(t, small.Inside().Equal(p))
	// More numbers than are kept in memory.
	for i := range int64(19_999) {
		with(runtime.Numbers{Rate: 2 + i%5_000, Capacity: 2 + i})
	}
	assert.True(t, small.Inside().Equal(with(runtime.Numbers{Rate: 5, Capacity: 5})))
}

// Numbers that return cost no allocation, and goroutines can give different ones at once.
func TestNumbersThatReturnAllocateNothing(t *testing.T) {
	p := numbered()
	var all sync.WaitGroup
	for g := range int64(8) {
		all.Go(func() {
			for i := range int64(1_000) {
				n := runtime.Numbers{Rate: 2 + (g+i)%50, Capacity: 100}
				if of, key := n.For(p, runtime.Key{}); key.Err() != nil || of.Rate != n.Rate || of.Capacity != 100 {
					t.Errorf("%+v: rate %d", n, of.Rate)
				}
			}
		})
	}
	all.Wait()
	assert.Zero(t, testing.AllocsPerRun(100, func() { runtime.Numbers{Rate: 7, Capacity: 100}.For(p, runtime.Key{}) }))
}

func BenchmarkNumbers(b *testing.B) {
	p := numbered()
	for i := range b.N {
		runtime.Numbers{Rate: 2 + int64(i)%500, Capacity: 100}.For(p, runtime.Key{})
	}
}

// Callers give the slots of a limit in flight; those that are held stay held when they change.
func TestSlotsOfNumbers(t *testing.T) {
	p := &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 20, Hold: time.Minute, AtMost: runtime.Numbers{Slots: 20}}
	limits := limiter.New(still())
	with := func(n int64) limiter.SlotLimit {
		return limits.Slots(runtime.Numbers{Slots: n}.For(p, runtime.Key{}))
	}
	first := must(with(10).AcquireN(t.Context(), 10))
	require.True(t, first.Allowed)
	require.False(t, must(with(10).Acquire(t.Context())).Allowed)
	require.True(t, must(with(20).AcquireN(t.Context(), 10)).Allowed)
	require.NoError(t, first.Release(t.Context()))
	require.False(t, must(with(10).Acquire(t.Context())).Allowed, "ten are held still")
	require.True(t, must(with(11).Acquire(t.Context())).Allowed)
	_, err := with(21).Acquire(t.Context())
	require.ErrorIs(t, err, runtime.ErrInvalidNumbers)
	require.ErrorContains(t, err, "slots 21 is not between 1 and 20", "the number that the caller has given")
}

// A rate that a caller gives may equal the capacity of the file by chance. An override of the rate leaves the capacity.
func TestOverrideOfARateThatEqualsTheCapacityByChance(t *testing.T) {
	p := overridable()
	p.Rate, p.Capacity, p.AtMost = 100, 20, runtime.Numbers{Rate: 100}
	o := newOverriding(t, p)
	o.override(o.overrides("a"), runtime.Override{Rate: 50})
	for _, rate := range []int64{19, 20, 21} {
		l := o.limiter.Limit(runtime.Numbers{Rate: rate}.For(p, runtime.KeyOf(runtime.String("a"))))
		assert.Equal(t, int64(20), must(l.Peek(t.Context())).Capacity, "rate %d", rate)
	}
}
