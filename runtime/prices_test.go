package runtime_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
)

func TestCost(t *testing.T) {
	const most = math.MaxInt64
	llm := runtime.Prices{{Name: "input", Millionths: 3_000_000}, {Name: "cached", Millionths: 300_000}, {Name: "output", Millionths: 15_000_000}}
	least := runtime.Prices{{Name: "n", Millionths: 1}}
	one := runtime.Prices{{Name: "n", Millionths: 1_000_000}}
	two := runtime.Prices{{Name: "a", Millionths: 500_000}, {Name: "b", Millionths: 500_000}}
	huge := runtime.Prices{{Name: "a", Millionths: most}, {Name: "b", Millionths: most}, {Name: "c", Millionths: most}, {Name: "d", Millionths: most}, {Name: "e", Millionths: most}}
	for _, row := range []struct {
		prices runtime.Prices
		units  []int64
		cost   int64
		err    error
		text   string
	}{
		{prices: llm, units: []int64{0, 0, 0}, cost: 0},
		{prices: llm, units: []int64{1_200, 0, 300}, cost: 8_100},
		{prices: llm, units: []int64{0, 10, 0}, cost: 3},
		{prices: llm, units: []int64{0, 1, 0}, cost: 1},
		{prices: llm, units: []int64{0, 11, 0}, cost: 4},
		// Rounded up once, and not for each price: 0.5 and 0.5 are 1.
		{prices: two, units: []int64{1, 1}, cost: 1},
		{prices: two, units: []int64{1, 2}, cost: 2},
		{prices: least, units: []int64{1}, cost: 1},
		{prices: least, units: []int64{1_000_000}, cost: 1},
		{prices: least, units: []int64{1_000_001}, cost: 2},
		{prices: least, units: []int64{most}, cost: 9_223_372_036_855},
		// A float64 would round the sum.
		{prices: one, units: []int64{1<<53 + 1}, cost: 1<<53 + 1},
		{prices: one, units: []int64{most}, cost: most},
		{prices: two, units: []int64{most, most}, cost: most},
		{prices: llm, units: []int64{most, 0, 0}, err: runtime.ErrExceedsCapacity, text: "the cost is more than 9223372036854775807"},
		{prices: runtime.Prices{{Millionths: 1_000_001}}, units: []int64{most}, err: runtime.ErrExceedsCapacity},
		{prices: huge[:2], units: []int64{most, most}, err: runtime.ErrExceedsCapacity},
		// More than 128 bits.
		{prices: huge, units: []int64{most, most, most, most, most}, err: runtime.ErrExceedsCapacity},
		{prices: llm, units: []int64{5, -1, 7}, err: runtime.ErrInvalidCount, text: "-1 units of cached are less than 0"},
		{prices: llm, units: []int64{5, math.MinInt64, 7}, err: runtime.ErrInvalidCount},
		{prices: llm, units: []int64{5, 7}, err: runtime.ErrInvalidCall, text: "2 numbers of units for 3 prices"},
		{prices: runtime.Prices{{Name: "n", Millionths: -3}}, units: []int64{5}, err: runtime.ErrInvalidCall, text: "the price of n is less than 0"},
		{prices: nil, units: nil, cost: 0},
	} {
		cost, err := row.prices.Cost(row.units...)
		assert.Equal(t, row.cost, cost, "%v", row.units)
		if row.err == nil {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorIs(t, err, row.err, "%v", row.units)
		assert.ErrorContains(t, err, row.text)
		assert.NotEqual(t, runtime.OriginStore, runtime.OriginOf(err), "it is no failure of the store, which opens a limit")
	}
}

// exactCost is the sum of price times units, in decimals and rounded up, or false if it is no int64.
func exactCost(prices runtime.Prices, units []int64) (int64, bool) {
	sum := new(big.Rat)
	for i, price := range prices {
		sum.Add(sum, new(big.Rat).Mul(big.NewRat(price.Millionths, 1_000_000), new(big.Rat).SetInt64(units[i])))
	}
	whole, rest := new(big.Int).QuoRem(sum.Num(), sum.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.Int64(), whole.IsInt64()
}

// Random prices and units of every size, and of which each digit matters.
func TestCostIsExact(t *testing.T) {
	dice := runtimetest.Roll(1)
	sized := func() int64 { return dice.Int64() >> dice.IntN(64) }
	overflows := 0
	for step := range runtimetest.Steps() {
		prices, units := make(runtime.Prices, 1+dice.IntN(6)), []int64(nil)
		for i := range prices {
			prices[i] = runtime.Price{Name: fmt.Sprint(i), Millionths: sized() % 1_000_000_000_000_001}
			units = append(units, sized())
		}
		want, ok := exactCost(prices, units)
		got, err := prices.Cost(units...)
		if !ok {
			overflows++
			require.ErrorIs(t, err, runtime.ErrExceedsCapacity, "step %d: %v %v", step, prices, units)
			continue
		}
		require.NoError(t, err, "step %d: %v %v", step, prices, units)
		require.Equal(t, want, got, "step %d: %v %v", step, prices, units)
	}
	assert.Positive(t, overflows)
}
