// Package describe puts a limit into sentences, which doc comments, pages and reviews print.
package describe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Description is a limit in sentences.
type Description struct {
	// Plan is the name of the plan, for an element of Plans.
	Plan string
	// Rule is the grant: "Token bucket: 10 per minute, at most 20 at once." It is empty with Plans.
	Rule string
	// Sentences are the others, the most important first. With Plans, they are the ones that all limited plans have in common.
	Sentences []string
	// Worst says how many tokens can be used in a period at most, see [bounds.Within]: "Worst case: 30 in any minute.", or how
	// many slots can be held. If reservations have no bound, the number is for callers who do not reserve. It is empty for an
	// element of Plans without numbers.
	Worst string
	// Plans describe what differs between the plans of the limit, in their order.
	Plans []Description
}

// Rules returns the rule or, for a limit with plans, what differs between them: a text for each, which begins with its name.
func (d *Description) Rules() (rules []string) {
	if len(d.Plans) == 0 {
		return []string{d.Rule}
	}
	for _, of := range d.Plans {
		rules = append(rules, of.Plan+": "+strings.Join(of.Words(), " "))
	}
	return rules
}

// Words returns the rules and the other sentences, without the worst case.
func (d *Description) Words() []string { return append(d.Rules(), d.Sentences...) }

// Lines returns the sentences of [Description.Words], and the worst case.
func (d *Description) Lines() []string {
	if d.Worst == "" {
		return d.Words()
	}
	return append(d.Words(), d.Worst)
}

// Limit returns the limit in sentences.
func Limit(l *spec.Limit) *Description {
	d := &Description{Plan: l.Plan, Worst: "Worst case" + ifEnforced(l.Policy.Mode) + ": " + worstCases(l) + "."}
	if len(l.Plans) == 0 {
		d.Rule, d.Sentences = fields.Sentences(l)
		return d
	}
	common := func(sentence string) bool { return slices.Contains(d.Sentences, sentence) }
	limited, bounded := 0, slices.ContainsFunc(l.Plans, func(of *spec.Limit) bool { return !of.Numberless() && !of.CountsOnly() })
	for _, of := range l.Plans {
		plan := Limit(of)
		if bounded && of.CountsOnly() {
			// Operators can give its keys what they can give those of the other plans.
			plan.Sentences = slices.DeleteFunc(plan.Sentences,
				func(s string) bool { return slices.Contains(fields.OverridesWords(of), s) })
		}
		d.Plans = append(d.Plans, *plan)
		if of.Unlimited() || of.Zero() || bounded && of.CountsOnly() {
			continue
		}
		if limited++; limited == 1 {
			d.Sentences = slices.Clone(plan.Sentences)
		}
		d.Sentences = slices.DeleteFunc(d.Sentences, func(s string) bool { return !slices.Contains(plan.Sentences, s) })
	}
	for i, of := range l.Plans {
		plan := &d.Plans[i]
		plan.Sentences = slices.DeleteFunc(plan.Sentences, common)
		if of.Numberless() || of.CountsOnly() {
			plan.Worst = ""
		}
	}
	return d
}

// Words returns the sentences of [Description.Words].
func Words(l *spec.Limit) []string { return Limit(l).Words() }

// worstCases is the worst case, and that of each class of requests that leaves tokens to the others.
func worstCases(l *spec.Limit) string {
	text := worstCase(l)
	for _, class := range l.Priorities {
		if alone := l.Alone(class); class.Leaves > 0 && len(l.Plans) == 0 && !l.Numberless() && !l.CountsOnly() {
			text += ", of " + class.Name + " alone " + mostInPeriod(&alone)
		}
	}
	return text
}

// worstCase is the worst case as a part of a sentence: "30 in any minute".
func worstCase(l *spec.Limit) string {
	p := &l.Policy
	switch {
	case len(l.Plans) > 0:
		return strings.Join(words.Of(l.Plans, func(of *spec.Limit) string { return of.Plan + ": " + worstCases(of) }), "; ")
	case l.UnlimitedRate || l.CountsOnly() || p.AtMost.Unlimited:
		return "no bound"
	case l.Zero():
		return "0"
	case p.Kind == runtime.InFlight:
		return words.Number(p.Slots) + " held at any instant"
	case p.MaxReserved == runtime.Unbounded && p.Capacity == 0:
		return "reservations have no bound"
	case p.MaxReserved == runtime.Unbounded:
		// Unbounded reservations have no worst case, but callers who do not reserve have one.
		return mostInPeriod(bounds.Unreserved(p)) + " without reservations, which have no bound"
	case p.Reserves():
		return mostInPeriod(p) + ", counting reserved tokens when their delay has passed"
	}
	return mostInPeriod(p)
}

// mostInPeriod describes the worst case in an interval as long as a period, and for a calendar in a window too.
func mostInPeriod(p *runtime.Policy) string {
	span := bounds.Interval(p)
	around := fmt.Sprintf("%s in any %s", words.Bound(bounds.Within(p, span)), words.Period(span))
	if p.Calendar.Unit == 0 || p.Reserves() {
		return around
	}
	each := "calendar " + p.Calendar.Unit.String()
	if p.Calendar.Count > 1 {
		each = "window"
	}
	return fmt.Sprintf("%s in each %s, and %s", words.Number(p.Capacity), each, around)
}

// ifEnforced is the condition of a bound that does not hold in this mode.
func ifEnforced(m runtime.Mode) string {
	if m == runtime.ModeEnforce || m == runtime.ModeUnlimited {
		return ""
	}
	return ", if it were enforced"
}
