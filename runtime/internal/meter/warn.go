package meter

import "math"

// crossed returns the highest threshold that a take has crossed, in percent, or 0, given the tokens of the key before it and
// after it, at the same instant.
//
// With shards, the last one has the thresholds, and the others have none: a take reads one or two shards, so that no take
// can be found that crosses a part of the sum, but the shards are kept nearly equal. When they share the rest, the last one
// gets the fewest tokens, so that it seldom crosses a threshold again.
func (r *Rule) crossed(before, after float64) uint8 {
	for i := r.warn.Len() - 1; i >= 0; i-- {
		if percent := r.warn[i]; r.reached(percent, after) {
			if r.reached(percent, before) {
				return 0 // and so are those below it
			}
			return percent
		}
	}
	return 0
}

// reached reports whether a part of the capacity is used, in percent, if so many tokens are left: of those, as of the
// Remaining of a decision, only whole ones count. It depends on nothing else, so that a take begins on the side of a
// threshold on which the one before has ended: none is crossed twice, and none is missed.
func (r *Rule) reached(percent uint8, left float64) bool {
	// A millionth of a token is more than the rounding in a whole number of tokens, as for Used of package runtime.
	// The thresholds of all classes of requests are those of the whole capacity.
	return r.Capacity-math.Floor(left+1e-6) >= float64(percent)*(r.Capacity+r.left)/100
}
