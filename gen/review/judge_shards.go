package review

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func judgeShards(j *judgement, p pair, _ []spec.Change) {
	was, is := max(1, p.old.Policy.Shards), max(1, p.new.Policy.Shards)
	j.class(StoredState)
	if is > was {
		if more := gained(p); more > 0 {
			j.class(Loosened)
			j.note(Deploy, "%s full: up to %s more once for each key in use.", shardsWords("%s begins", "%s begin", was, is), spec.Grouped(more))
		} else {
			j.note(Deploy, "%s without tokens for a key in use.", shardsWords("%s begins", "%s begin", was, is))
		}
		return
	}
	j.class(Tightened)
	debt := ""
	switch {
	case p.old.Policy.MaxReserved == runtime.Unbounded:
		debt = " Debt there, however deep, is forgotten."
	case p.old.Policy.Reserves():
		debt = fmt.Sprintf(" Debt there, up to %s, is forgotten.", spec.Grouped(owedBy(&p.old.Policy, is, was)))
	}
	if debt != "" {
		j.class(Loosened)
	}
	j.note(Deploy, "%s not read any more: a key in use loses up to %s that it had left there.%s",
		shardsWords("%s is", "%s are", is, was), spec.Grouped(heldBy(&p.old.Policy, is, was)), debt)
	j.run("after the deploy, so that no later version reads them again",
		"DELETE FROM rate_limits WHERE name = '%s' AND shard >= %d;", p.new.Policy.Name, is)
}

// gained returns how many tokens a key has for its new shards that had none left under the old rule.
func gained(p pair) int64 {
	emptied := runtime.State{TS: origin, Exists: true}
	return left(withWindow(&p.new.Policy, origin), split(&p.old.Policy, emptied, max(1, p.new.Policy.Shards)), origin)
}

// heldBy returns the most tokens that the shards from one number to before another hold.
func heldBy(p *runtime.Policy, from, to int) (tokens int64) {
	for i := from; i < to; i++ {
		tokens += int64(p.Rule("").Shard(i, p.Shards).Capacity)
	}
	return tokens
}

// owedBy returns the deepest debt that the shards from one number to before another are in.
func owedBy(p *runtime.Policy, from, to int) (tokens int64) {
	for i := from; i < to; i++ {
		tokens += int64(p.Rule("").Shard(i, p.Shards).Debt)
	}
	return tokens
}

// shardsWords names the shards from one number to before another, in a text for one or for several.
func shardsWords(one, several string, from, to int) string {
	switch to - from {
	case 1:
		return fmt.Sprintf(one, fmt.Sprintf("Shard %d", from))
	case 2:
		return fmt.Sprintf(several, fmt.Sprintf("Shards %d and %d", from, to-1))
	}
	return fmt.Sprintf(several, fmt.Sprintf("Shards %d to %d", from, to-1))
}
