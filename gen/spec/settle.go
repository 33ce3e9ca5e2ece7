package spec

import (
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// settleLimit fills in the defaults and holds the fields against each other. The ones that could not be
// read are left out of it: given has only those that were.
func (p *parser) settleLimit(limit *Limit, given map[string]entry) {
	_, kind := given["kind"]
	if kind && !p.fitsKind(&limit.Policy, given) {
		return
	}
	policy := &limit.Policy
	if _, ok := given["capacity"]; !ok {
		policy.Capacity = policy.Rate
	}
	reserved, ok := given["maxReserved"]
	if !ok && policy.Kind != runtime.SlidingWindow {
		policy.MaxReserved = runtime.Unbounded
	}
	if capacity, ok := given["capacity"]; ok && policy.Capacity == 0 && policy.MaxReserved == 0 {
		p.report(capacity.at, nothingPasses, "raise one of them", "with capacity 0 and maxReserved 0 nothing can ever pass")
		p.note(reserved.at, "nothing can be reserved either")
	}
	if cache, ok := given["denyCache"]; ok && capacityIsZero(policy, given) {
		p.report(cache.at, nothingCached, "leave denyCache out", "with capacity 0 everything is reserved, and no denial of that is remembered")
		p.note(given["capacity"].at, "capacity is given here")
	}
	p.leaseFits(policy, given)
	p.enoughForShards(policy, given)
}

// capacityIsZero reports whether the file says that nothing can be taken at once.
func capacityIsZero(policy *runtime.Policy, given map[string]entry) bool {
	_, ok := given["capacity"]
	return ok && policy.Capacity == 0
}

// fitsKind reports the fields that the limit's kind does not have.
func (p *parser) fitsKind(policy *runtime.Policy, given map[string]entry) bool {
	before := len(p.found)
	refuse := func(name, help, message string) {
		if e, ok := given[name]; ok {
			p.report(e.at, notForKind, help, "%s", message)
		}
	}
	switch policy.Kind {
	case runtime.TokenBucket:
		refuse("start", "leave start out, or use a fixed window", "a token bucket has no windows to start")
	case runtime.SlidingWindow:
		refuse("capacity", "leave capacity out: it is the rate", "a sliding window has no capacity of its own")
		if policy.MaxReserved != 0 {
			refuse("maxReserved", "leave maxReserved out, or use a token bucket", "a sliding window cannot be reserved ahead")
		}
		if policy.Start.FirstUse() {
			refuse("start", "give an instant or an offset, or leave start out", "a sliding window cannot start at first use")
		}
	}
	return len(p.found) == before
}

// enoughForShards reports a limit that cannot be split, or not so often that every shard gets a token.
func (p *parser) enoughForShards(policy *runtime.Policy, given map[string]entry) {
	shards, ok := given["shards"]
	if !ok {
		return
	}
	if policy.Start.FirstUse() && policy.Shards > 1 {
		p.report(shards.at, tooManyShards, atMostShards(1), "windows that start at first use cannot be split: each shard would start its own")
		p.note(given["start"].at, "start is given here")
		return
	}
	least, name := int64(policy.Shards), ""
	for _, part := range []struct {
		name   string
		tokens int64
	}{{"rate", policy.Rate}, {"capacity", policy.Capacity}, {"maxReserved", policy.MaxReserved}} {
		if _, ok := given[part.name]; ok && 0 < part.tokens && part.tokens < least {
			least, name = part.tokens, part.name
		}
	}
	if name == "" {
		return
	}
	p.report(shards.at, tooManyShards, atMostShards(least),
		"%s %d over %d shards leaves shards with less than one token", name, least, policy.Shards)
	p.note(given[name].at, name+" is given here")
}

func atMostShards(n int64) string {
	if n == 1 {
		return "leave shards out"
	}
	return "use at most " + words.Number(n) + " shards"
}
