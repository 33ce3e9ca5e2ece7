package runtime

import (
	"slices"
	"time"
)

// sweepAfter is for how long a row is kept after it has become full, so that a clock that is set back by
// less still finds it.
const sweepAfter = time.Hour

// Sweepable reports whether a stored row of the policy is worth no more than a key never seen, at the
// instant now in nanoseconds since 1970 UTC, and has been so for an hour. Then a sweep may delete it. A
// row of a shard that the policy does not have is kept.
func (p *Policy) Sweepable(row Row, s State, now int64) bool {
	if p.Validate() != nil || row.Shard >= max(1, p.Shards) {
		return false
	}
	rule := p.Rule(row.Key).Shard(row.Shard, p.Shards)
	return rule.Full(s, now-int64(sweepAfter))
}

// Sweepable reports whether a row is [Policy.Sweepable] for each of several policies of one name, such as a
// limit before and after an edit: a row that is full for the smaller may be nearly empty for the larger. It is
// false if there are no policies.
func Sweepable(policies []*Policy, row Row, s State, now int64) bool {
	keeps := func(p *Policy) bool { return !p.Sweepable(row, s, now) }
	return len(policies) > 0 && !slices.ContainsFunc(policies, keeps)
}

// byName groups policies by their names. The error is that of the first one that is invalid.
func byName(policies []*Policy) (map[string][]*Policy, error) {
	same := map[string][]*Policy{}
	for _, p := range policies {
		if err := p.Validate(); err != nil {
			return nil, err
		}
		same[p.Name] = append(same[p.Name], p)
	}
	return same, nil
}
