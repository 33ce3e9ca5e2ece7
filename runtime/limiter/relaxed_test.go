package limiter_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// The limit has one token. Each row has its mode in the file, the mode of the option, and what becomes of a second request.
func TestModeIsNeverStricterThanTheFile(t *testing.T) {
	const passes, denies, shadows = "passes", "denies", "shadows"
	for _, row := range []struct {
		file, option, inForce runtime.Mode
		second                string
	}{
		{runtime.ModeEnforce, runtime.ModeEnforce, runtime.ModeEnforce, denies},
		{runtime.ModeEnforce, runtime.ModeShadow, runtime.ModeShadow, shadows},
		{runtime.ModeEnforce, runtime.ModeOff, runtime.ModeOff, passes},
		{runtime.ModeShadow, runtime.ModeEnforce, runtime.ModeShadow, shadows},
		{runtime.ModeShadow, runtime.ModeShadow, runtime.ModeShadow, shadows},
		{runtime.ModeShadow, runtime.ModeOff, runtime.ModeOff, passes},
		{runtime.ModeOff, runtime.ModeEnforce, runtime.ModeOff, passes},
		{runtime.ModeOff, runtime.ModeShadow, runtime.ModeOff, passes},
		{runtime.ModeOff, runtime.ModeOff, runtime.ModeOff, passes},
		{runtime.ModeBlock, runtime.ModeEnforce, runtime.ModeBlock, denies},
		{runtime.ModeBlock, runtime.ModeShadow, runtime.ModeShadow, shadows},
		{runtime.ModeBlock, runtime.ModeOff, runtime.ModeOff, passes},
	} {
		p := bucket("limit", 1)
		p.Mode = row.file
		store := atNoon()
		limits := limiter.New(store, limiter.Mode(row.option))
		for _, l := range []limiter.Limit{limits.Limit(p, runtime.KeyOf(runtime.String("a"))), limits.WithTx(store.Begin()).Limit(p, runtime.KeyOf(runtime.String("b")))} {
			must(l.Allow(t.Context()))
			d := must(l.Allow(t.Context()))
			got := denies
			switch {
			case d.Shadowed:
				got = shadows
			case d.Allowed:
				got = passes
			}
			assert.Equal(t, row.second, got, "%v in the file, limiter.Mode(%v)", row.file, row.option)
			assert.Equal(t, row.inForce, d.Policy.Mode)
			mode, relaxed := d.Policy.Relaxed()
			assert.Equal(t, row.option, mode)
			assert.Equal(t, row.option != runtime.ModeEnforce, relaxed)
		}
		assert.Equal(t, row.file, p.Mode, "the policy of the file stays")
	}
}

// Operators can make a key less strict than the option, but not stricter.
func TestModeBoundsOverrides(t *testing.T) {
	ends := runtime.ForGood()
	for _, row := range []struct {
		name    string
		option  runtime.Mode
		write   func(o limiter.Overrides) error
		inForce runtime.Mode
		rate    int64
	}{
		{"a block", runtime.ModeShadow, func(o limiter.Overrides) error {
			_, err := o.Block(t.Context(), runtime.Block{Until: ends, Reason: "r", Author: "a"})
			return err
		}, runtime.ModeShadow, 1},
		{"a block of a key with numbers", runtime.ModeShadow, func(o limiter.Overrides) error {
			must(o.Set(t.Context(), runtime.Override{Rate: 5, Until: ends, Reason: "r", Author: "a"}))
			_, err := o.Block(t.Context(), runtime.Block{Until: ends, Reason: "r", Author: "a"})
			return err
		}, runtime.ModeShadow, 5},
		{"a block", runtime.ModeOff, func(o limiter.Overrides) error {
			_, err := o.Block(t.Context(), runtime.Block{Until: ends, Reason: "r", Author: "a"})
			return err
		}, runtime.ModeOff, 1},
		{"shadow", runtime.ModeOff, func(o limiter.Overrides) error {
			_, err := o.Set(t.Context(), runtime.Override{Mode: runtime.ModeShadow, Until: ends, Reason: "r", Author: "a"})
			return err
		}, runtime.ModeOff, 1},
		{"off", runtime.ModeShadow, func(o limiter.Overrides) error {
			_, err := o.Set(t.Context(), runtime.Override{Mode: runtime.ModeOff, Until: ends, Reason: "r", Author: "a"})
			return err
		}, runtime.ModeOff, 1},
	} {
		p := bucket("limit", 1)
		p.Overrides = runtime.OverrideBounds{Rate: 9, Capacity: 9, Unlimited: true}
		store, key := atNoon(), runtime.KeyOf(runtime.String("a"))
		require.NoError(t, row.write(limiter.New(store).Overrides(p, key)))
		l := limiter.New(store, limiter.Mode(row.option)).Limit(p, key)
		for range 10 {
			d := must(l.Allow(t.Context()))
			require.True(t, d.Allowed, "%s, limiter.Mode(%v)", row.name, row.option)
			require.Equal(t, row.inForce, d.Policy.Mode, "%s, limiter.Mode(%v)", row.name, row.option)
			require.Equal(t, row.rate, d.Policy.Rate)
		}
	}
}

// The plan that an override gives a key is no stricter either.
func TestModeBoundsPlansOfOverrides(t *testing.T) {
	plan := func(capacity int64) runtime.Policy {
		p := *bucket("limit", capacity)
		p.Overrides = runtime.OverrideBounds{Rate: 9, Capacity: 9}
		return p
	}
	plans := runtime.PlanPolicies{1: plan(1), 2: plan(3)}.Overridable(runtime.PlanNames{1: "free", 2: "pro"})
	store, key := atNoon(), runtime.KeyOf(runtime.String("a"))
	must(limiter.New(store).Overrides(&plans[1], key).Set(t.Context(), runtime.Override{Plan: override.PlanName("pro"), Until: runtime.ForGood(), Reason: "r", Author: "a"}))
	l := limiter.New(store, limiter.Mode(runtime.ModeShadow)).Limit(&plans[1], key)
	for range 10 {
		d := must(l.Allow(t.Context()))
		require.True(t, d.Allowed)
		require.Equal(t, int64(3), d.Policy.Capacity)
		require.Equal(t, runtime.ModeShadow, d.Policy.Mode)
	}
}

// A mode that is no relaxation is a mistake of the program, which its first request shows.
func TestModeRefusesOtherModes(t *testing.T) {
	for _, mode := range []runtime.Mode{runtime.ModeBlock, runtime.ModeUnlimited, 99} {
		d, err := limiter.New(atNoon(), limiter.Mode(mode)).Limit(bucket("limit", 1), runtime.Key{}).Allow(t.Context())
		require.ErrorIs(t, err, runtime.ErrInvalidPolicy)
		require.ErrorContains(t, err, "limiter.Mode is")
		require.False(t, d.Allowed)
	}
}
