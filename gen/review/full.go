package review

import (
	"math"
	"time"

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
		_, d, err := rule.Step(runtime.State{}, rule.Phase, runtime.Ask{Count: int64(rule.Capacity)})
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

// LargestReservation returns the largest count that can be reserved at once: all that can pile up, and all
// that can be taken ahead. It is 0 for a limit that cannot be reserved, and [runtime.Unbounded] for one
// without a bound.
func LargestReservation(p *runtime.Policy) int64 {
	if !p.Reserves() {
		return 0
	}
	return min(p.Capacity+p.MaxReserved, runtime.Unbounded)
}

// LongestDelay returns how long it takes at most until reserved tokens can be used; 0 for a limit that
// cannot be reserved, and the longest duration for one without a bound.
func LongestDelay(p *runtime.Policy) time.Duration {
	switch {
	case !p.Reserves():
		return 0
	case p.MaxReserved == runtime.Unbounded:
		return math.MaxInt64
	}
	rule := p.Rule("")
	_, d, err := rule.Step(runtime.State{}, rule.Phase, runtime.Ask{Count: p.Capacity + p.MaxReserved, Reserve: true})
	if err != nil {
		panic("review: a full key refuses its largest reservation: " + err.Error())
	}
	return d.Delay
}
