package explain

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// shards says what each shard of a limit has.
func shards(p *runtime.Policy) string {
	first, last := p.Rule("").Shard(0, p.Shards), p.Rule("").Shard(p.Shards-1, p.Shards)
	has := []string{share(last.Rate, first.Rate) + " per " + spec.PeriodInWords(p.Period)}
	if p.Capacity > 0 {
		has = append(has, share(last.Capacity, first.Capacity)+" at once")
	}
	if p.Reserves() && p.MaxReserved < runtime.Unbounded {
		has = append(has, share(last.Debt, first.Debt)+" reserved ahead")
	}
	return fmt.Sprintf("Each of the %d has %s. A call takes from the fuller of two; if neither has enough, from all.", p.Shards, spec.List(has, "and"))
}

// share writes what a shard has, which is one of two numbers.
func share(least, most float64) string {
	if least == most {
		return spec.Grouped(int64(most))
	}
	return spec.Grouped(int64(least)) + " or " + spec.Grouped(int64(most))
}
