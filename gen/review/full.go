package review

import (
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// FullAfter returns how long it takes at most until a key that has used all of its capacity, and reserved
// nothing, is full again if nobody takes tokens meanwhile; 0 for a limit of which nothing can be used at
// once. For a limit with shards it is that of the slowest.
func FullAfter(p *runtime.Policy) time.Duration {
	longest := time.Duration(0)
	for _, i := range unlikeShards(p) {
		rule := p.Rule("").Shard(i, max(1, p.Shards))
		if rule.Capacity < 1 {
			continue
		}
		_, d, err := rule.Step(runtime.State{}, rule.Phase, runtime.Request{Count: int64(rule.Capacity)})
		if err != nil {
			panic("review: a full key refuses its capacity: " + err.Error())
		}
		longest = max(longest, d.FullAfter)
	}
	return longest
}

// unlikeShards returns shards among which there is one with each pair of rate and capacity. The shares of
// one number are of two sizes, the larger first.
func unlikeShards(p *runtime.Policy) []int {
	n := int64(max(1, p.Shards))
	return []int{0, int(p.Rate % n), int(p.Capacity % n)}
}

// NextAfter returns how long it takes at most until a key that has used all of its capacity, and reserved nothing,
// has a token again: longest if all of it was used at once, when a window began. It is 0 for a limit of which nothing
// can be used at once.
func NextAfter(p *runtime.Policy) time.Duration { return emptyFor(p, p.Capacity) }

// NextAfterReserving returns how long it takes at most until a key that has also reserved all that it can has a token
// that need not be reserved; 0 for a limit that cannot be reserved, or only reserved, and the longest duration for one
// without a bound.
func NextAfterReserving(p *runtime.Policy) time.Duration {
	switch {
	case !p.Reserves():
		return 0
	case p.MaxReserved == runtime.Unbounded && p.Capacity > 0:
		return math.MaxInt64
	}
	return emptyFor(p, p.Capacity+p.MaxReserved)
}

// emptyFor returns how long a key has no token after so many were taken when a window began.
func emptyFor(p *runtime.Policy, count int64) time.Duration {
	if p.Capacity < 1 {
		return 0
	}
	rule := p.Rule("")
	state, _, err := rule.Step(runtime.State{}, rule.Phase, runtime.Request{Count: count, Reserve: count > p.Capacity})
	if err != nil {
		panic("review: a full key refuses all that it has: " + err.Error())
	}
	_, d, err := rule.Step(state, rule.Phase, runtime.Request{Op: runtime.Check, Count: 1})
	if err != nil {
		panic("review: a key refuses a token: " + err.Error())
	}
	return d.RetryAfter
}

// LargestReservation returns the largest count that can be reserved at once: all that can pile up, and all
// that can be taken ahead. It is 0 for a limit that cannot be reserved, and [runtime.Unbounded] for one
// without a bound.
func LargestReservation(p *runtime.Policy) int64 {
	if !p.Reserves() {
		return 0
	}
	return min(p.Capacity+p.MaxReserved, runtime.Unbounded)
}

// LongestDelay returns how long it takes at most until reserved tokens can be used: see [spec.LongestDelay].
func LongestDelay(p *runtime.Policy) time.Duration { return spec.LongestDelay(p) }
