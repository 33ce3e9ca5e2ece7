package spec

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// settleLimit fills in the defaults and reports fields that contradict each other. It skips invalid fields: given contains
// only the valid ones, and clean means that all are.
func (p *parser) settleLimit(limit *draft, given map[string]entry, clean bool) {
	_, kind := given["kind"]
	// With fields of another kind, the kind itself may be the error, and the checks below would be misleading.
	if kind && !p.fitsKind(&limit.policy, given) {
		return
	}
	policy := &limit.policy
	p.settleCalendar(policy, given)
	if _, ok := given["capacity"]; !ok {
		policy.Capacity = policy.Rate
	}
	capacity, ok := given["capacity"]
	switch reserved, reserves := given["maxReserved"]; {
	case !ok || policy.Capacity > 0 || policy.MaxReserved > 0:
	case reserves:
		p.report(capacity.at, nothingPasses, "raise one of them", "with capacity 0 and maxReserved 0 no request can ever be allowed")
		p.note(reserved.at, "maxReserved is given here")
	case clean: // otherwise, maxReserved may be the field with an error
		p.report(capacity.at, nothingPasses, "add maxReserved: "+unboundedWord+", or a number, or raise capacity",
			"with capacity 0 and without maxReserved no request can ever be allowed")
	}
	if cache, ok := given["denyCache"]; ok && capacityIsZero(policy, given) {
		p.report(cache.at, nothingCached, "leave denyCache out", "denyCache has no effect with capacity 0: every request reserves, and denied reservations are not cached")
		p.note(given["capacity"].at, "capacity is given here")
	}
	p.preciseFits(policy, given)
	p.leaseFits(policy, given)
	p.enoughForShards(policy, given)
}

func capacityIsZero(policy *unchecked, given map[string]entry) bool {
	// The zero value also means that the capacity could not be read.
	_, ok := given["capacity"]
	return ok && policy.Capacity == 0
}

// fitsKind reports the fields that the limit's kind does not have.
func (p *parser) fitsKind(policy *unchecked, given map[string]entry) bool {
	before := len(p.found)
	for _, r := range algorithms[policy.Kind].refusals {
		if e, ok := given[r.field]; ok && !r.byPlan && (r.applies == nil || r.applies(policy)) {
			p.report(e.at, notForKind, r.help, "%s", r.message)
		}
	}
	return len(p.found) == before
}

// enoughForShards reports a limit that cannot be split, or into fewer shards only.
func (p *parser) enoughForShards(policy *unchecked, given map[string]entry) {
	shards, ok := given["shards"]
	if !ok {
		return
	}
	if policy.Start.FirstUse() && policy.Shards > 1 {
		p.report(shards.at, tooManyShards, atMostShards(1), "windows that start at first use cannot have shards: each shard would start its own window")
		p.note(given["start"].at, "start is given here")
		return
	}
	// A capacity or maxReserved of 0 needs no token per shard. Defaults are skipped: the default capacity is the rate.
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
		"%s %d split into %d shards leaves some with less than one token", name, least, policy.Shards)
	p.note(given[name].at, name+" is given here")
}

func atMostShards(n int64) string {
	if n == 1 {
		return "leave shards out"
	}
	return "use at most " + words.Number(n) + " shards"
}

const leaseHelp = "write lease: {tokens: 10, for: 200ms}"

func (p *parser) lease(limit *draft, e entry) bool {
	return readMap(p, leaseFields, &limit.policy.Lease, e, leaseHelp)
}

// leaseFits reports a lease that contradicts other fields.
func (p *parser) leaseFits(policy *unchecked, given map[string]entry) {
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

// part returns the field called name of the map in an entry. The map must contain it.
func (p *parser) part(of entry, name string) entry {
	i := 0
	for of.value.Content[i].Value != name {
		i += 2
	}
	e, _ := p.entry(of.value.Content[i], of.value.Content[i+1])
	return e
}

// preciseFits reports the fields that a precise limit cannot have.
func (p *parser) preciseFits(policy *unchecked, given map[string]entry) {
	precise, ok := given["precise"]
	if !ok || !policy.Precise {
		return
	}
	for _, c := range preciseConflicts {
		e, ok := given[c.field]
		if ok && c.applies(policy) {
			p.report(e.at, badPrecise, c.help(policy), "%s", c.message(policy))
			p.note(precise.at, "precise is given here")
		}
	}
}

// preciseConflict is a field that a precise limit cannot have, or some of its values.
type preciseConflict struct {
	field         string
	applies       func(p *unchecked) bool
	message, help func(p *unchecked) string
	// schema is the schema of the values that a precise limit can have, and hint what editors show for the others.
	schema any
	hint   string
}

var preciseConflicts = []preciseConflict{
	{
		field:   "rate",
		applies: func(p *unchecked) bool { return p.Rate > runtime.MaxPreciseRate },
		message: func(p *unchecked) string {
			return fmt.Sprintf("a precise limit has a rate of at most %s, not %s", words.Number(runtime.MaxPreciseRate), words.Number(p.Rate))
		},
		help:   bucketInstead,
		schema: numberSchema(1, runtime.MaxPreciseRate),
		hint:   tooPrecise,
	},
	{
		field: "start", applies: func(p *unchecked) bool { return true },
		message: always("a precise limit has no windows to start"), help: always("leave start out"),
		schema: false, hint: "A precise limit has no windows that start.",
	},
	{
		field: "shards", applies: func(p *unchecked) bool { return p.Shards > 1 },
		message: always("a precise limit cannot have shards, which each would have a log of their own"), help: always("leave shards out"),
		schema: object{"const": 1, "errorMessage": "A precise limit cannot have shards."},
	},
	{
		field: "lease", applies: func(p *unchecked) bool { return true },
		message: always("a precise limit has no lease, because leased tokens are used later than they are counted"), help: always("leave lease out"),
		schema: false, hint: "A precise limit has no lease.",
	},
}

var tooPrecise = fmt.Sprintf("A precise limit has a rate of at most %s.", words.Number(runtime.MaxPreciseRate))

func always(text string) func(*unchecked) string {
	return func(*unchecked) string { return text }
}

// bucketInstead describes the token bucket that keeps the promise of a precise limit: with capacity C and rate N-C per
// period, it never grants more than N in any period.
func bucketInstead(p *unchecked) string {
	return fmt.Sprintf("use a token bucket with rate: %d and capacity: %d, or any other two with this sum: it never grants more than %s in any %s either",
		p.Rate-p.Rate/10, p.Rate/10, words.Number(p.Rate), words.Period(p.Period))
}

// sameMethods reports plans of a limit that would need different methods of the generated handle.
func (p *parser) sameMethods(limit *Limit, given map[string]entry) bool {
	var first *Limit
	for _, of := range limit.Plans {
		switch {
		case of.Unlimited():
		case first == nil:
			first = of
		case first.Policy.Reserves() != of.Policy.Reserves():
			p.differ(limit, given, "maxReserved", first.Plan, of.Plan, plansDiffer, "let maxReserved be 0 for all plans, or for none",
				fmt.Sprintf("one of the plans %s and %s can be reserved and the other cannot, but one method serves both", first.Plan, of.Plan))
			return false
		case (first.Policy.Capacity == 0) != (of.Policy.Capacity == 0):
			p.differ(limit, given, "capacity", first.Plan, of.Plan, plansDiffer, "let capacity be 0 for all plans, or for none",
				fmt.Sprintf("one of the plans %s and %s can only be reserved and the other cannot, but one method serves both", first.Plan, of.Plan))
			return false
		}
	}
	return true
}

// differ reports a difference between two plans, at the value of a field.
func (p *parser) differ(limit *Limit, given map[string]entry, field, one, other string, rule *Rule, help, message string) {
	e, ok := given[field]
	if !ok {
		e = given["rate"]
	}
	at := e.named
	if value, ok := p.planEntry(e, other); ok {
		at = value.at
	}
	p.report(at, rule, help, "%s", message)
	if value, ok := p.planEntry(e, one); ok {
		p.note(value.at, "the value of "+one+" is given here")
	}
}

// carryAlike reports two plans of a fixed window of which the one that allows more tokens at once can also start a window
// with more of them missing. A window that ends on the other plan forgets the difference, so that changing to it and
// back would grant tokens again.
func (p *parser) carryAlike(limit *Limit, given map[string]entry) bool {
	if limit.Policy.Kind != runtime.FixedWindow {
		return true
	}
	for i, large := range limit.Plans {
		for _, small := range limit.Plans[:i] {
			if large.Unlimited() || small.Unlimited() || includes(large, small) || includes(small, large) {
				continue
			}
			if atOnce(large) < atOnce(small) {
				small, large = large, small
			}
			p.carriesMore(limit, given, small, large)
			return false
		}
	}
	return true
}

func (p *parser) carriesMore(limit *Limit, given map[string]entry, small, large *Limit) {
	again := fmt.Sprintf("changing from the plan %s to %s and back would grant tokens again: ", large.Plan, small.Plan)
	difference := "capacity - rate"
	if limit.Policy.Reserves() {
		difference = "capacity + maxReserved - rate"
	}
	help := "let " + difference + " be the same for all plans, or use a token bucket"
	why := "once all tokens are used, the next window lacks " + carriedWords(large) + ", but " + carriedWords(small)
	if carried(large) <= carried(small) {
		help = fmt.Sprintf("let rate, capacity and maxReserved be multiples of %d, the number of shards", limit.Policy.Shards)
		why = fmt.Sprintf("divided among %d shards, neither of them has the larger part of every number", limit.Policy.Shards)
	}
	field := "capacity"
	if e, ok := given["maxReserved"]; ok && e.value.Kind == yaml.MappingNode {
		field = "maxReserved"
	}
	p.differ(limit, given, field, small.Plan, large.Plan, planCarry, help, again+why)
}

// includes reports whether a plan of a fixed window grants whatever another one grants, and also after changes between
// the two: in every shard it allows as many tokens at once, and lacks no more of them at the start of a window.
func includes(l, o *Limit) bool {
	large, small := l.Policy.Rule(""), o.Policy.Rule("")
	for i := range max(1, l.Policy.Shards) {
		l, s := large.Shard(i, l.Policy.Shards), small.Shard(i, l.Policy.Shards)
		if l.Capacity+l.Debt < s.Capacity+s.Debt || carriedBy(&l) > carriedBy(&s) {
			return false
		}
	}
	return true
}

// atOnce returns how many tokens of a limit can be used at once, without a bound for unbounded reservations.
func atOnce(l *Limit) float64 {
	r := l.Policy.Rule("")
	return r.Capacity + r.Debt
}

// carried returns how many tokens a fixed window can lack at its start, because they were used before.
func carried(l *Limit) float64 {
	r := l.Policy.Rule("")
	return carriedBy(&r)
}

func carriedBy(r *runtime.Rule) float64 { return max(0, r.Capacity+r.Debt-r.Rate) }

// carriedWords describes what a window can lack, with its numbers: "60 on pro (capacity 120 - rate 60)".
func carriedWords(l *Limit) string {
	of := "capacity " + words.Number(l.Policy.Capacity)
	switch {
	case l.Policy.MaxReserved == runtime.Unbounded:
		return fmt.Sprintf("any number on %s (maxReserved unbounded)", l.Plan)
	case l.Policy.MaxReserved > 0:
		of += " + maxReserved " + words.Number(l.Policy.MaxReserved)
	}
	if n := int64(carried(l)); n > 0 {
		return fmt.Sprintf("%s on %s (%s - rate %s)", words.Number(n), l.Plan, of, words.Number(l.Policy.Rate))
	}
	return fmt.Sprintf("none on %s (%s, rate %s)", l.Plan, of, words.Number(l.Policy.Rate))
}
