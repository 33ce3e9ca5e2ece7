package runtime

import (
	"fmt"
	"math"
	"math/bits"
)

// Prices say how many tokens a request takes for the units it uses, such as the input and output tokens of a language model.
// They are no part of a [Policy]: a store sees the cost only.
type Prices []Price

// Price is the price of a unit of one thing.
type Price struct {
	// Name is that of the unit: "input".
	Name string
	// Millionths is how many millionths of a token a unit costs: 300_000 for a price of 0.3. It is not negative.
	Millionths int64
}

// Cost returns the tokens for some units of each price, in the order of the prices. The sum of price times units is exact,
// and rounded up once.
//
// The error is [ErrInvalidCount] if a number is less than 0, [ErrExceedsCapacity] if the cost is more than [math.MaxInt64],
// and [ErrInvalidCall] if there is not a number for each price, or if a price is less than 0.
func (p Prices) Cost(units ...int64) (int64, error) {
	if len(units) != len(p) {
		return 0, fmt.Errorf("%w: %d numbers of units for %d prices", ErrInvalidCall, len(units), len(p))
	}
	const million = 1_000_000
	// The sum in 128 bits, which begins with what rounds it up.
	high, low := uint64(0), uint64(million-1)
	overflow := false
	for i, price := range p {
		switch n := units[i]; {
		case n < 0:
			return 0, fmt.Errorf("%w: %d units of %s are less than 0", ErrInvalidCount, n, price.Name)
		case price.Millionths < 0:
			return 0, fmt.Errorf("%w: the price of %s is less than 0", ErrInvalidCall, price.Name)
		default:
			h, l := bits.Mul64(uint64(n), uint64(price.Millionths))
			var carry uint64
			low, carry = bits.Add64(low, l, 0)
			high, carry = bits.Add64(high, h, carry)
			overflow = overflow || carry > 0
		}
	}
	if !overflow && high < million {
		if cost, _ := bits.Div64(high, low, million); cost <= math.MaxInt64 {
			return int64(cost), nil
		}
	}
	return 0, fmt.Errorf("%w: the cost is more than %d", ErrExceedsCapacity, int64(math.MaxInt64))
}
