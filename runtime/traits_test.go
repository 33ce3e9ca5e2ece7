package runtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/trait"
)

func TestTraits(t *testing.T) {
	plain := runtime.Policy{Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10}
	for name, row := range map[string]struct {
		change func(p *runtime.Policy)
		want   trait.Set
	}{
		"plain":              {func(*runtime.Policy) {}, 0},
		"shards, deny cache": {func(p *runtime.Policy) { p.Shards, p.DenyCache = 2, time.Second }, 0},
		"overrides":          {func(p *runtime.Policy) { p.Overrides = runtime.OverrideBounds{Rate: 20, Capacity: 20} }, trait.Overrides},
		"off":                {func(p *runtime.Policy) { p.Mode = runtime.ModeOff }, trait.Mode},
		"shadow":             {func(p *runtime.Policy) { p.Mode = runtime.ModeShadow }, trait.Mode},
		"timeout":            {func(p *runtime.Policy) { p.Timeout = time.Second }, trait.Timeout},
		"lease":              {func(p *runtime.Policy) { p.Lease = runtime.Lease{Tokens: 1, For: time.Second} }, trait.Lease},
		"open":               {func(p *runtime.Policy) { p.OnError = runtime.FailOpen }, 0},
		"local":              {func(p *runtime.Policy) { p.OnError = runtime.FailLocal }, trait.Local},
		"jitter":             {func(p *runtime.Policy) { p.Jitter = time.Second }, trait.Jitter},
		"slots": {func(p *runtime.Policy) {
			*p = runtime.Policy{Name: p.Name, Kind: runtime.InFlight, Slots: 1, Hold: time.Second}
		}, trait.Slots},
		"zones": {func(p *runtime.Policy) {
			p.Kind, p.Calendar = runtime.FixedWindow, runtime.Calendar{Unit: runtime.Day, ZonePerKey: true}
			p.Period = p.Calendar.Period()
		}, trait.Calendar},
	} {
		p := plain
		row.change(&p)
		for range 2 {
			traits, err := p.Inside().Traits()
			require.NoError(t, err, name)
			assert.Equal(t, row.want, traits, name)
		}
		allocated := testing.AllocsPerRun(10, func() { p.Inside().Traits() })
		assert.Zero(t, allocated, name)
	}
	_, err := (*runtime.Policy)(nil).Inside().Traits()
	require.ErrorIs(t, err, runtime.ErrInvalidPolicy)
}

// The fields of an unlimited plan that are the same for all plans are those of the others.
func TestTraitsOfAnUnlimitedPlan(t *testing.T) {
	plans := runtime.PlanPolicies{{}, {
		Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10, Timeout: time.Second,
		Jitter: time.Second, OnError: runtime.FailLocal, Overrides: runtime.OverrideBounds{Rate: 20, Capacity: 20},
	}, {
		Name: "calls", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited, Overrides: runtime.OverrideBounds{Rate: 20, Capacity: 20},
	}}.Overridable(runtime.PlanNames{"", "free", "enterprise"})
	traits, err := plans[2].Inside().Traits()
	require.NoError(t, err)
	require.Equal(t, trait.Overrides|trait.Mode|trait.Timeout|trait.Jitter|trait.Local, traits)
}

// More policies than are remembered, each a changed copy of one that was used.
func TestCopyOfAUsedPolicyIsValidatedAgain(t *testing.T) {
	used := &runtime.Policy{Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10}
	for i := range 20_000 {
		_, err := used.Inside().Traits()
		require.NoError(t, err)
		p := *used
		if p.Jitter = time.Duration(i % 2); i%5 == 0 {
			p.Rate = 0
		}
		traits, err := p.Inside().Traits()
		require.Equal(t, i%5 == 0, err != nil)
		require.Equal(t, err == nil && i%2 == 1, traits.Have(trait.Jitter))
	}
}
