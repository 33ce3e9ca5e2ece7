package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// requireZero requires that a key is given nothing: each request for a token is denied for ever, and says why.
func requireZero(t *testing.T, l limiter.ReservableLimit, why string) {
	t.Helper()
	for _, call := range []func(context.Context) (runtime.Decision, error){
		l.Allow, l.Check,
		func(ctx context.Context) (runtime.Decision, error) { return l.AllowN(ctx, 1_000_000) },
		func(ctx context.Context) (runtime.Decision, error) { return l.AllowUpTo(ctx, 5) },
		func(ctx context.Context) (runtime.Decision, error) {
			r, err := l.Reserve(ctx)
			return r.Decision, err
		},
	} {
		d := must(call(t.Context()))
		require.False(t, d.Allowed)
		require.Equal(t, runtime.Never, d.RetryAfter)
		require.Equal(t, []any{"zero", "denied, the limit is 0" + why}, []any{d.Reason(), d.String()})
	}
	require.EqualError(t, l.Require(t.Context()), `limit "calls": rate limited, the limit is 0`+why)
	require.ErrorIs(t, l.Wait(t.Context()), runtime.ErrLimited)
	require.True(t, must(l.AllowN(t.Context(), 0)).Allowed)
	b := must(l.Peek(t.Context()))
	require.Equal(t, []any{int64(0), int64(0), int64(0), "0 of 0 left"}, []any{b.Remaining, b.Capacity, b.Used, b.String()})
}

// A plan with the rate 0 gives nothing, needs no store to say so, and leaves what other plans have counted.
func TestPlanOfZeroRefuses(t *testing.T) {
	policies := append(runtime.PlanPolicies{}, planPolicies...)
	policies[free] = runtime.Policy{Name: "calls", Kind: runtime.TokenBucket}
	limits := limiter.New(still())
	on := func(plan int) limiter.ReservableLimit {
		return limits.Reservable(policies.For(plan, runtime.Key{}))
	}
	taken := must(on(pro).AllowN(t.Context(), 20))
	require.True(t, taken.Allowed)
	requireZero(t, on(free), "")
	require.True(t, must(on(free).Charge(t.Context(), 5)).Allowed)
	require.True(t, must(on(free).RefundN(t.Context(), taken, 5)).Allowed)
	require.Equal(t, int64(20), must(on(pro).Peek(t.Context())).Used)
	ds := must(limits.All(t.Context(), on(free), limits.Reservable(&runtime.Policy{
		Name: "other", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: 1,
	}, runtime.Key{})))
	require.Equal(t, []any{false, []string{"calls"}, true}, []any{ds.Allowed, ds.DeniedBy(), ds.Each[1].Allowed})
	require.NoError(t, on(free).Reset(t.Context()))
	require.Zero(t, must(on(pro).Peek(t.Context())).Used)

	of, key := policies.For(free, runtime.Key{})
	unreachable := limiter.New(unreached{t}).Limit(of, key)
	require.False(t, must(unreachable.Allow(t.Context())).Allowed)
	for mode, want := range map[runtime.Mode]string{
		runtime.ModeShadow: "allowed in shadow mode, would be denied", runtime.ModeOff: "allowed", runtime.ModeBlock: "denied, no retry passes",
	} {
		of := *of
		of.Mode = mode
		require.Equal(t, want, must(limiter.New(unreached{t}).Limit(&of, key).Allow(t.Context())).String())
	}
	relaxed := limiter.New(unreached{t}, limiter.Mode(runtime.ModeShadow)).Limit(of, key)
	require.True(t, must(relaxed.Allow(t.Context())).Shadowed)
}

// A number of 0 from the caller gives nothing, and so do the zero Numbers: the denial names the number.
func TestNumbersOfZeroRefuse(t *testing.T) {
	p, limits := numbered(), limiter.New(still())
	with := func(n runtime.Numbers) limiter.ReservableLimit {
		return limits.Reservable(n.For(p, runtime.Key{}))
	}
	require.True(t, must(with(runtime.Numbers{Rate: 10, Capacity: 10}).AllowN(t.Context(), 4)).Allowed)
	requireZero(t, with(runtime.Numbers{}), ": its caller gives the rate 0")
	requireZero(t, with(runtime.Numbers{Capacity: 10}), ": its caller gives the rate 0")
	requireZero(t, with(runtime.Numbers{Rate: 10}), ": its caller gives the capacity 0")
	require.Equal(t, int64(4), must(with(runtime.Numbers{Rate: 10, Capacity: 10}).Peek(t.Context())).Used)

	reserved := &runtime.Policy{Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, MaxReserved: 20, AtMost: runtime.Numbers{MaxReserved: 20}}
	requireZero(t, limits.Reservable(runtime.Numbers{}.For(reserved, runtime.Key{})), ": its caller gives the maxReserved 0")
	reserved.Capacity = 5
	some := limits.Reservable(runtime.Numbers{}.For(with0(*reserved), runtime.Key{}))
	require.True(t, must(some.ReserveN(t.Context(), 5)).Allowed, "what has accrued")
	require.False(t, must(some.Reserve(t.Context())).Allowed)

	slots := &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 20, Hold: time.Minute, AtMost: runtime.Numbers{Slots: 20}}
	held := must(limits.Slots(runtime.Numbers{Slots: 1}.For(slots, runtime.Key{})).Acquire(t.Context()))
	d := must(limits.Slots(runtime.Numbers{}.For(slots, runtime.Key{})).Acquire(t.Context()))
	require.Equal(t, "denied, the limit is 0: its caller gives the slots 0", d.String())
	require.NoError(t, held.Renew(t.Context()))
	require.NoError(t, held.Release(t.Context()))
}

// with0 returns a copy with another name.
func with0(p runtime.Policy) *runtime.Policy {
	p.Name = "other"
	return &p
}

// Numbers that say so lift the limit, if the policy allows that, and leave the count.
func TestNumbersThatAreUnlimited(t *testing.T) {
	p := numbered()
	p.Rate, p.AtMost.Rate, p.AtMost.Unlimited = runtime.MaxTokens, runtime.MaxTokens, true
	limits := limiter.New(still())
	with := func(n runtime.Numbers) limiter.ReservableLimit {
		return limits.Reservable(n.For(p, runtime.Key{}))
	}
	require.NoError(t, with(runtime.Numbers{Rate: 10, Capacity: 10}).RequireN(t.Context(), 4))
	unlimited := with(runtime.Numbers{Unlimited: true})
	require.NoError(t, unlimited.RequireN(t.Context(), 1_000_000))
	require.Equal(t, "unlimited", must(unlimited.Peek(t.Context())).String())
	require.Equal(t, int64(4), must(with(runtime.Numbers{Rate: 10, Capacity: 10}).Peek(t.Context())).Used)
	_, err := with(runtime.Numbers{Rate: 5, Unlimited: true}).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrInvalidNumbers)
	p = with0(*p)
	p.Mode = runtime.ModeBlock
	require.False(t, must(with(runtime.Numbers{Unlimited: true}).Allow(t.Context())).Allowed)
}

// An override of nothing gives the key nothing, whatever its plan and mode of the file, until it ends. One with numbers
// comes before those of a caller that are 0.
func TestOverrideOfZeroRefuses(t *testing.T) {
	p := *overridable()
	p.Lease = runtime.Lease{Tokens: 5, For: time.Second}
	policies := runtime.PlanPolicies{free: p, pro: {Name: p.Name, Kind: p.Kind, Overrides: p.Overrides},
		enterprise: {Name: p.Name, Kind: p.Kind, Mode: runtime.ModeUnlimited, Overrides: p.Overrides}}
	policies.Overridable(runtime.PlanNames{"", "free", "pro", "enterprise"})
	o := newOverriding(t, &policies[free])
	on := func(plan int) runtime.Decision {
		return must(o.limiter.Limit(policies.For(plan, runtime.KeyOf(runtime.String("a")))).Allow(t.Context()))
	}
	until := o.now.Add(time.Hour)
	e := must(o.overrides("a").Set(t.Context(), runtime.Override{Rate: 0, Until: until, Reason: "r", Author: "a"}))
	require.Equal(t, runtime.OverrideZero, e.What)
	for plan, after := range map[int]time.Duration{free: time.Hour, pro: runtime.Never, enterprise: time.Hour} {
		d := on(plan)
		assert.Equal(t, []any{false, "zero", after}, []any{d.Allowed, d.Reason(), d.RetryAfter}, "plan %d", plan)
	}
	o.now = until
	assert.True(t, on(free).Allowed)
	assert.False(t, on(pro).Allowed)

	o.override(o.overrides("a"), runtime.Override{Plan: override.PlanName("free")})
	assert.True(t, on(pro).Allowed)
	_, err := o.overrides("a").Set(t.Context(), runtime.Override{Plan: override.PlanName("pro"), Rate: 5, Until: runtime.ForGood(), Reason: "r", Author: "a"})
	assert.ErrorContains(t, err, "its plan has no numbers")
	o.override(o.overrides("a"), runtime.Override{Rate: 5})
	assert.False(t, on(pro).Allowed, "as for an unlimited plan, numbers have no effect")

	callers := overridable()
	callers.Name, callers.AtMost = "callers", runtime.Numbers{Rate: callers.Rate, Capacity: callers.Capacity}
	o = newOverriding(t, callers)
	o.override(o.overrides("a"), runtime.Override{Rate: 5})
	assert.True(t, must(o.limiter.Limit(runtime.Numbers{}.For(callers, runtime.KeyOf(runtime.String("a")))).Allow(t.Context())).Allowed)
}
