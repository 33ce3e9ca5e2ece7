package runtime

import "time"

// sweepAfter is for how long a row is kept after it has become full, so that a clock that is set back by
// less still finds it.
const sweepAfter = time.Hour

// Forgettable reports whether a stored row of the policy is worth no more than a key never seen, at the
// instant now in nanoseconds since 1970 UTC, and has been so for an hour. Then a sweep may delete it. A
// row of a shard that the policy does not have is kept.
func (p *Policy) Forgettable(row Row, s State, now int64) bool {
	if p.Validate() != nil || row.Shard >= max(1, p.Shards) {
		return false
	}
	rule := p.Rule(row.Key).Shard(row.Shard, p.Shards)
	return rule.Full(s, now-int64(sweepAfter))
}
