package fields

import (
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// draft is a limit while it is read: values may be missing, or contradict each other. [settler.check] makes the Limit.
type draft struct {
	policy unchecked
	plans  []*draft
	// maps are the fields with a map of plans.
	maps map[string]entry
	// limit is the result; nil until the draft is checked, and if it has a diagnostic.
	limit *spec.Limit

	// calendarStart is the start in the words of a calendar, and gaveZone and gaveHold are set if the limit has a zone or a hold,
	// valid or not.
	calendarStart      calendarStart
	gaveZone, gaveHold bool
	// writtenPeriod is the text of the period, or "". impliesPeriod is set if the rate is "10 per minute" or the like: its
	// diagnostic covers the missing period.
	writtenPeriod string
	impliesPeriod bool

	// said is what the file says of the limit, without a policy.
	said spec.Limit
}

// unchecked is a policy whose numbers may be missing. It lacks the methods of [runtime.Policy], such as Rule, which are
// for valid policies only.
type unchecked runtime.Policy

// unlimited is [spec.Limit.Unlimited].
func (d *draft) unlimited() bool { return d.policy.Mode == runtime.ModeUnlimited }

// each is [spec.Limit.Each].
func (d *draft) each() []*draft {
	if len(d.plans) == 0 {
		return []*draft{d}
	}
	return d.plans
}

// keepMap keeps the entries of a field with a map of plans.
func (d *draft) keepMap(e entry, entries []entry) {
	e.plans = map[string]entry{}
	for _, of := range entries {
		if plan := of.name; !of.again {
			of.name = e.name
			e.plans[plan] = of
		}
	}
	if d.maps == nil {
		d.maps = map[string]entry{}
	}
	d.maps[e.name] = e
}

// settler completes a limit, and checks what must hold between its fields. It skips invalid fields: given has only the valid
// ones, and clean means that all are.
type settler struct {
	*parser
	of    *draft
	given map[string]entry
	clean bool
}

// settle fills in the defaults and reports fields that contradict each other.
func (s settler) settle() {
	policy := &s.of.policy
	// With fields of another kind, the kind itself may be the error, and the checks below would be misleading.
	if _, ok := s.given["kind"]; ok && !s.fitsKind() {
		return
	}
	if policy.Kind == runtime.InFlight {
		policy.Rate, policy.AtMost.Rate = policy.Capacity, policy.AtMost.Capacity
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
	p.claim(owner{"the limit " + name, e.named}, "method "+d.said.GoName)
	for _, method := range OverridesMethods(&d.said) {
		p.claim(owner{"the overrides of " + name, e.named}, "method "+method)
	}
	if d.limit != nil && len(d.limit.CallerNumbers()) > 0 {
		p.claim(owner{"the numbers of " + name, e.named}, "name "+d.limit.NumbersType())
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
	limit.writtenPeriod = periodText(entries)
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

// rate reads a rate, which people also write as "10 per minute".
func (p *parser) rate(limit *draft, e entry) bool {
	help, implies := rateHelp(e.value.Value, limit.writtenPeriod)
	n, ok := p.number(e, 1, runtime.MaxTokens, help)
	limit.policy.Rate = n
	// The remedy contains the period, so that it need not be reported as missing.
	limit.impliesPeriod = limit.impliesPeriod || !ok && implies
	return ok
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
		conditions = append(conditions, r.condition("penalty", object{"not": object{"const": penaltyOff}}))
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
