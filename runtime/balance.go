package runtime

import (
	"fmt"
	"time"
)

// Balance tells what is left of a limit for one key.
type Balance struct {
	// Limit is the name of the limit.
	Limit string
	// Capacity is the most tokens that can pile up.
	Capacity int64
	// Remaining is how many whole tokens are left, at least 0.
	Remaining int64
	// Value is how many tokens are left, to the fraction; negative if tokens were reserved ahead.
	Value float64
	// FullAfter says how long it takes until all of the capacity is there again, if nobody takes tokens
	// meanwhile.
	FullAfter time.Duration
}

// String returns the balance in words: "19 of 20 left, full after 6s".
func (b Balance) String() string {
	left := fmt.Sprintf("%d of %d left", b.Remaining, b.Capacity)
	if b.FullAfter == 0 {
		return left
	}
	return fmt.Sprintf("%s, full after %v", left, rough(b.FullAfter))
}
