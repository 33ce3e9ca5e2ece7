package spec

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

const planPattern = `^[a-zA-Z][a-zA-Z0-9]*([-_][a-zA-Z0-9]+)*$`

var planForm = regexp.MustCompile(planPattern)

// longestPlan is the length of the longest name of a plan, which is printed in columns and in names of constants.
const longestPlan = 40

// maxPlans bounds what every number by plan, and every limit with one, costs.
const maxPlans = 100

const (
	plansHelp = "write plans: [free, pro]"
	planHelp  = "begin with a letter, and use letters and digits, with single dashes or underscores between them"
)

// planList reads the plans of the file.
func (p *parser) planList(file *File, e entry) bool {
	before := len(p.found)
	switch {
	case e.value.Kind != yaml.SequenceNode:
		p.wrongType(e, "a list of names", plansHelp)
	case len(e.value.Content) == 0:
		p.report(e.at, badPlan, "name at least one, or leave plans out", "plans must not be empty")
	case len(e.value.Content) > maxPlans:
		p.report(e.at, badPlan, "give customers with numbers of their own overrides", "a file has at most %d plans, not %s", maxPlans, words.Number(int64(len(e.value.Content))))
	default:
		file.Plans = p.readPlans(e.value.Content)
	}
	ok := len(p.found) == before
	if !e.again {
		p.plans, p.plansUnknown = file.Plans, !ok || slices.ContainsFunc(e.value.Content, func(item *yaml.Node) bool { return p.muted[item] })
	}
	return ok
}

func (p *parser) readPlans(items []*yaml.Node) (plans []Plan) {
	names, constants := map[string]span{}, map[string]string{}
	for _, item := range items {
		at := p.src.at(item)
		if p.muted[item] || !p.planName(item, at) {
			continue
		}
		plan := Plan{Name: item.Value, GoName: PlanGoName(item.Value), Pos: at.pos}
		if first, twice := names[plan.Name]; twice {
			p.report(at, duplicate, "", "the plan %s is given twice", quote(plan.Name))
			p.note(first, "first given here")
			continue
		}
		names[plan.Name] = at
		if other, taken := constants[plan.GoName]; taken {
			p.report(at, sameGoName, "rename one of them", "the plans %s and %s both have the Go constant %s", quote(other), quote(plan.Name), plan.GoName)
			p.note(names[other], "the first is here")
		}
		constants[plan.GoName] = plan.Name
		plans = append(plans, plan)
	}
	return plans
}

// planName reports the name of a plan that is not valid.
func (p *parser) planName(item *yaml.Node, at span) bool {
	switch {
	case !isString(item):
		p.report(at, badPlan, planHelp, "the name of a plan must be text, not %s", describe(item))
		if item.Kind == yaml.ScalarNode && planForm.MatchString(item.Value) {
			p.meant(strconv.Quote(item.Value)) // such as true, which is a name in quotes
		}
	case len(item.Value) > longestPlan:
		p.report(at, badPlan, "choose a shorter name", "the name of a plan has at most %d characters, and %s has %d", longestPlan, quote(item.Value), len([]rune(item.Value)))
	case !planForm.MatchString(item.Value):
		p.report(at, badPlan, planHelp, "the name of a plan must have letters and digits only, with dashes or underscores between them, not %s", quote(item.Value))
		if better := strings.Join(planWords(item.Value), "-"); planForm.MatchString(better) {
			p.meant(better)
		}
	default:
		return true
	}
	return false
}

const unlimited = "unlimited"

// unlimitedSynonyms are words for a rate without a bound.
var unlimitedSynonyms = []string{"none", "off", "infinite", "infinity", ".inf", "inf", "unbounded", "no limit", "nolimit", "any", "all", "-1"}

// byPlan returns a reader of a field that has either one value for all plans, or a map with a value for each plan. It
// checks the values of a map only: settlePlans reads them again, into the limit of each plan.
func byPlan(read func(*parser, *draft, entry) bool) func(*parser, *draft, entry) bool {
	return func(p *parser, limit *draft, e entry) bool {
		switch {
		case e.value.Kind == yaml.MappingNode:
			return p.planMap(e, read)
		case e.name == "rate" && isUnlimited(e.value):
			p.report(e.at, unlimitedPlan, "leave the limit out, or let the rate depend on the plan: rate: {free: 10, pro: unlimited}",
				"a limit that is unlimited for all plans has no effect")
			return false
		}
		return read(p, limit, e)
	}
}

func isUnlimited(value *yaml.Node) bool { return isString(value) && value.Value == unlimited }

// planMap reports the plans of a map that the file lacks, and the values that the field does not accept.
func (p *parser) planMap(e entry, read func(*parser, *draft, entry) bool) bool {
	before := len(p.found)
	entries, ok := p.entries(e.value, e.at, e.name, "")
	if !ok {
		return false
	}
	if len(p.plans) == 0 && !p.plansUnknown {
		p.report(e.at, noPlans, noPlansHelp(entries), "%s is a map of plans, but the file has no plans", e.name)
		return false
	}
	defer func(limit string) { p.limit = limit }(p.limit)
	limit, legible := p.limit, true
	for _, value := range entries {
		p.limit = limit
		if !p.plansUnknown && !slices.Contains(p.planNames(), value.name) {
			p.report(value.named, unknownPlan, "the plans are "+words.List(p.planNames(), "and"), "%s has the unknown plan %s", e.name, quote(value.name))
			p.meant(p.nearest(value.name, p.planNames))
		}
		p.limit = limit + ": plan " + label(value.name)
		p.planValue(e.name, value, read)
		legible = legible && !p.muted[value.value]
	}
	return len(p.found) == before && legible
}

// planValue checks the value of one plan.
func (p *parser) planValue(field string, e entry, read func(*parser, *draft, entry) bool) {
	e.name = field
	switch {
	case p.muted[e.value]:
	case field == "rate" && isUnlimited(e.value):
	case field == "rate" && meansUnlimited(e.value):
		p.report(e.at, notWhole, "", "%s must be a whole number or %s, not %s", field, unlimited, strings.TrimPrefix(describe(e.value), "the number "))
		p.meant(unlimited)
	case isUnlimited(e.value) && field != "maxReserved": // which has a word of its own
		p.report(e.at, unlimitedPlan, "write unlimited as the rate of the plan, and leave the plan out here", "only a rate can be %s, not %s", unlimited, field)
	default:
		// The value is only checked here.
		read(p, new(draft), e)
	}
}

func meansUnlimited(value *yaml.Node) bool {
	text := strings.ToLower(value.Value)
	return value.Kind == yaml.ScalarNode && (slices.Contains(unlimitedSynonyms, text) || Nearest(text, []string{unlimited}) != "")
}

func noPlansHelp(entries []entry) string {
	var names []string
	for _, e := range entries {
		if !planForm.MatchString(e.name) {
			return "add plans: [free, pro] at the top of the file"
		}
		names = append(names, e.name)
	}
	return "add plans: [" + strings.Join(names, ", ") + "] at the top of the file"
}

func (p *parser) planNames() []string { return planNames(p.plans) }
