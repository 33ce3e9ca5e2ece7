package spec

import "github.com/ratelimitgen/ratelimitgen/runtime"

// durability reads what a crash of the database may lose of a limit's counts.
func (p *parser) durability(limit *Limit, e entry) bool {
	return readWord(p, e, badDurability, runtime.Durabilities(), wordsForDurability, &limit.Policy.Durability)
}

// wordsForDurability are what databases and people say.
var wordsForDurability = map[string]runtime.Durability{
	"off": runtime.DurabilityRelaxed, "normal": runtime.DurabilityRelaxed, "async": runtime.DurabilityRelaxed,
	"relax": runtime.DurabilityRelaxed, "false": runtime.DurabilityRelaxed,
	"on": runtime.DurabilityFull, "extra": runtime.DurabilityFull, "sync": runtime.DurabilityFull,
	"strict": runtime.DurabilityFull, "true": runtime.DurabilityFull,
}
