package spec

import (
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

const leaseHelp = "write lease: {tokens: 10, for: 200ms}"

// lease reads the blocks that a process takes of a limit.
func (p *parser) lease(limit *Limit, e entry) bool {
	entries, ok := p.entries(e.value, e.at, "lease", leaseHelp)
	if !ok {
		return false
	}
	before := len(p.found)
	defer func(limit string) { p.limit = limit }(p.limit)
	p.limit += ": lease"
	readFields(p, leaseFields, &limit.Policy.Lease, entries, e.named, p.complete(e.value))
	return len(p.found) == before
}

func (p *parser) leaseTokens(lease *runtime.Lease, e entry) (ok bool) {
	lease.Tokens, ok = p.number(e, 1, runtime.MaxTokens)
	return ok
}

func (p *parser) leaseFor(lease *runtime.Lease, e entry) (ok bool) {
	lease.For, ok = p.length(e)
	return ok
}

// leaseFits reports a lease that the limit cannot have.
func (p *parser) leaseFits(policy *runtime.Policy, given map[string]entry) {
	lease, ok := given["lease"]
	if !ok {
		return
	}
	if policy.Start.FirstUse() {
		p.report(lease.at, badLease, "leave lease out, or give an instant or an offset",
			"windows that start at first use have no lease: nobody knows when they end")
		p.note(given["start"].at, "start is given here")
		return
	}
	source, note := "capacity", "capacity is given here"
	if _, ok := given[source]; !ok {
		source, note = "rate", "rate is given here, and the capacity follows it"
	}
	most, ok := given[source]
	if !ok || policy.Lease.Tokens <= policy.Capacity {
		return
	}
	p.report(p.part(lease, "tokens").at, badLease, atMostLeased(policy.Capacity),
		"tokens %s is more than the capacity, %s: such a block can never be taken", words.Number(policy.Lease.Tokens), words.Number(policy.Capacity))
	p.note(most.at, note)
}

func atMostLeased(n int64) string {
	if n == 0 {
		return "leave lease out"
	}
	return "use at most " + words.Number(n)
}

// part returns an entry of the map in another, which has it.
func (p *parser) part(of entry, name string) entry {
	i := 0
	for of.value.Content[i].Value != name {
		i += 2
	}
	e, _ := p.entry(of.value.Content[i], of.value.Content[i+1])
	return e
}
