package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// If the override of one limit ends while another one denies, the call passes when both do.
func TestRetryAfterOfACallCountsTheEndOfAnyOverride(t *testing.T) {
	o := newOverriding(t, overridable())
	o.override(o.overrides("raised"), runtime.Override{Capacity: 20, Until: o.now.Add(time.Minute)})
	require.NoError(t, o.key("raised").RequireN(t.Context(), 10))
	require.NoError(t, o.key("empty").RequireN(t.Context(), 9))
	items := []limiter.Item{o.key("raised").N(3), o.key("empty").N(2)}
	ds := must(o.limiter.All(t.Context(), items...))
	require.Equal(t, []string{"calls"}, ds.DeniedBy())
	require.Equal(t, 18*time.Minute, ds.RetryAfter, "when the raise has ended, the first limit needs longer than the second")
	for after, allowed := range map[time.Duration]bool{6 * time.Minute: false, 18*time.Minute - 2*time.Microsecond: false, 18 * time.Minute: true} {
		o.now = epoch.Add(after)
		require.Equal(t, allowed, must(o.limiter.All(t.Context(), o.key("raised").CheckedN(3), o.key("empty").CheckedN(2))).Allowed, after)
	}
}

// The counts of one key add up: together they can be more than the limit has after the override, in any order.
func TestCountsThatNeverFitTogetherAreAnError(t *testing.T) {
	o := newOverriding(t, overridable())
	o.override(o.overrides("a"), runtime.Override{Capacity: 5, Until: epoch.Add(10 * time.Second)})
	for _, counts := range [][2]int64{{1, 10}, {10, 1}} {
		_, err := o.limiter.All(t.Context(), o.key("a").N(counts[0]), o.key("a").N(counts[1]))
		require.ErrorIs(t, err, runtime.ErrExceedsCapacity, "%d", counts)
	}
	require.Equal(t, 10*time.Second, must(o.limiter.All(t.Context(), o.key("a").N(1), o.key("a").N(9))).RetryAfter, "they fit after the override")
}

// Whatever overrides end, a request passes at RetryAfter and not before, a reservation is out of debt after its Delay
// and not before, and a key is full after FullAfter and not before.
func TestWaitsAcrossTheEndsOfOverrides(t *testing.T) {
	d := runtimetest.Roll(83)
	seen := map[string]int{}
	for range runtimetest.Steps() / 40 {
		p := randomOverridable(t, d)
		o := newOverriding(t, &p)
		horizon := min(p.Period, runtime.MaxPeriod/10) * 100
		var ends []time.Time
		until := func() time.Time {
			ends = append(ends, o.now.Add(1+d.UpTo(min(3*p.Period, horizon))))
			return ends[len(ends)-1]
		}
		key := o.limiter.Reservable(&p, runtime.KeyOf(runtime.String("a")))
		whole, own := o.limiter.OverridesForAll(&p), o.overrides("a")
		if d.IntN(2) == 0 {
			o.override(whole, randomOverride(d, &p, until()))
		}
		if d.IntN(4) > 0 {
			o.override(own, randomOverride(d, &p, until()))
		}
		if d.IntN(6) == 0 {
			must(own.Block(t.Context(), runtime.Block{Until: until(), Reason: "r", Author: "a"}))
		}
		// instants are those until the end of a wait at which it must not be over.
		instants := func(wait time.Duration) (all []time.Time) {
			// A request passes when as much is missing as accrues in a microsecond, with shards in as many more.
			end := o.now.Add(wait - 1500*time.Duration(1+p.Shards))
			all = append(all, end)
			for _, at := range ends {
				all = append(all, at.Add(-1), at, at.Add(time.Millisecond))
			}
			for range 5 {
				all = append(all, o.now.Add(d.UpTo(min(wait, horizon))))
			}
			for i := len(all) - 1; i >= 0; i-- {
				if all[i].After(end) || all[i].Before(o.now) {
					all = append(all[:i], all[i+1:]...)
				}
			}
			return all
		}
		at := func(now time.Time, test func()) {
			before := o.now
			o.now = now
			test()
			o.now = before
		}
		for range 12 {
			o.now = o.now.Add(d.UpTo(p.Period / 4))
			n := d.CountUpTo(2 * p.Capacity)
			var decision runtime.Decision
			var err error
			if reserves := p.Reserves() && d.IntN(2) == 0; reserves {
				var r *limiter.Reservation
				if r, err = key.ReserveN(t.Context(), n); err == nil {
					decision = r.Decision
				}
			} else {
				decision, err = key.AllowN(t.Context(), n)
			}
			if err != nil {
				require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
				seen["error"]++
				continue
			}
			passes := func() bool {
				c, err := key.CheckN(t.Context(), n)
				return err == nil && c.Allowed
			}
			if plain, err := key.CheckN(t.Context(), n); err == nil && !plain.Allowed && plain.BlockedFor == 0 && plain.RetryAfter < horizon {
				seen["denied"]++
				at(o.now.Add(plain.RetryAfter), func() { require.True(t, passes(), "%+v: %v", p, plain) })
				for _, instant := range instants(plain.RetryAfter) {
					at(instant, func() {
						require.False(t, passes(), "%+v: %v passes %v earlier", p, plain, o.now.Sub(instant))
					})
				}
			}
			// The delay from shards is the one from a single row, though one that is full accrues nothing.
			if decision.Allowed && decision.UsableAfter > 0 && p.Shards == 0 {
				seen["delayed"]++
				due := func() bool {
					b := must(key.Peek(t.Context()))
					c := must(key.CheckN(t.Context(), 0))
					// As much as accrues in half a microsecond.
					return b.Value >= -float64(c.Policy.Rate)*500/float64(p.Period) || c.Policy.Mode == runtime.ModeShadow
				}
				at(o.now.Add(decision.UsableAfter), func() { require.True(t, due(), "%+v: %v", p, decision) })
				for _, instant := range instants(decision.UsableAfter) {
					at(instant, func() { require.False(t, due(), "%+v: %v", p, decision) })
				}
			}
			if b, err := key.Peek(t.Context()); err == nil && b.FullAfter > 0 && b.FullAfter < horizon {
				seen["not full"]++
				full := func() bool {
					return must(key.Peek(t.Context())).FullAfter == 0
				}
				at(o.now.Add(b.FullAfter), func() { require.True(t, full(), "%+v: %v", p, b) })
				for _, instant := range instants(b.FullAfter) {
					at(instant, func() { require.False(t, full(), "%+v: %v", p, b) })
				}
			}
		}
	}
	for _, what := range []string{"denied", "delayed", "not full"} {
		require.Greater(t, seen[what], runtimetest.Steps()/100, "too few are %s: take more steps: %v", what, seen)
	}
}

// overridable returns a policy of any kind whose numbers can be overridden up to three times.
func randomOverridable(t *testing.T, d runtimetest.Dice) runtime.Policy {
	p := d.PolicyOf(t, runtimetest.Pick[int64](d, 3, 7, 10, 100))
	p.Period = max(p.Period, time.Second)
	if p.Calendar.Unit == 0 {
		p.Period = runtimetest.Pick(d, time.Second, 90*time.Second, time.Hour, 24*time.Hour)
	}
	p.Capacity = max(p.Capacity, 3)
	if p.MaxReserved > 0 {
		p.MaxReserved = 4 * p.Rate
	}
	switch d.IntN(4) {
	case 0:
		if !p.Start.FirstUse() && p.Kind != runtime.SlidingWindow {
			// Of more, random ones decide.
			p.Shards = 2
		}
	case 1:
		if p.Kind == runtime.SlidingWindow {
			p.Precise, p.Start = true, runtime.Start{}
		}
	}
	p.Overrides = runtime.OverrideBounds{Rate: 3 * p.Rate, Capacity: 3 * p.Capacity, MaxReserved: 3 * p.MaxReserved, Unlimited: true}
	require.NoError(t, p.Validate())
	return p
}

func randomOverride(d runtimetest.Dice, p *runtime.Policy, until time.Time) runtime.Override {
	v := runtime.Override{Until: until}
	switch d.IntN(6) {
	case 0:
		v.Mode = runtimetest.Pick(d, runtime.ModeOff, runtime.ModeUnlimited, runtime.ModeShadow)
	default:
		least := int64(max(1, p.Shards))
		v.Rate = least + d.Int64N(3*p.Rate-least+1)
		if p.Kind.Linear() {
			v.Capacity = least + d.Int64N(3*p.Capacity-least+1)
		}
	}
	return v
}

// What a plan with numbers has used makes no difference when the plan without numbers is in force again, also under a block,
// and if the clock was set back since.
func TestBlockedPlanWithoutNumbersIsFull(t *testing.T) {
	for _, precise := range []bool{false, true} {
		p := runtime.Policy{
			Name: "calls", Kind: runtime.SlidingWindow, Precise: precise, Rate: 10, Period: time.Hour, Capacity: 10,
			Overrides: runtime.OverrideBounds{Rate: 10, Capacity: 10, Unlimited: true},
		}
		plans := runtime.PlanPolicies{1: p, 2: {Name: p.Name, Kind: p.Kind, Precise: precise, Mode: runtime.ModeUnlimited, Overrides: p.Overrides}}.
			Overridable(runtime.PlanNames{1: "free", 2: "enterprise"})
		o := newOverriding(t, &plans[2])
		free := o.limiter.Limit(&plans[1], runtime.KeyOf(runtime.String("a")))
		o.now = epoch.Add(time.Hour)
		require.NoError(t, free.RequireN(t.Context(), 4))
		o.now = epoch
		o.override(o.overrides("a"), runtime.Override{Plan: override.PlanName("free"), Until: epoch.Add(10 * time.Minute)})
		o.block(o.overrides("a"), 30*time.Minute)
		require.Equal(t, 10*time.Minute, must(o.key("a").Peek(t.Context())).FullAfter)
		o.now = epoch.Add(20 * time.Minute)
		require.Zero(t, must(o.key("a").Peek(t.Context())).FullAfter)
	}
}
