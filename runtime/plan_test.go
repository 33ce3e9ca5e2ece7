package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

const (
	free = iota + 1
	pro
	enterprise
)

var planNames = runtime.PlanNames{free: "free", pro: "pro", enterprise: "enterprise"}

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
