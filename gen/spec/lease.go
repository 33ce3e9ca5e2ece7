package spec

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// leaseFields are the fields of the lease of a limit.
var leaseFields = []field[runtime.Lease, runtime.Lease]{
	{
		name: "tokens", required: true, synonyms: []string{"size", "count", "amount"},
		about:   "How many tokens a block has: ideally as many as one process uses of one key within `for`. Requests for more reach the store.",
		accepts: "a whole number of tokens, 1 to `capacity`",
		example: "10",
		schema:  numberSchema(1, runtime.MaxTokens),
		sets:    "Tokens",
		read:    readTokens(1, func(l *runtime.Lease) *int64 { return &l.Tokens }),
	},
	{
		name: "for", required: true, synonyms: []string{"ttl", "duration", "time"},
		about:   "How long a block may be spent. Tokens left after that are given back; for a token bucket, less the tokens that have accrued since.",
		accepts: "a duration, as for `period`",
		example: "200ms",
		schema:  durationSchema,
		sets:    "For",
		read:    readDuration(func(l *runtime.Lease) *time.Duration { return &l.For }),
	},
}

const leaseHelp = "write lease: {tokens: 10, for: 200ms}"

func (p *parser) lease(limit *draft, e entry) bool {
	return readMap(p, leaseFields, &limit.policy.Lease, e, leaseHelp)
}

// leaseFits reports a lease that contradicts other fields.
func (p *checker) leaseFits(policy *unchecked, given map[string]entry) {
	lease, ok := given["lease"]
	if !ok {
		return
	}
	if policy.Start.FirstUse() {
		p.report(lease.at, badLease, "leave lease out, or give an instant or an offset",
			"windows that start at first use have no lease, because a process cannot compute when they end")
		p.note(given["start"].at, "start is given here")
		return
	}
	source, note := "capacity", "capacity is given here"
	if _, ok := given[source]; !ok {
		source, note = "rate", "the capacity is the rate, given here"
	}
	// If neither could be read, the capacity is not known.
	most, ok := given[source]
	if !ok || policy.Lease.Tokens <= policy.Capacity {
		return
	}
	p.report(p.part(lease, "tokens").at, badLease, atMostLeased(policy.Capacity),
		"tokens %s is more than the capacity, %s, so no block could ever be taken", words.Number(policy.Lease.Tokens), words.Number(policy.Capacity))
	p.note(most.at, note)
}

func atMostLeased(n int64) string {
	if n == 0 {
		return "leave lease out"
	}
	return "use at most " + words.Number(n)
}
