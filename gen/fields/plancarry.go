package fields

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// sameMethods reports plans of a limit that would need different methods of the generated handle.
func (p *parser) sameMethods(l *draft, limit *spec.Limit) bool {
	var first *spec.Limit
	for _, of := range limit.Plans {
		switch {
		case of.Numberless() || of.CountsOnly():
		case first == nil:
			first = of
		case first.Policy.Reserves() != of.Policy.Reserves():
			p.differ(l, "maxReserved", first.Plan, of.Plan, ids.PlansDiffer, "let maxReserved be 0 for all plans, or for none",
				fmt.Sprintf("one of the plans %s and %s can be reserved and the other cannot, but one method serves both",
					first.Plan, of.Plan))
			return false
		case (first.Policy.Capacity == 0) != (of.Policy.Capacity == 0):
			p.differ(l, "capacity", first.Plan, of.Plan, ids.PlansDiffer, "let capacity be 0 for all plans, or for none",
				fmt.Sprintf("one of the plans %s and %s can only be reserved and the other cannot, but one method serves both",
					first.Plan, of.Plan))
			return false
		}
	}
	return true
}

// differ reports a difference between two plans, at the value of a field.
func (p *parser) differ(l *draft, field, one, other string, rule *ids.Meaning, help, message string) {
	e, ok := l.given[field]
	if !ok {
		field, e = "rate", l.given["rate"]
	}
	at := e.Named
	if value, ok := l.byPlan[field].values[other]; ok {
		at = value.At
	}
	p.doc.Report(at, rule, help, "%s", message)
	if value, ok := l.byPlan[field].values[one]; ok {
		p.doc.Note(value.At, "the value of "+one+" is given here")
	}
}

// carryAlike reports two plans of a fixed window of which the one that allows more tokens at once can also start a window
// with more of them missing. A window that ends on the other plan forgets the difference, so that changing to it and
// back would grant tokens again.
func (p *parser) carryAlike(l *draft, limit *spec.Limit) bool {
	if limit.Policy.Kind != runtime.FixedWindow {
		return true
	}
	for i, large := range limit.Plans {
		for _, small := range limit.Plans[:i] {
			if large.Numberless() || small.Numberless() || large.CountsOnly() || small.CountsOnly() || includes(large, small) ||
				includes(small, large) {
				continue
			}
			if atOnce(large) < atOnce(small) {
				small, large = large, small
			}
			p.carriesMore(l, limit, small, large)
			return false
		}
	}
	return true
}

func (p *parser) carriesMore(l *draft, limit, small, large *spec.Limit) {
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
	if _, ok := l.byPlan["maxReserved"]; ok {
		field = "maxReserved"
	}
	p.differ(l, field, small.Plan, large.Plan, ids.PlanCarry, help, again+why)
}

// includes reports whether a plan of a fixed window grants whatever another one grants, and also after changes between
// the two: in every shard it allows as many tokens at once, and lacks no more of them at the start of a window.
func includes(l, o *spec.Limit) bool {
	large, small := meter.RuleOf(&l.Policy, ""), meter.RuleOf(&o.Policy, "")
	for i := range max(1, l.Policy.Shards) {
		l, s := large.Shard(i, l.Policy.Shards), small.Shard(i, l.Policy.Shards)
		if l.Capacity+l.Debt < s.Capacity+s.Debt || carriedBy(&l) > carriedBy(&s) {
			return false
		}
	}
	return true
}

// atOnce returns how many tokens of a limit can be used at once, without a bound for unbounded reservations.
func atOnce(l *spec.Limit) float64 {
	r := meter.RuleOf(&l.Policy, "")
	return r.Capacity + r.Debt
}

// carried returns how many tokens a fixed window can lack at its start, because they were used before.
func carried(l *spec.Limit) float64 {
	r := meter.RuleOf(&l.Policy, "")
	return carriedBy(&r)
}

func carriedBy(r *meter.Rule) float64 { return max(0, r.Capacity+r.Debt-r.Rate) }

// carriedWords describes what a window can lack, with its numbers: "60 on pro (capacity 120 - rate 60)".
func carriedWords(l *spec.Limit) string {
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
