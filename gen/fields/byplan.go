package fields

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// atMost is the only name in the map of a number that callers give: rate: {at most: 10_000}. No plan can have it.
const atMost = "at most"

// planReader reads a field of a limit that has one value for all plans, a value for each, or the most that callers can give.
type planReader struct {
	// read reads a single value.
	read reader[draft]
	// most returns where the policy has the number, and the most that callers can give; nil for a field that they cannot give.
	most func(l *draft) (number, most *int64)
}

// byPlan returns the reader of such a field.
func byPlan(read reader[draft], most func(l *draft) (number, most *int64)) reader[draft] {
	r := planReader{read, most}
	return func(p *parser, l *draft, e document.Entry) bool {
		switch {
		case isAtMost(e.Value):
			return r.fromCallers(p, l, e)
		case e.Value.Kind == yaml.MappingNode:
			return r.eachPlan(p, l, e)
		}
		return read(p, l, e)
	}
}

// eachPlan keeps a map of plans, and reports those that the file lacks and the values that the field does not accept. It
// only checks the values: [parser.settlePlans] reads them again, into the limit of each plan.
func (r planReader) eachPlan(p *parser, l *draft, e document.Entry) bool {
	before := len(p.doc.Found)
	entries, _ := p.doc.Entries(e.Value, e.At, e.Name, "")
	plans := p.planNames()
	hasPlan := slices.ContainsFunc(entries, func(e document.Entry) bool { return slices.Contains(plans, e.Name) })
	if i := slices.IndexFunc(entries, func(e document.Entry) bool { return meantAtMost(e.Name) != "" }); i >= 0 && !hasPlan && !p.plansUnknown {
		p.doc.Report(entries[i].Named, ids.BadNumbers, atMostHelp(e.Name),
			"a number that callers give is written with the words %q", atMost)
		p.doc.Offer(atMost)
		return false
	}
	of := planValues{Entry: e, values: map[string]document.Entry{}, meant: map[string]bool{}}
	for _, value := range entries {
		if plan := value.Name; !value.Again {
			value.Name = e.Name
			of.values[plan] = value
		}
	}
	if len(plans) > 0 || p.plansUnknown {
		for _, value := range entries {
			if !p.plansUnknown && !slices.Contains(plans, value.Name) {
				p.unknownPlan(&of, value)
			}
			r.onePlan(p, l, e.Name, value)
		}
	} else {
		p.doc.Report(e.At, ids.NoPlans, p.noPlansHelp(e.Name, entries), "%s is a map of plans, but the file has no plans", e.Name)
	}
	if !e.Again {
		if l.byPlan == nil {
			l.byPlan = map[string]planValues{}
		}
		l.byPlan[e.Name] = of
	}
	illegible := slices.ContainsFunc(entries, func(value document.Entry) bool { return p.doc.Muted(value.Value) })
	return len(p.doc.Found) == before && !illegible
}

// unknownPlan reports a plan that the file lacks.
func (p *parser) unknownPlan(of *planValues, value document.Entry) {
	p.doc.Report(value.Named, ids.UnknownPlan, "", "%s has the unknown plan %s", of.Name, diag.Quote(value.Name))
	if p.doc.Described() {
		p.doc.Help("the plans are " + words.List(p.planNames(), "and"))
	}
	meant := cmp.Or(meantAtMost(value.Name), p.doc.Nearest(value.Name, p.planNames))
	p.doc.Offer(meant)
	of.meant[meant], of.anyPlan = true, of.anyPlan || !p.doc.Described()
}

// onePlan checks the value of one plan.
func (r planReader) onePlan(p *parser, l *draft, field string, e document.Entry) {
	defer p.doc.Enter("plan " + diag.Label(e.Name))()
	e.Name = field
	switch isUnlimited := document.IsWord(e.Value, unlimited); {
	case p.doc.Muted(e.Value):
	case isAtMost(e.Value):
		p.doc.Report(e.At, ids.BadNumbers, atMostHelp(field),
			"a number that callers give is the same for all plans, or the plans have numbers of their own")
	case field == "rate" && (isUnlimited || isZero(e.Value)):
	case field == "rate" && p.meantInstead(e, unlimited, unlimitedSynonyms):
	case isUnlimited && field == "capacity" && l.has("hold"):
		p.doc.Report(e.At, ids.UnlimitedPlan, "give the plan a number, at most "+words.Number(runtime.MaxSlots),
			"slots cannot be %s, because their holders are in one row", unlimited)
	case isUnlimited && field != "maxReserved": // which has a word of its own
		p.doc.Report(e.At, ids.UnlimitedPlan, "write unlimited as the rate of the plan, and leave the plan out here",
			"only a rate can be %s, not %s", unlimited, field)
	default:
		r.read(p, &draft{entries: l.entries}, e)
	}
}

// noPlansHelp is the remedy for a map of plans in a file without plans.
func (p *parser) noPlansHelp(field string, entries []document.Entry) string {
	var names []string
	for _, e := range entries {
		if slices.Contains(p.limitFields, e.Name) {
			return e.Name + " is a field of the limit: write it beside " + field
		}
		if !planForm.MatchString(e.Name) {
			return "add plans: [free, pro] at the top of the file"
		}
		names = append(names, e.Name)
	}
	return "add plans: [" + strings.Join(names, ", ") + "] at the top of the file"
}

// orByPlan is a schema of either a value, or a map with one for each plan. The names of the plans are those of the file,
// which a schema cannot refer to.
func orByPlan(value object, unlimitedToo bool) object {
	one := maps.Clone(value)
	if unlimitedToo {
		one["minimum"] = 0 // which denies the plan every request
	}
	switch {
	case value["minimum"] == nil:
		one["patternErrorMessage"] = "Write a duration such as 90s."
	case unlimitedToo:
		one["patternErrorMessage"] = "Write a whole number of tokens, or unlimited."
	default:
		one["patternErrorMessage"] = "Write a whole number of tokens."
	}
	if unlimitedToo {
		one["pattern"] = fmt.Sprintf("^%s$|%s", unlimited, value["pattern"])
		one["defaultSnippets"] = []any{object{"label": unlimited, "body": unlimited}}
	}
	both := maps.Clone(value)
	types, several := value["type"].([]string)
	if !several {
		types = []string{value["type"].(string)}
	}
	both["type"] = append(slices.Clone(types), "object")
	both["minProperties"] = 1
	both["propertyNames"] = object{"pattern": planForm.String(), "maxLength": longestPlan}
	both["additionalProperties"] = one
	if value["minimum"] != nil {
		most, or := numberSchema(1, value["maximum"].(int64)), ""
		if unlimitedToo {
			most, or = wordSchema(1, value["maximum"].(int64), unlimited), ", or unlimited"
		}
		most["patternErrorMessage"] = "Write the most that callers can give, a whole number of tokens" + or + "."
		both["properties"] = object{atMost: most}
		both["propertyNames"] = object{"pattern": planForm.String() + "|^" + atMost + "$", "maxLength": longestPlan}
		both["if"], both["then"] = having(atMost, object{}), object{"maxProperties": 1}
	}
	return both
}

// isZero reports whether a value is the number 0.
func isZero(value *yaml.Node) bool { return value.Tag == "!!int" && value.Value == "0" }

// NumberOf returns the field whose value for a plan can be 0, so that every request of the plan is denied.
func NumberOf(l *spec.Limit) string { return numberOf(l.Policy.Kind == runtime.InFlight) }

func numberOf(inFlight bool) string {
	if inFlight {
		return "capacity"
	}
	return "rate"
}

// isAtMost reports whether a value is the map of a number that callers give.
func isAtMost(value *yaml.Node) bool {
	if value.Kind == yaml.MappingNode {
		for i := 0; i < len(value.Content); i += 2 {
			if document.IsWord(value.Content[i], atMost) {
				return true
			}
		}
	}
	return false
}

// meantAtMost returns "at most" for a name that means it, and otherwise "".
func meantAtMost(name string) string {
	switch string(diag.Fold(name)) {
	case "atmost", "most", "max", "maximum", "upto", "limit":
		return atMost
	}
	return ""
}

func atMostHelp(field string) string { return "write " + field + ": {" + atMost + ": 10_000}" }

// fromCallers reads the most of a number that callers give.
func (r planReader) fromCallers(p *parser, l *draft, e document.Entry) bool {
	if r.most == nil {
		p.doc.Report(e.At, ids.BadNumbers, "give one "+e.Name+", or one for each plan", "callers cannot give the %s", e.Name)
		return false
	}
	number, most := r.most(l)
	before := len(p.doc.Found)
	entries, _ := p.doc.Entries(e.Value, e.At, e.Name, "")
	for _, part := range entries {
		switch {
		case part.Name != atMost:
			p.doc.Report(part.Named, ids.BadNumbers, atMostHelp(e.Name),
				"%s is either by plan or from callers: beside %q, it has nothing else", e.Name, atMost)
		case part.Again || p.doc.Muted(part.Value):
		case e.Name == "rate" && document.IsWord(part.Value, unlimited):
			*number, l.policy.AtMost.Unlimited = runtime.MaxTokens, true
		case document.IsWord(part.Value, unlimited) || document.IsWord(part.Value, unbounded):
			p.doc.Report(part.At, ids.BadNumbers, atMostHelp(e.Name), "the most that callers can give is a number, not %s",
				part.Value.Value)
		default:
			part.Name = e.Name
			if r.read(p, l, part) && *number == 0 {
				p.doc.Report(part.At, ids.BadNumbers, "leave "+e.Name+" out, or write "+e.Name+": 0",
					"callers can give a number only if it can be 1 or more")
			}
		}
	}
	*most = *number
	return len(p.doc.Found) == before
}
