package bounds

import (
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// FullAfter returns how long it takes at most until a key that has used all of its capacity, and reserved nothing, is
// full again if it takes no more tokens. It is 0 for a limit with capacity 0. For a limit with shards it is the time of
// the slowest shard. It is 0 for a limit in flight, whose holders release their slots, or renew them.
func FullAfter(p *runtime.Policy) time.Duration {
	if p.Capacity == 0 {
		return 0
	}
	longest := time.Duration(0)
	for _, i := range distinctShards(p) {
		rule := meter.RuleOf(p, "").Shard(i, max(1, p.Shards))
		if rule.Capacity < 1 {
			continue
		}
		// From the start of a window a full key takes the longest.
		longest = max(longest, Longest(p, func(start int64) time.Duration {
			_, d := MustStep(&rule, runtime.State{}, start, runtime.Request{Count: int64(rule.Capacity)})
			return d.FullAfter
		}))
	}
	return longest
}

// distinctShards returns a shard for each combination of rate and capacity. Shares of one number have two sizes, the
// larger first, so the shard after the last larger share starts a new combination.
func distinctShards(p *runtime.Policy) []int {
	n := int64(max(1, p.Shards))
	return []int{0, int(p.Rate % n), int(p.Capacity % n)}
}

// NextAfter returns how long it takes at most until a key that has used all of its capacity, and reserved nothing, has a
// token again. That takes longest if all was used when a window started. It is 0 for a limit with capacity 0, and for one
// in flight, as in [FullAfter].
func NextAfter(p *runtime.Policy) time.Duration { return EmptyFor(p, p.Capacity) }

// NextAfterReserving returns how long it takes at most until a key that has reserved all that it can, too, has a token
// that need not be reserved. It is 0 for a limit that cannot be reserved or has capacity 0, and [math.MaxInt64] for one
// whose reservations are unbounded.
func NextAfterReserving(p *runtime.Policy) time.Duration {
	switch {
	case !p.Reserves():
		return 0
	case p.MaxReserved == runtime.Unbounded && p.Capacity > 0:
		return math.MaxInt64
	}
	return EmptyFor(p, p.Capacity+p.MaxReserved)
}

// EmptyFor returns how long a key has no token at most after a count was taken from it when a window started, available or
// not. It is 0 for a limit with capacity 0.
func EmptyFor(p *runtime.Policy, count int64) time.Duration {
	if p.Capacity < 1 {
		return 0
	}
	rule := meter.RuleOf(p, "")
	return Longest(p, func(start int64) time.Duration {
		state, _ := MustStep(&rule, runtime.State{}, start, runtime.Request{Op: runtime.Charge, Count: count})
		_, d := MustStep(&rule, state, start, runtime.Request{Op: runtime.Check, Count: 1})
		return d.RetryAfter
	})
}

// LargestReservation returns the largest count that can be reserved at once: the capacity and maxReserved. It is 0 for a
// limit that cannot be reserved, and [runtime.Unbounded] for one whose reservations are unbounded or that only counts.
func LargestReservation(p *runtime.Policy) int64 {
	switch {
	case p.Inside().CountsOnly():
		return runtime.Unbounded
	case !p.Reserves():
		return 0
	}
	return min(p.Capacity+p.MaxReserved, runtime.Unbounded)
}
