package main

import (
	"context"
	"fmt"
	"time"
)

// limit is what every contender is told to enforce: rate tokens a period, capacity at once.
type limit struct {
	name           string
	rate, capacity int
	period         time.Duration
}

var (
	// plenty lets every call pass. A capacity that no run can use up does that; with a rate as large, the
	// tokens are back before the clock has moved, and redis_rate has nothing to write.
	plenty = limit{name: "plenty", rate: 1000, capacity: 1e9, period: time.Second}
	// exhausted lets no call pass, after the first.
	exhausted = limit{name: "exhausted", rate: 1, capacity: 1, period: 24 * time.Hour}
)

// askFunc takes a token of a key.
type askFunc func(ctx context.Context, key string) (allowed bool, err error)

// keyPrefix begins every key.
const keyPrefix = "bench-user-"

// keyOf returns the key with a number, from 0. Numbers and keys have the same order.
func keyOf(n int) string { return fmt.Sprintf("%s%08d", keyPrefix, n) }

// keysOf returns n keys, spread evenly over the first of keys.
func keysOf(n, of int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = keyOf(i * of / n)
	}
	return keys
}
