package fields

import (
	"fmt"
	"strconv"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var shardsField = limitField{
	name:      "shards",
	about:     "The number of rows that hold the count of one key, so that concurrent requests write to different rows. Each shard gets an equal part of `rate`, `capacity` and `maxReserved`, at least one token.",
	accepts:   fmt.Sprintf("a whole number, 1 to %s", words.Number(runtime.MaxShards)),
	absent:    "1",
	example:   "4",
	schema:    numberSchema(1, runtime.MaxShards),
	read:      numberReader(1, runtime.MaxShards, func(l *draft) *int { return &l.policy.Shards }),
	check:     (*parser).checkShards,
	change:    ids.ShardsChanged,
	effective: func(l *spec.Limit) string { return strconv.Itoa(max(1, l.Policy.Shards)) },
	sentences: shardsSentences,
}

// checkShards reports a limit that cannot be split, or into fewer shards only.
func (p *parser) checkShards(l *draft) {
	policy := &l.policy
	shards, ok := l.given["shards"]
	if !ok {
		return
	}
	if policy.Start.FirstUse() && policy.Shards > 1 {
		p.doc.Report(shards.At, ids.TooManyShards, "leave shards out",
			"windows that start at first use cannot have shards: each shard would start its own window")
		p.doc.Note(l.given["start"].At, "start is given here")
		return
	}
	// A capacity or maxReserved of 0 needs no token per shard. Defaults are skipped: the default capacity is the rate.
	least, name := int64(policy.Shards), ""
	for _, part := range []struct {
		name   string
		tokens int64
	}{{"rate", policy.Rate}, {"capacity", policy.Capacity}, {"maxReserved", policy.MaxReserved}} {
		if l.gives(part.name) && 0 < part.tokens && part.tokens < least {
			least, name = part.tokens, part.name
		}
	}
	if name == "" {
		return
	}
	help := "leave shards out"
	if least > 1 {
		help = "use at most " + words.Number(least) + " shards"
	}
	p.doc.Report(shards.At, ids.TooManyShards, help,
		"%s %d split into %d shards leaves some with less than one token", name, least, policy.Shards)
	p.doc.Note(l.given[name].At, name+" is given here")
}

func shardsSentences(l *spec.Limit) []string {
	if l.Policy.Shards < 2 {
		return nil
	}
	return []string{fmt.Sprintf("Each count is split into %s shards.", words.Number(int64(l.Policy.Shards)))}
}
