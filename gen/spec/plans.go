package spec

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Plan is one of the plans of a file.
type Plan struct {
	// Name is the text that ParsePlan of the generated code accepts: "free".
	Name string
	// GoName is the name of the generated constant: "PlanFree".
	GoName string
	// Pos is the place of the name.
	Pos Pos
}

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

// plansFirst sorts the field plans before the others.
func plansFirst(a, b entry) int {
	order := func(e entry) int {
		if e.name == "plans" {
			return 0
		}
		return 1
	}
	return order(a) - order(b)
}

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

func planWords(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == ' ' || r == '.' || r == '+' })
}

// PlanGoName returns the name of the constant of a plan: PlanProYearly for pro-yearly.
func PlanGoName(name string) string {
	out := "Plan"
	for _, word := range planWords(name) {
		out += goName(word)
	}
	return out
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

// PlanNames returns the names of the plans of the file.
func (f *File) PlanNames() []string { return planNames(f.Plans) }

func planNames(plans []Plan) []string {
	names := make([]string, len(plans))
	for i, plan := range plans {
		names[i] = plan.Name
	}
	return names
}

// settlePlans is settleLimit for the limit of each plan, if the limit depends on the plan. all are the entries of the
// limit, and given those of them without errors; clean means that these are all.
func (p *parser) settlePlans(limit *draft, given map[string]entry, all []entry, clean bool) {
	maps := planMaps(all)
	if len(maps) == 0 {
		p.settleLimit(limit, given, clean)
		return
	}
	if len(p.plans) == 0 || p.plansUnknown || !p.fitKindByPlan(limit, given) || !p.namesEveryPlan(maps) {
		return
	}
	before := len(p.found)
	for _, plan := range p.plans {
		limit.plans = append(limit.plans, p.draftOf(plan.Name, limit, given, maps, clean))
	}
	p.dropRepeated(before)
	limited := slices.IndexFunc(limit.plans, func(of *draft) bool { return !of.unlimited() })
	if limited < 0 {
		p.report(maps["rate"].named, unlimitedPlan, "leave the limit out, or give one of the plans a number", "a limit that is unlimited for all plans has no effect")
		return
	}
	limit.policy = limit.plans[limited].policy
	if limit.policy.Mode == runtime.ModeBlock {
		// Blocking is for all plans. The numbers have no effect, but a policy needs some.
		for _, of := range limit.plans {
			if of.unlimitedRate {
				of.policy = limit.policy
			}
		}
	}
}

// planMaps returns the entries with a map of plans, by the name of the field.
func planMaps(all []entry) map[string]entry {
	maps := map[string]entry{}
	for _, f := range limitFields {
		i := slices.IndexFunc(all, func(e entry) bool { return e.name == f.name && !e.again })
		if f.byPlan && i >= 0 && all[i].value.Kind == yaml.MappingNode {
			maps[f.name] = all[i]
		}
	}
	return maps
}

// fitKindByPlan reports the maps of plans that the kind of the limit does not have.
func (p *parser) fitKindByPlan(limit *draft, given map[string]entry) bool {
	before := len(p.found)
	for _, r := range algorithms[limit.policy.Kind].refusals {
		if e, ok := given[r.field]; ok && e.value.Kind == yaml.MappingNode && (r.byPlan || r.applies == nil) {
			p.report(e.at, notForKind, r.help, "%s", r.message)
		}
	}
	return len(p.found) == before
}

// namesEveryPlan reports the maps that lack a plan, and those that have an unlimited one.
func (p *parser) namesEveryPlan(maps map[string]entry) bool {
	before := len(p.found)
	for _, f := range limitFields {
		e, ok := maps[f.name]
		if !ok || p.muted[e.value] {
			continue
		}
		var missing []string
		for _, plan := range p.planNames() {
			value, given := p.planEntry(e, plan)
			rate, _ := p.planEntry(maps["rate"], plan)
			free := f.name != "rate" && rate.value != nil && isUnlimited(rate.value)
			switch {
			case given && free:
				p.report(value.named, unlimitedPlan, "leave "+plan+" out here", "the plan %s is unlimited, so it has no %s", quote(plan), f.name)
				p.note(rate.at, "its rate is given here")
			case !given && !free && !p.misspelled(e, plan):
				missing = append(missing, plan)
			}
		}
		if len(missing) > 0 {
			p.report(e.named, missingPlan, "give a value for every plan, or one value for all of them", "%s lacks %s", f.name, planList(missing))
		}
	}
	return len(p.found) == before
}

func planList(plans []string) string {
	if len(plans) == 1 {
		return "the plan " + plans[0]
	}
	return "the plans " + words.List(plans, "and")
}

// misspelled reports whether a map has a plan that the file lacks, and that probably means this one.
func (p *parser) misspelled(e entry, plan string) bool {
	for i := 0; i+1 < len(e.value.Content); i += 2 {
		name := e.value.Content[i].Value
		if !slices.Contains(p.planNames(), name) && Nearest(name, p.planNames()) == plan {
			return true
		}
	}
	return false
}

// planEntry returns the value of a plan in a map, as an entry with the name of the field.
func (p *parser) planEntry(of entry, plan string) (entry, bool) {
	if of.value == nil {
		return entry{}, false
	}
	for i := 0; i+1 < len(of.value.Content); i += 2 {
		if key := of.value.Content[i]; isString(key) && key.Value == plan {
			e, ok := p.entry(key, of.value.Content[i+1])
			e.name = of.name
			return e, ok
		}
	}
	return entry{}, false
}

// draftOf returns the limit of one plan: with the plan's values in place of the maps, which name every plan.
func (p *parser) draftOf(plan string, limit *draft, given, maps map[string]entry, clean bool) *draft {
	of := *limit
	of.plan, of.plans, of.given = plan, nil, map[string]Pos{}
	own := map[string]entry{}
	for _, f := range limitFields {
		e, ok := given[f.name]
		if !ok {
			continue
		}
		if _, isMap := maps[f.name]; isMap {
			if e, ok = p.planEntry(e, plan); !ok {
				continue // an unlimited plan is left out
			}
			if f.name == "rate" && isUnlimited(e.value) {
				of.unlimitedRate = true
			} else {
				f.read(p, &of, e)
			}
		}
		own[f.name], of.given[f.name] = e, e.at.pos
	}
	if of.unlimitedRate {
		// Nothing of the rule applies, and so no number that is the same for the other plans. But their rows have its shards.
		of.policy = unchecked{Name: of.policy.Name, Kind: of.policy.Kind, Precise: of.policy.Precise, Shards: of.policy.Shards, Mode: runtime.ModeUnlimited}
		return &of
	}
	p.settleLimit(&of, own, clean)
	return &of
}

// dropRepeated drops the diagnostics after the first n that several plans have in common.
func (p *parser) dropRepeated(n int) {
	kept := p.found[:n]
	for _, d := range p.found[n:] {
		if !slices.ContainsFunc(kept[n:], func(o Diagnostic) bool { return o.ID == d.ID && o.Pos == d.Pos && o.Message == d.Message }) {
			kept = append(kept, d)
		}
	}
	p.found = kept
}
