package fields

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var capacityField = limitField{
	name: "capacity", requiredBy: kindNeeds("capacity"), synonyms: []string{"burst", "max", "slots", "concurrency", "maxconcurrent", "parallel", "concurrent"},
	about:     "The most tokens that can accumulate, and so the largest n of one call. With 0, tokens can only be reserved. Not for a sliding window. For a limit in flight, the slots that can be held at once.",
	accepts:   fmt.Sprintf("a whole number of tokens, 0 to %s, or of slots, 1 to %s; or a map with one for each plan; or `{at most: 20_000}`, if callers give it", words.Number(runtime.MaxTokens), words.Number(runtime.MaxSlots)),
	absent:    "`rate`; required for `in flight`",
	example:   "20",
	schema:    orByPlan(numberSchema(0, runtime.MaxTokens), false),
	read:      byPlan((*parser).readCapacity, (*draft).capacityNumbers),
	check:     (*parser).checkCapacity,
	change:    ids.CapacityChanged,
	byPlan:    true,
	effective: effectiveCapacity,
}

// effectiveCapacity is empty for an unlimited rate.
func effectiveCapacity(l *spec.Limit) string {
	if l.CountsOnly() {
		return ""
	}
	return effectiveNumber(l.Policy.Full(), l.Policy.AtMost.Full())
}

// readCapacity reads a capacity, which is bounded by what one row can have for a limit in flight.
func (p *parser) readCapacity(l *draft, e document.Entry) (ok bool) {
	help := ""
	if l.hasKind(runtime.InFlight) {
		help = "write a number of slots, at most " + words.Underscored(runtime.MaxSlots)
	}
	number, _ := l.capacityNumbers()
	*number, ok = p.readWhole(e, 0, runtime.MaxTokens, wholeHelp{notWhole: help})
	return ok
}

// capacityNumbers returns where the policy has the capacity, and the most that callers can give. The capacity of a limit in
// flight is its slots.
func (l *draft) capacityNumbers() (number, most *int64) {
	if l.hasKind(runtime.InFlight) {
		return &l.policy.Slots, &l.policy.AtMost.Slots
	}
	return &l.policy.Capacity, &l.policy.AtMost.Capacity
}

// checkCapacity fills in the rate as the default. Slots have none.
func (p *parser) checkCapacity(l *draft) {
	if l.policy.Kind == runtime.InFlight {
		return
	}
	if capacity, ok := l.given["capacity"]; !ok {
		l.policy.Capacity, l.policy.AtMost.Capacity = l.policy.Rate, l.policy.AtMost.Rate
	} else if l.policy.Capacity == 0 {
		p.checkReserveOnly(l, capacity)
	}
}

// checkReserveOnly reports a limit with capacity 0 that cannot be reserved either.
func (p *parser) checkReserveOnly(l *draft, capacity document.Entry) {
	policy := &l.policy
	switch reserved, reserves := l.given["maxReserved"]; {
	case policy.MaxReserved > 0:
	case reserves:
		p.doc.Report(capacity.At, ids.NothingPasses, "raise one of them",
			"with capacity 0 and maxReserved 0 no request can ever be allowed")
		p.doc.Note(reserved.At, "maxReserved is given here")
	case l.clean: // otherwise, maxReserved may be the field with an error
		p.doc.Report(capacity.At, ids.NothingPasses, "add maxReserved: "+unbounded+", or a number, or raise capacity",
			"with capacity 0 and without maxReserved no request can ever be allowed")
	}
}

// hasCapacity reports whether the file gives the limit, and each of its plans, a capacity other than 0, or none.
func (l *draft) hasCapacity() bool {
	isZero := func(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && (n.Value == "0" || n.Value == "-0") }
	return !slices.ContainsFunc(l.entries, func(e document.Entry) bool {
		return e.Name == "capacity" && (isZero(e.Value) || e.Value.Kind == yaml.MappingNode && slices.ContainsFunc(e.Value.Content, isZero))
	})
}
