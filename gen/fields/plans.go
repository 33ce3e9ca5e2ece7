package fields

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// maxPlans bounds what every number by plan, and every limit with one, costs.
const maxPlans = 100

// planList reads the plans of the file.
func (p *parser) planList(file *spec.File, e entry) bool {
	before := len(p.found)
	switch {
	case e.value.Kind != yaml.SequenceNode:
		p.wrongType(e, "a list of names", "write plans: [free, pro]")
	case len(e.value.Content) == 0:
		p.report(e.at, rules.BadPlan, "name at least one, or leave plans out", "plans must not be empty")
	case len(e.value.Content) > maxPlans:
		p.report(e.at, rules.BadPlan, "give customers with numbers of their own overrides", "a file has at most %d plans, not %s", maxPlans, words.Number(int64(len(e.value.Content))))
	default:
		file.Plans = p.readPlans(e.value.Content)
	}
	ok := len(p.found) == before
	if !e.again {
		p.plans, p.plansUnknown = file.Plans, !ok || slices.ContainsFunc(e.value.Content, func(item *yaml.Node) bool { return p.muted[item] })
	}
	return ok
}

func (p *parser) readPlans(items []*yaml.Node) (plans []spec.Plan) {
	names := map[string]diag.Span{}
	for _, item := range items {
		at := p.src.At(item)
		if p.muted[item] || !p.planName(item, at) {
			continue
		}
		plan := spec.Plan{Name: item.Value, GoName: spec.PlanGoName(item.Value), Pos: at.Pos}
		if p.twice(names, plan.Name, at, "the plan ") {
			continue
		}
		p.claim(owner{"the plan " + diag.Quote(plan.Name), at}, "name "+plan.GoName)
		plans = append(plans, plan)
	}
	return plans
}

func (p *parser) planNames() []string { return spec.PlanNames(p.plans) }

// planReader reads a field of a limit that has one value for all plans, a value for each, or the most that callers can give.
type planReader struct {
	*parser
	of *draft
	// read reads a single value.
	read reader[draft]
}

// byPlan returns the reader of such a field.
func byPlan(read reader[draft]) reader[draft] {
	return func(p *parser, limit *draft, e entry) bool {
		r := planReader{p, limit, read}
		switch {
		case isAtMost(e.value):
			return r.fromCallers(e)
		case e.value.Kind == yaml.MappingNode:
			return r.each(e)
		case e.name == "rate" && isWord(e.value, unlimited):
			p.report(e.at, rules.UnlimitedPlan, "leave the limit out, or let the rate depend on the plan: rate: {free: 10, pro: unlimited}",
				"a limit that is unlimited for all plans has no effect")
			return false
		}
		return read(p, limit, e)
	}
}

// each keeps a map of plans, and reports those that the file lacks and the values that the field does not accept. It only checks
// the values: settlePlans reads them again, into the limit of each plan.
func (r planReader) each(e entry) bool {
	before := len(r.found)
	entries, _ := r.entries(e.value, e.at, e.name, "")
	hasPlan := slices.ContainsFunc(entries, func(e entry) bool { return slices.Contains(r.planNames(), e.name) })
	if i := slices.IndexFunc(entries, func(e entry) bool { return meantAtMost(e.name) != "" }); i >= 0 && !hasPlan && !r.plansUnknown {
		r.report(entries[i].named, rules.BadNumbers, atMostHelp(e.name), "a number that callers give is written with the words %q", atMost)
		r.meant(atMost)
		return false
	}
	if !e.again {
		r.of.keepMap(e, entries)
	}
	if len(r.plans) == 0 && !r.plansUnknown {
		r.report(e.at, rules.NoPlans, r.noPlansHelp(e.name, entries), "%s is a map of plans, but the file has no plans", e.name)
		return false
	}
	legible := true
	for _, value := range entries {
		if !r.plansUnknown && !slices.Contains(r.planNames(), value.name) {
			r.report(value.named, rules.UnknownPlan, "the plans are "+words.List(r.planNames(), "and"), "%s has the unknown plan %s", e.name, diag.Quote(value.name))
			r.meant(cmp.Or(meantAtMost(value.name), r.nearest(value.name, r.planNames)))
		}
		r.onePlan(e.name, value)
		legible = legible && !r.muted[value.value]
	}
	return len(r.found) == before && legible
}

// onePlan checks the value of one plan.
func (r planReader) onePlan(field string, e entry) {
	defer r.enter("plan " + diag.Label(e.name))()
	e.name = field
	switch isUnlimited := isWord(e.value, unlimited); {
	case r.muted[e.value]:
	case isAtMost(e.value):
		r.report(e.at, rules.BadNumbers, atMostHelp(field), "a number that callers give is the same for all plans, or the plans have numbers of their own")
	case field == "rate" && isUnlimited:
	case field == "rate" && r.meantInstead(e, unlimited, unlimitedSynonyms):
	case isUnlimited && field == "capacity" && r.of.gaveHold:
		r.report(e.at, rules.UnlimitedPlan, "give the plan a number, at most "+words.Number(runtime.MaxSlots), "slots cannot be %s, because their holders are in one row", unlimited)
	case isUnlimited && field != "maxReserved": // which has a word of its own
		r.report(e.at, rules.UnlimitedPlan, "write unlimited as the rate of the plan, and leave the plan out here", "only a rate can be %s, not %s", unlimited, field)
	default:
		r.read(r.parser, new(draft), e)
	}
}

func (r planReader) noPlansHelp(field string, entries []entry) string {
	var names []string
	for _, e := range entries {
		if slices.Contains(r.limitFields, e.name) {
			return e.name + " is a field of the limit: write it beside " + field
		}
		if !planForm.MatchString(e.name) {
			return "add plans: [free, pro] at the top of the file"
		}
		names = append(names, e.name)
	}
	return "add plans: [" + strings.Join(names, ", ") + "] at the top of the file"
}

// atMost is the only name in the map of a number that callers give: rate: {at most: 10_000}. No plan can have it.
const atMost = "at most"

// isAtMost reports whether a value is the map of a number that callers give.
func isAtMost(value *yaml.Node) bool {
	if value.Kind == yaml.MappingNode {
		for i := 0; i < len(value.Content); i += 2 {
			if isWord(value.Content[i], atMost) {
				return true
			}
		}
	}
	return false
}

// meantAtMost returns "at most" for a name that means it, and otherwise "".
func meantAtMost(name string) string {
	switch strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(name)) {
	case "atmost", "most", "max", "maximum", "upto", "limit":
		return atMost
	}
	return ""
}

func atMostHelp(field string) string { return "write " + field + ": {" + atMost + ": 10_000}" }

// mostOf returns where a policy has the number of a field, and the most that callers can give.
func (p *unchecked) mostOf(field string) (number, most *int64) {
	switch field {
	case "rate":
		return &p.Rate, &p.AtMost.Rate
	case "capacity":
		return &p.Capacity, &p.AtMost.Capacity
	case "maxReserved":
		return &p.MaxReserved, &p.AtMost.MaxReserved
	}
	return nil, nil
}

// fromCallers reads the most of a number that callers give.
func (r planReader) fromCallers(e entry) bool {
	number, most := r.of.policy.mostOf(e.name)
	if number == nil {
		r.report(e.at, rules.BadNumbers, "give one "+e.name+", or one for each plan", "callers cannot give the %s", e.name)
		return false
	}
	before := len(r.found)
	entries, _ := r.entries(e.value, e.at, e.name, "")
	for _, of := range entries {
		switch {
		case of.name != atMost:
			r.report(of.named, rules.BadNumbers, atMostHelp(e.name), "%s is either by plan or from callers: beside %q, it has nothing else", e.name, atMost)
		case of.again || r.muted[of.value]:
		case isWord(of.value, unlimited) || isWord(of.value, unboundedWord):
			r.report(of.at, rules.BadNumbers, atMostHelp(e.name), "the most that callers can give is a number, not %s", of.value.Value)
		default:
			of.name = e.name
			if r.read(r.parser, r.of, of) && *number == 0 {
				r.report(of.at, rules.BadNumbers, "leave "+e.name+" out, or write "+e.name+": 0", "callers can give a number only if it can be 1 or more")
			}
		}
	}
	*most = *number
	return len(r.found) == before
}

// settlePlans is settle for the limit of each plan, if the limit depends on the plan.
func (s settler) settlePlans() {
	if len(s.of.maps) == 0 {
		s.settle()
		return
	}
	if len(s.plans) == 0 || s.plansUnknown || !s.onlyMaps().fitsKind() || !s.namesEveryPlan() {
		return
	}
	before := len(s.found)
	for _, plan := range s.plans {
		s.of.plans = append(s.of.plans, s.draftOf(plan.Name))
	}
	s.dropRepeated(before)
	limited := slices.IndexFunc(s.of.plans, func(of *draft) bool { return !of.unlimited() })
	if limited < 0 {
		s.report(s.of.maps["rate"].named, rules.UnlimitedPlan, "leave the limit out, or give one of the plans a number", "a limit that is unlimited for all plans has no effect")
		return
	}
	s.of.policy = s.of.plans[limited].policy
	if s.of.policy.Mode == runtime.ModeBlock {
		// Blocking is for all plans. The numbers have no effect, but a policy needs some.
		for _, of := range s.of.plans {
			if of.said.UnlimitedRate {
				of.policy = s.of.policy
			}
		}
	}
}

// onlyMaps returns the settler for the given fields that are maps of plans.
func (s settler) onlyMaps() settler {
	s.given = maps.Clone(s.given)
	maps.DeleteFunc(s.given, func(name string, _ entry) bool { return s.of.maps[name].value == nil })
	return s
}

// namesEveryPlan reports the maps that lack a plan, and those that have an unlimited one.
func (s settler) namesEveryPlan() bool {
	before := len(s.found)
	for _, f := range limitFields {
		e, ok := s.of.maps[f.name]
		if !ok {
			continue
		}
		var missing []string
		for _, plan := range s.planNames() {
			value, given := e.plans[plan]
			rate := s.of.maps["rate"].plans[plan]
			free := f.name != "rate" && rate.value != nil && isWord(rate.value, unlimited)
			switch {
			case given && free:
				s.report(value.named, rules.UnlimitedPlan, "leave "+plan+" out here", "the plan %s is unlimited, so it has no %s", diag.Quote(plan), f.name)
				s.note(rate.at, "its rate is given here")
			case !given && !free && !s.misspelled(e, plan):
				missing = append(missing, plan)
			}
		}
		if len(missing) > 0 {
			s.report(e.named, rules.MissingPlan, "give a value for every plan, or one value for all of them", "%s lacks %s", f.name, plansInWords(missing))
		}
	}
	return len(s.found) == before
}

func plansInWords(plans []string) string {
	if len(plans) == 1 {
		return "the plan " + plans[0]
	}
	return "the plans " + words.List(plans, "and")
}

// misspelled reports whether a map has a plan that the file lacks, and that probably means this one.
func (s settler) misspelled(e entry, plan string) bool {
	for name := range e.plans {
		if !slices.Contains(s.planNames(), name) && diag.Nearest(name, s.planNames()) == plan {
			return true
		}
	}
	return false
}

// draftOf returns the limit of one plan: with the plan's values in place of the maps, which name every plan.
func (s settler) draftOf(plan string) *draft {
	of := *s.of
	of.plans, of.said.Plan, of.said.Given = nil, plan, map[string]diag.Pos{}
	own := map[string]entry{}
	for _, f := range limitFields {
		e, ok := s.given[f.name]
		if !ok {
			continue
		}
		if byPlan, isMap := s.of.maps[f.name]; isMap {
			if e, ok = byPlan.plans[plan]; !ok {
				continue // an unlimited plan is left out
			}
			if f.name == "rate" && isWord(e.value, unlimited) {
				of.said.UnlimitedRate = true
			} else {
				f.read(s.parser, &of, e)
			}
		}
		own[f.name], of.said.Given[f.name] = e, e.at.Pos
	}
	if of.said.UnlimitedRate {
		// Nothing of the rule applies, and so no number that is the same for the other plans. But their rows have its shards.
		of.policy = unchecked{Name: of.policy.Name, Kind: of.policy.Kind, Precise: of.policy.Precise, Shards: of.policy.Shards, AtMost: of.policy.AtMost, Mode: runtime.ModeUnlimited}
		return &of
	}
	settler{s.parser, &of, own, s.clean}.settle()
	return &of
}

// dropRepeated drops the diagnostics after the first n that several plans have in common.
func (s settler) dropRepeated(n int) {
	kept := s.found[:n]
	for _, d := range s.found[n:] {
		if !slices.ContainsFunc(kept[n:], func(o diag.Diagnostic) bool { return o.ID == d.ID && o.Pos == d.Pos && o.Message == d.Message }) {
			kept = append(kept, d)
		}
	}
	s.found = kept
}

// sameMethods reports plans of a limit that would need different methods of the generated handle.
func (s settler) sameMethods(limit *spec.Limit) bool {
	var first *spec.Limit
	for _, of := range limit.Plans {
		switch {
		case of.Unlimited():
		case first == nil:
			first = of
		case first.Policy.Reserves() != of.Policy.Reserves():
			s.differ("maxReserved", first.Plan, of.Plan, rules.PlansDiffer, "let maxReserved be 0 for all plans, or for none",
				fmt.Sprintf("one of the plans %s and %s can be reserved and the other cannot, but one method serves both", first.Plan, of.Plan))
			return false
		case (first.Policy.Capacity == 0) != (of.Policy.Capacity == 0):
			s.differ("capacity", first.Plan, of.Plan, rules.PlansDiffer, "let capacity be 0 for all plans, or for none",
				fmt.Sprintf("one of the plans %s and %s can only be reserved and the other cannot, but one method serves both", first.Plan, of.Plan))
			return false
		}
	}
	return true
}

// differ reports a difference between two plans, at the value of a field.
func (s settler) differ(field, one, other string, rule *rules.Rule, help, message string) {
	e, ok := s.given[field]
	if !ok {
		field, e = "rate", s.given["rate"]
	}
	at := e.named
	if value, ok := s.of.maps[field].plans[other]; ok {
		at = value.at
	}
	s.report(at, rule, help, "%s", message)
	if value, ok := s.of.maps[field].plans[one]; ok {
		s.note(value.at, "the value of "+one+" is given here")
	}
}

// carryAlike reports two plans of a fixed window of which the one that allows more tokens at once can also start a window
// with more of them missing. A window that ends on the other plan forgets the difference, so that changing to it and
// back would grant tokens again.
func (s settler) carryAlike(limit *spec.Limit) bool {
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
			s.carriesMore(limit, small, large)
			return false
		}
	}
	return true
}

func (s settler) carriesMore(limit, small, large *spec.Limit) {
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
	if _, ok := s.of.maps["maxReserved"]; ok {
		field = "maxReserved"
	}
	s.differ(field, small.Plan, large.Plan, rules.PlanCarry, help, again+why)
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
