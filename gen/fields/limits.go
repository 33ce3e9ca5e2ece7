package fields

import (
	"fmt"
	"maps"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// settle fills in the defaults and reports fields that contradict each other.
func (s settler) settle() {
	policy := &s.of.policy
	// With fields of another kind, the kind itself may be the error, and the checks below would be misleading.
	if _, ok := s.given["kind"]; ok && !s.fitsKind() {
		return
	}
	if policy.Kind == runtime.InFlight {
		return
	}
	s.settleCalendar()
	if capacity, ok := s.given["capacity"]; !ok {
		policy.Capacity, policy.AtMost.Capacity = policy.Rate, policy.AtMost.Rate
	} else if policy.Capacity == 0 {
		s.canReserve(capacity)
	}
	if precise, ok := s.given["precise"]; ok && policy.Precise {
		s.refuse(rules.BadPrecise, preciseRefusals, precise)
	}
	s.penaltyFits()
	if lease, ok := s.given["lease"]; ok && policy.AtMost != (runtime.Numbers{}) {
		s.report(lease.at, rules.BadNumbers, "leave lease out, or give the limit numbers of its own",
			"a limit with numbers from callers has no lease: a block taken by the numbers of one request would be spent by those of another")
	}
	s.leaseFits()
	s.forgetsNothing()
	s.enoughForShards()
}

// canReserve reports a limit with capacity 0 that cannot be reserved either, or has fields for other requests.
func (s settler) canReserve(capacity entry) {
	policy := &s.of.policy
	switch reserved, reserves := s.given["maxReserved"]; {
	case policy.MaxReserved > 0:
	case reserves:
		s.report(capacity.at, rules.NothingPasses, "raise one of them", "with capacity 0 and maxReserved 0 no request can ever be allowed")
		s.note(reserved.at, "maxReserved is given here")
	case s.clean: // otherwise, maxReserved may be the field with an error
		s.report(capacity.at, rules.NothingPasses, "add maxReserved: "+unboundedWord+", or a number, or raise capacity",
			"with capacity 0 and without maxReserved no request can ever be allowed")
	}
	if cache, ok := s.given["denyCache"]; ok {
		s.report(cache.at, rules.NothingCached, "leave denyCache out", "denyCache has no effect with capacity 0: every request reserves, and denied reservations are not cached")
		s.note(capacity.at, "capacity is given here")
	}
}

// enoughForShards reports a limit that cannot be split, or into fewer shards only.
func (s settler) enoughForShards() {
	policy := &s.of.policy
	shards, ok := s.given["shards"]
	if !ok {
		return
	}
	if policy.Start.FirstUse() && policy.Shards > 1 {
		s.report(shards.at, rules.TooManyShards, "leave shards out", "windows that start at first use cannot have shards: each shard would start its own window")
		s.note(s.given["start"].at, "start is given here")
		return
	}
	// A capacity or maxReserved of 0 needs no token per shard. Defaults are skipped: the default capacity is the rate.
	least, name := int64(policy.Shards), ""
	for _, part := range []struct {
		name   string
		tokens int64
	}{{"rate", policy.Rate}, {"capacity", policy.Capacity}, {"maxReserved", policy.MaxReserved}} {
		if _, ok := s.given[part.name]; ok && 0 < part.tokens && part.tokens < least {
			least, name = part.tokens, part.name
		}
	}
	if name == "" {
		return
	}
	help := "leave shards out"
	if least > 1 {
		help = "use at most " + words.Number(least) + " shards"
	}
	s.report(shards.at, rules.TooManyShards, help,
		"%s %d split into %d shards leaves some with less than one token", name, least, policy.Shards)
	s.note(s.given[name].at, name+" is given here")
}

// forgetsNothing reports a fixed window that ends with tokens missing, if callers give its capacity or maxReserved: with smaller
// ones it forgets what was used beyond them, so that changing to them and back would grant tokens again.
func (s settler) forgetsNothing() {
	policy := &s.of.policy
	most := policy.AtMost
	if policy.Kind != runtime.FixedWindow || most.Capacity+most.MaxReserved == 0 || policy.Rate == 0 || policy.Capacity+policy.MaxReserved <= policy.Rate {
		return
	}
	at, field := s.given["rate"], "capacity"
	for _, name := range []string{"capacity", "maxReserved"} {
		if e, ok := s.given[name]; ok {
			at, field = e, name
		}
	}
	sum := "capacity " + words.Number(policy.Capacity)
	if policy.MaxReserved == runtime.Unbounded {
		sum += " and unbounded reservations are"
	} else if policy.MaxReserved > 0 {
		sum += " + maxReserved " + words.Number(policy.MaxReserved) + " is"
	} else {
		sum += " is"
	}
	s.report(at.at, rules.BadNumbers, "let "+field+" be small enough, or use a token bucket",
		"%s more than the rate, %s: a window that ends with smaller numbers of its caller would forget what was used beyond them, so that changing to them and back would grant tokens again",
		sum, words.Number(policy.Rate))
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
			case !given && !free && !e.meant[plan] && !e.meant[anyPlan]:
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

// check makes the limit of a draft without diagnostics, and checks what must hold between its plans.
func (s settler) check(e entry) {
	limit := s.limitOf(s.of, e)
	for _, of := range s.of.plans {
		plan := s.limitOf(of, e)
		if limit == nil || plan == nil {
			return
		}
		limit.Plans = append(limit.Plans, plan)
	}
	if limit == nil || !s.sameMethods(limit) || !s.carryAlike(limit) {
		return
	}
	s.of.limit = limit
}

// limitOf returns the limit of a draft, or nil if the runtime would refuse it.
func (s settler) limitOf(d *draft, e entry) *spec.Limit {
	limit, err := spec.NewLimit(runtime.Policy(d.policy), d.said)
	if err != nil {
		// A value that could not be read, or the plans of the file, may have a diagnostic already. The checks of fields and of
		// their combinations have better messages: this is for what they overlook.
		if len(s.found) == 0 {
			s.report(e.named, rules.OutOfRange, "", "%v", err)
		}
		return nil
	}
	return limit
}

// limits reads the map of limits.
func (p *parser) limits(file *spec.File, e entry) bool {
	if e.value.Tag == "!!null" {
		p.report(e.at, rules.NoLimits, limitHelp, "the file has no limits")
		return false
	}
	entries, ok := p.entries(e.value, e.at, "limits", limitHelp)
	if !ok {
		return false
	}
	if len(e.value.Content) == 0 {
		p.report(e.at, rules.NoLimits, limitHelp, "the file has no limits")
	}
	entries = p.withoutFields(entries)
	drafts := make([]*draft, len(entries))
	for i, e := range entries {
		drafts[i] = p.oneLimit(e)
		if drafts[i].limit != nil {
			file.Limits = append(file.Limits, drafts[i].limit)
		}
		if !e.again {
			p.drafts[e.name] = drafts[i]
		}
	}
	for i, e := range entries {
		// A name that is not valid has a diagnostic already.
		if !e.again && spec.LimitNameForm.MatchString(e.name) {
			p.claimLimit(e, drafts[i])
		}
	}
	return true
}

// claimLimit claims the Go names of a limit, of its overrides and of the struct for the numbers of callers.
func (p *parser) claimLimit(e entry, d *draft) {
	name := diag.Quote(e.name)
	p.claim(owner{what: "the limit " + name, at: e.named}, "method "+d.said.GoName)
	for _, method := range OverridesMethods(&d.said) {
		p.claim(owner{what: "the overrides of " + name, at: e.named}, "method "+method)
	}
	if d.limit == nil || len(d.limit.CallerNumbers()) == 0 {
		return
	}
	// The only name of generated code that ends as the names of these types do.
	if own := "ErrInvalidNumbers"; d.limit.NumbersType() == own {
		p.report(e.named, rules.SameGoName, "choose another name with goName:", "an error of the generated code and the numbers of %s both have the Go name %s", name, own)
	} else {
		p.claim(owner{what: "the numbers of " + name, at: e.named}, "name "+d.limit.NumbersType())
	}
}

const limitHelp = "write a limit as sendMessage: {kind: token bucket, rate: 10, period: 1m}"

// withoutFields returns the limits without entries that are fields of the limit above, which should be indented. It
// reports them once for each limit.
func (p *parser) withoutFields(entries []entry) []entry {
	var limits []entry
	reported := false
	for i, e := range entries {
		isField := e.value.Kind == yaml.ScalarNode && slices.Contains(names(limitFields), e.name)
		empty := i > 0 && entries[i-1].value.Tag == "!!null"
		switch {
		case isField && reported:
		case isField && empty:
			p.report(e.named, rules.NotIndented, "indent it below "+diag.Label(entries[i-1].name), "%s is a field of a limit, not a limit", e.name)
			// Without its fields the limit above is empty, which would be reported again.
			limits, reported = limits[:len(limits)-1], true
		default:
			limits, reported = append(limits, e), false
		}
	}
	return limits
}

// oneLimit reads one limit.
func (p *parser) oneLimit(e entry) *draft {
	limit := &draft{policy: unchecked{Name: e.name}, said: spec.Limit{GoName: spec.GoName(e.name), Pos: e.named.Pos, Given: map[string]diag.Pos{}}}
	atFirst := len(p.found)
	// The first entry of that name has been checked.
	if !e.again {
		p.limitName(e, "limit")
	}
	defer p.enter(diag.Label(e.name))()
	entries, ok := p.entries(e.value, e.at, "a limit", limitHelp)
	if !ok {
		return limit
	}
	before := len(p.found)
	limit.written = writtenIn(entries)
	limit.gaveHold = slices.ContainsFunc(entries, func(e entry) bool { return e.name == "hold" })
	limit.gaveZone = slices.ContainsFunc(entries, func(e entry) bool { return e.name == "zone" })
	given := readFields(p, limitFields, limit, entries, e.named, p.complete(e.value))
	for name, e := range given {
		limit.said.Given[name] = e.at.Pos
	}
	// A goName has been checked by its reader, and replaces the name derived from the limit's.
	if _, renamed := given["goName"]; !renamed && !e.again {
		p.reservedGoName(e.named, limit.said.GoName)
	}
	s := settler{p, limit, given, len(p.found) == before}
	s.settlePlans()
	if len(p.found) == before {
		s.settleOverrides()
	}
	if len(p.found) == atFirst {
		s.check(e)
	}
	return limit
}

func limitSchema() object {
	schema := mapSchema(limitFields)
	var conditions []any
	for _, kind := range runtime.Kinds() {
		conditions = append(conditions, needed(kind))
		for _, r := range algorithmOf(kind).refusals {
			conditions = append(conditions, r.condition("kind", object{"const": kind.String()}))
		}
	}
	conditions = append(conditions, ifCalendar()...)
	for _, r := range preciseRefusals {
		conditions = append(conditions, r.condition("precise", object{"const": true}))
	}
	for _, r := range penaltyRefusals {
		conditions = append(conditions, r.condition("penalty", object{"not": object{"enum": []any{penaltyOff, false}}}))
	}
	conditions = append(conditions, object{"if": having("forgive", object{}), "then": having("penalty", object{
		"type": []string{"array", "object"}, "minItems": 2, "errorMessage": "Give a list of penalties with forgive."})})
	schema["allOf"] = conditions
	return schema
}

func limitsSchema() object {
	schema := namedSchema("limit")
	schema["minProperties"] = 1
	schema["defaultSnippets"] = []any{object{
		"label": "limit",
		"body":  object{"${1:name}": object{"kind": "${2:token bucket}", "rate": "^${3:10}", "period": "${4:1m}"}},
	}}
	return schema
}
