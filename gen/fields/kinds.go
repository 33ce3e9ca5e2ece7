package fields

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// leaseFields are the fields of the lease of a limit.
var leaseFields = []field[runtime.Lease, runtime.Lease]{
	{
		name: "tokens", required: true, synonyms: []string{"size", "count", "amount"},
		about:     "How many tokens a block has: ideally as many as one process uses of one key within `for`. Requests for more reach the store.",
		accepts:   "a whole number of tokens, 1 to `capacity`",
		example:   "10",
		schema:    numberSchema(1, runtime.MaxTokens),
		read:      readNumber(1, runtime.MaxTokens, func(l *runtime.Lease) *int64 { return &l.Tokens }),
		effective: func(l *runtime.Lease) string { return numberUnlessZero(l.Tokens) },
	},
	{
		name: "for", required: true, synonyms: []string{"ttl", "duration", "time"},
		about:     "How long a block may be spent. Tokens left after that are given back; for a token bucket, less the tokens that have accrued since.",
		accepts:   "a duration, as for `period`",
		example:   "200ms",
		schema:    durationSchema,
		read:      readDuration(func(l *runtime.Lease) *time.Duration { return &l.For }),
		effective: func(l *runtime.Lease) string { return unlessZero(l.For) },
	},
}

const leaseHelp = "write lease: {tokens: 10, for: 200ms}"

func (p *parser) lease(limit *draft, e entry) bool {
	return readMap(p, leaseFields, &limit.policy.Lease, e, leaseHelp)
}

// leaseFits reports a lease that contradicts other fields.
func (s settler) leaseFits() {
	policy := &s.of.policy
	lease, ok := s.given["lease"]
	if !ok {
		return
	}
	if policy.Start.FirstUse() {
		s.report(lease.at, rules.BadLease, "leave lease out, or give an instant or an offset",
			"windows that start at first use have no lease, because a process cannot compute when they end")
		s.note(s.given["start"].at, "start is given here")
		return
	}
	most, note := s.given["capacity"], "capacity is given here"
	if most.value == nil {
		most, note = s.given["rate"], "the capacity is the rate, given here"
	}
	// If neither could be read, the capacity is not known.
	if most.value == nil || policy.Lease.Tokens <= policy.Capacity {
		return
	}
	help := "leave lease out"
	if policy.Capacity > 0 {
		help = "use at most " + words.Number(policy.Capacity)
	}
	s.report(s.part(lease, "tokens").at, rules.BadLease, help,
		"tokens %s is more than the capacity, %s, so no block could ever be taken", words.Number(policy.Lease.Tokens), words.Number(policy.Capacity))
	s.note(most.at, note)
}

// penaltyOffSynonyms are words for it in other limiters.
var penaltyOffSynonyms = []string{"none", "no", "never", "disabled", "false"}

const penaltyHelp = "write a duration such as penalty: 15m, or a list such as penalty: [1m, 10m, 1h]"

// penalty reads how long penalties last.
func (p *parser) penalty(limit *draft, e entry) bool {
	switch {
	case isWord(e.value, penaltyOff):
		return true
	case e.value.Kind != yaml.SequenceNode && slices.Contains(penaltyOffSynonyms, e.value.Value):
		p.report(e.at, rules.BadPenalty, "leave penalty out, or write "+penaltyOff, "penalty must be a duration or a list of them, not %s", describe(e.value))
		p.meant(penaltyOff)
		return false
	case e.value.Kind != yaml.SequenceNode:
		length, ok := p.length(e)
		limit.policy.Penalty.Steps = [runtime.MaxPenaltySteps]time.Duration{length}
		return ok
	case len(e.value.Content) == 0:
		p.report(e.at, rules.BadPenalty, penaltyHelp, "penalty must not be empty")
		return false
	case len(e.value.Content) > runtime.MaxPenaltySteps:
		p.report(e.at, rules.BadPenalty, "the last one is repeated: leave some out", "penalty has at most %d steps, not %d", runtime.MaxPenaltySteps, len(e.value.Content))
		return false
	}
	all := true
	var steps [runtime.MaxPenaltySteps]time.Duration
	for i, item := range e.value.Content {
		if p.muted[item] {
			all = false
			continue
		}
		length, ok := p.length(entry{name: "penalty", value: item, named: e.named, at: p.src.At(item)})
		steps[i], all = length, all && ok
	}
	limit.policy.Penalty.Steps = steps
	return all
}

// penaltyFits reports a penalty that contradicts other fields.
func (s settler) penaltyFits() {
	policy := &s.of.policy
	penalty, ok := s.given["penalty"]
	if forgive, given := s.given["forgive"]; given && policy.Penalty.Steps[1] == 0 {
		_, byPlan := s.of.maps["penalty"]
		switch {
		case byPlan: // it is for the plans with several
		case policy.Penalty.Steps[0] != 0:
			s.report(forgive.at, rules.BadPenalty, "leave forgive out, or give a list such as penalty: [1m, 10m, 1h]", "forgive has no effect on a single penalty, which is always the same")
		case !ok || isWord(penalty.value, penaltyOff):
			s.report(forgive.at, rules.BadPenalty, "leave forgive out, or give a penalty", "forgive has no effect without a penalty")
		}
		policy.Penalty.Forgive = 0
	}
	if ok && policy.Penalty.Steps[0] != 0 {
		s.refuse(rules.BadPenalty, penaltyRefusals, penalty)
	}
}

// precise reads true or false.
func (p *parser) precise(limit *draft, e entry) bool {
	// YAML 1.1 has more words for them, which people and YAML 1.2 read as text.
	if text := e.value.Value; e.value.Tag == "!!bool" && (text == "true" || text == "false") {
		limit.policy.Precise = text == "true"
		return true
	}
	p.report(e.at, rules.BadPrecise, "", "%s must be true or false, not %s", e.name, describe(e.value))
	p.meant(meantBoolean[e.value.Value])
	return false
}

// meantBoolean are the other words for true and false in YAML 1.1 and elsewhere.
var meantBoolean = map[string]string{
	"true": "true", "false": "false", // in quotes
	"True": "true", "TRUE": "true", "yes": "true", "Yes": "true", "on": "true", "On": "true", "1": "true",
	"False": "false", "FALSE": "false", "no": "false", "No": "false", "off": "false", "Off": "false", "0": "false",
}

// penaltyRefusals are the fields that a limit with a penalty does not have.
var penaltyRefusals = []refusal{
	{field: "shards", message: "a limit with a penalty cannot have shards", why: ": a key that is denied is only read, so that its row is not written often"},
	{field: "lease", message: "a limit with a penalty has no lease", why: ": a process would spend its tokens while another one denies the key"},
	{field: "maxReserved", message: "a limit with a penalty has no reservations", why: ": whoever reserves waits for tokens, and is not denied"},
}

// preciseRefusals are the fields that a precise limit does not have.
var preciseRefusals = []refusal{
	noStart("a precise limit", ""),
	{field: "shards", message: "a precise limit cannot have shards", why: ", which each would have a log of their own"},
	{field: "lease", message: "a precise limit has no lease", why: ", because leased tokens are used later than they are counted"},
}

// algorithm is everything in this package that depends on the kind of a limit.
type algorithm struct {
	// rule describes the rate and the capacity in words.
	rule func(p *runtime.Policy) string
	// grants describes how the kind grants tokens, after "How tokens are granted:".
	grants string
	// lease describes the bound that holds in spite of a lease.
	lease func(p *runtime.Policy) string
	// refusals are the fields that the kind does not have.
	refusals []refusal
}

// kindNeeds reports whether the kind of a limit needs a field. A limit without a valid kind is taken for one that grants
// tokens, as most are, unless it has a hold.
func kindNeeds(field string) func(l *draft) bool {
	return func(l *draft) bool {
		kind := l.policy.Kind
		switch {
		case kind.Known():
		case l.gaveHold:
			kind = runtime.InFlight
		default:
			kind = runtime.TokenBucket
		}
		return slices.Contains(needsOf[kind], field)
	}
}

// needsOf has the fields that each kind needs. It is no part of algorithms, which refer to the table of fields.
var needsOf = map[runtime.Kind][]string{
	runtime.TokenBucket:   {"rate", "period"},
	runtime.FixedWindow:   {"rate", "period"},
	runtime.SlidingWindow: {"rate", "period"},
	runtime.InFlight:      {"capacity", "hold"},
}

// needed is a JSON Schema: limits of a kind have the fields that it needs.
func needed(kind runtime.Kind) object {
	return object{"if": having("kind", object{"const": kind.String()}), "then": object{"type": "object", "required": needsOf[kind]}}
}

// exceptInFlight is what holds without a field that all other kinds need.
const exceptInFlight = "none; required, but for `in flight`"

// refusal is a field, or some of its values, that limits of a kind, or precise limits, do not have.
type refusal struct {
	field string
	// message is what the limit does not have, and why is the rest of the diagnostic.
	message, why string
	// help is the remedy; "" to leave the field out.
	help string
	// applies selects the refused values, and schema is the schema of the others, with its own hint. Both are nil if only the value
	// in [withoutEffect] is allowed, or none.
	applies func(p *unchecked) bool
	schema  object
	// byPlan refuses only a map with a value for each plan.
	byPlan bool
}

// withoutEffect has the value with which a field is as if it were left out.
var withoutEffect = map[string]any{"shards": 1, "maxReserved": 0, "precise": false}

// hasEffect reports whether a field of withoutEffect has another value.
func (p *unchecked) hasEffect(field string) bool {
	switch field {
	case "shards":
		return p.Shards > 1
	case "maxReserved":
		return p.MaxReserved != 0
	}
	return p.Precise
}

// refuses reports whether the refusal applies to a value of its field.
func (r *refusal) refuses(policy *unchecked, value *yaml.Node) bool {
	_, some := withoutEffect[r.field]
	switch isMap := value.Kind == yaml.MappingNode; {
	case r.byPlan:
		return isMap
	case isMap && !isAtMost(value):
		return !some && r.applies == nil // its values are refused for each plan
	case r.applies != nil:
		return r.applies(policy)
	}
	return !some || policy.hasEffect(r.field)
}

// condition is a JSON Schema: in limits where a field has the schema value, the refused field has the schema of the refusal.
func (r *refusal) condition(field string, value object) object {
	then := object{"type": "object"}
	hint := spec.Capital(r.message) + "."
	if r.help != "" {
		hint += " " + spec.Capital(r.help) + "."
	}
	only, some := withoutEffect[r.field]
	switch {
	case r.schema != nil:
		then["properties"] = object{r.field: r.schema}
	case some:
		then["properties"] = object{r.field: object{"const": only, "errorMessage": hint}}
	default:
		then["properties"], then["errorMessage"] = object{r.field: false}, hint
	}
	return object{"if": having(field, value), "then": then}
}

// fitsKind reports the fields that the limit's kind does not have.
func (s settler) fitsKind() bool {
	return s.refuse(rules.NotForKind, algorithms[s.of.policy.Kind].refusals, entry{})
}

// refuse reports the given fields that are refused because of another one, which is the zero entry if it is not pointed at. It
// returns whether there are none.
func (s settler) refuse(broken *rules.Rule, refusals []refusal, because entry) bool {
	before := len(s.found)
	for _, r := range refusals {
		e, ok := s.given[r.field]
		if !ok || !r.refuses(&s.of.policy, e.value) {
			continue
		}
		help := cmp.Or(r.help, "leave "+r.field+" out")
		if c := s.of.policy.Calendar; c.Unit != 0 {
			help = strings.Replace(help, aFixedLength, fixedLength(c), 1)
		}
		s.report(e.at, broken, help, "%s", r.message+r.why)
		s.note(because.at, because.name+" is given here")
	}
	return len(s.found) == before
}

// onePeriod is a refusal of kinds with windows: their rows have the start of a window, which must mean the same to all plans.
var onePeriod = refusal{
	field: "period", byPlan: true,
	message: "windows have the same period for all plans", help: "give one period, use a token bucket, or write a limit for each period, with the rate unlimited for the other plans",
	schema: object{"type": "string", "errorMessage": "Windows have the same period for all plans."},
}

// algorithms has an entry for each of [runtime.Kinds].
var algorithms = map[runtime.Kind]algorithm{
	runtime.TokenBucket: {
		grants: "continuously",
		rule: func(p *runtime.Policy) string {
			if p.Capacity == 0 {
				return perPeriod(p) + ", by reservation only"
			}
			return perPeriod(p) + ", at most " + words.Number(p.Capacity) + " at once"
		},
		lease: bucketLeaseWords,
		refusals: append([]refusal{
			noStart("a token bucket", "leave start out, or use a fixed window"), noHold,
			notPrecise("token bucket", "leave precise out: a token bucket is exact, and never grants more than capacity and rate together in any period"),
		}, calendarRefusals("a token bucket")...),
	},
	runtime.FixedWindow: {
		grants: "all at the start of each period",
		rule: func(p *runtime.Policy) string {
			switch {
			case p.Capacity == 0:
				return perPeriod(p) + ", by reservation only"
			case p.Capacity > p.Rate:
				return perPeriod(p) + ", and unused tokens accumulate up to " + words.Number(p.Capacity)
			case p.Capacity < p.Rate:
				return perPeriod(p) + ", at most " + words.Number(p.Capacity) + " at once"
			}
			return perPeriod(p)
		},
		lease:    windowLeaseWords,
		refusals: []refusal{onePeriod, noHold, notPrecise("fixed window", "leave precise out, or use a sliding window")},
	},
	runtime.SlidingWindow: {
		grants: "so that about `rate` fit into any period",
		rule: func(p *runtime.Policy) string {
			if p.Precise {
				return fmt.Sprintf("never more than %s in any %s", words.Number(p.Rate), words.Period(p.Period))
			}
			return fmt.Sprintf("about %s in any %s", words.Number(p.Rate), words.Period(p.Period))
		},
		lease: windowLeaseWords,
		refusals: append([]refusal{
			{
				field: "capacity", message: "a sliding window has no capacity of its own", help: "leave capacity out: it is the rate",
			},
			{field: "maxReserved", message: "a sliding window has no reservations", help: "leave maxReserved out, or use a token bucket"},
			{
				field: "start", applies: func(p *unchecked) bool { return p.Start.FirstUse() },
				message: "a sliding window cannot start at first use", help: "give an instant or an offset, or leave start out",
				schema: object{"not": object{"const": firstUse}},
			},
			onePeriod,
			noHold,
		}, calendarRefusals("a sliding window")...),
	},
	runtime.InFlight: {
		grants: "not at all: `capacity` slots are held until they are released",
		rule: func(p *runtime.Policy) string {
			return "at most " + words.Number(p.Slots) + " at once"
		},
		refusals: []refusal{
			{
				field: "capacity", applies: func(p *unchecked) bool { return p.Slots < 1 || p.Slots > runtime.MaxSlots },
				message: "a limit in flight has 1 to " + words.Number(runtime.MaxSlots) + " slots, whose holders are in one row",
				help:    "give a capacity in that range, or bound the starts per period with another kind",
				schema:  orByPlan(numberSchema(1, runtime.MaxSlots), false),
			},
			{
				field: "rate", message: "a limit in flight has no rate", why: ": slots are held and given back, and not granted",
				help: "leave rate out: capacity is how many can be held at once",
			},
			{
				field: "period", message: "a limit in flight has no period", why: ": a slot is held until it is released",
				help: "leave period out: hold is how long a slot lasts that is neither renewed nor released",
			},
			{field: "zone", message: "a limit in flight has no zone"},
			{
				field: "maxReserved", message: "a limit in flight has no reservations", why: ", because nobody knows when a slot is released",
				help: "leave maxReserved out: WaitAcquire waits until a slot is free",
			},
			noStart("a limit in flight", ""),
			notPrecise("limit in flight", "leave precise out: a limit in flight is exact"),
			{
				field: "shards", message: "a limit in flight cannot have shards", why: ": the holders of a key are in one row",
				help: "leave shards out, or add a part to the key",
			},
			{field: "lease", message: "a limit in flight has no lease", why: ": a slot is held by what runs, not by a process in advance"},
		},
	},
}

// noHold refuses a hold for kinds that grant tokens.
var noHold = refusal{
	field: "hold", message: "only a limit in flight has a hold", why: ": tokens are used, and not given back",
	help: "leave hold out, or write kind: in flight, without rate and period",
}

// noStart refuses a start for limits without aligned windows.
func noStart(limit, help string) refusal {
	return refusal{field: "start", message: limit + " has no windows to start", help: help}
}

// aFixedLength replaces in a help one that is about as long as the period.
const aFixedLength = "30d"

// calendarRefusals refuse the calendar units of a fixed window.
func calendarRefusals(limit string) []refusal {
	const help = "use a fixed window, or a period of fixed length such as " + aFixedLength
	fixed := limit + " has a period of fixed length"
	return []refusal{
		{
			field: "period", applies: func(p *unchecked) bool { return p.Calendar.Unit != 0 }, message: fixed, help: help,
			schema: object{"not": object{"type": "string", "pattern": calendarForm.String()}, "errorMessage": spec.Capital(fixed) + "."},
		},
		{field: "zone", message: limit + " has no zone", help: help},
	}
}

// algorithmOf returns the entry of a kind. A kind without one must not be described as another one.
func algorithmOf(kind runtime.Kind) algorithm {
	a, ok := algorithms[kind]
	if !ok {
		panic(fmt.Sprintf("fields: %v has no entry in algorithms: add one in gen/fields/kinds.go", kind))
	}
	return a
}

// grantsOfKinds describes how each kind grants tokens.
func grantsOfKinds() string {
	grants := func(kind runtime.Kind) string { return fmt.Sprintf("%s (`%v`)", algorithmOf(kind).grants, kind) }
	return words.List(words.Of(runtime.Kinds(), grants), "or")
}

// kindsAsCode lists the values of the field kind.
func kindsAsCode() string {
	return words.List(words.Of(rules.KindNames(), func(name string) string { return "`" + name + "`" }), "or")
}

// kindSynonyms are words of which only one kind has each.
var kindSynonyms = map[string]runtime.Kind{
	"token": runtime.TokenBucket, "bucket": runtime.TokenBucket, "fixed": runtime.FixedWindow, "sliding": runtime.SlidingWindow,
	"leaky bucket": runtime.TokenBucket, "leakybucket": runtime.TokenBucket, "leaky-bucket": runtime.TokenBucket, "leaky_bucket": runtime.TokenBucket,
	"leaky": runtime.TokenBucket, "gcra": runtime.TokenBucket, "rolling window": runtime.SlidingWindow, "rolling": runtime.SlidingWindow,
	"concurrency limit": runtime.InFlight, "concurrent requests": runtime.InFlight, "max concurrency": runtime.InFlight, "parallel": runtime.InFlight,
	"flight": runtime.InFlight, "inflight": runtime.InFlight, "concurrency": runtime.InFlight, "concurrent": runtime.InFlight, "semaphore": runtime.InFlight,
}

// kindHelps are for kinds of other limiters that are a kind with another field here, by their folded names.
var kindHelps = map[string]string{
	"slidinglog": exactWindow, "slidingwindowlog": exactWindow, "slidinglogs": exactWindow, "log": exactWindow,
	"quota": calendarWindow, "calendar": calendarWindow, "monthlyquota": calendarWindow, "dailyquota": calendarWindow,
}

const (
	exactWindow    = "write kind: sliding window and precise: true"
	calendarWindow = "write kind: fixed window, with period: month or day and zone: UTC for a quota by the calendar"
)

func perPeriod(p *runtime.Policy) string {
	return fmt.Sprintf("%s per %s", words.Number(p.Rate), PeriodOf(p))
}

// bucketLeaseWords is the formula of [bounds.Within] for any time t.
func bucketLeaseWords(p *runtime.Policy) string {
	reserved := ""
	switch {
	case p.MaxReserved == runtime.Unbounded:
		reserved = ", plus reserved tokens"
	case p.Reserves():
		reserved = fmt.Sprintf(", or %s + %s*t/%s if that is more", words.Number(p.Capacity+p.MaxReserved), words.Number(p.Rate), words.Duration(p.Period))
	}
	return fmt.Sprintf("At most %s + %s*(t + %s)/%s can be used in any time t%s.",
		words.Number(p.Capacity), words.Number(p.Rate), words.Duration(p.Lease.For), words.Duration(p.Period), reserved)
}

func windowLeaseWords(*runtime.Policy) string {
	return "A block ends with its window, so no window allows more because of it."
}

// preciseWords says where a period ends, which the rule of the kind leaves open.
func preciseWords(l *spec.Limit) []string {
	if !l.Policy.Precise {
		return nil
	}
	after := fmt.Sprintf("%s after it was taken", words.Duration(l.Policy.Period))
	if l.Policy.Rate > runtime.MaxPreciseRate {
		return []string{"A token is available again " + after + ", or up to a thousandth of that later."}
	}
	return []string{"A token is available again exactly " + after + "."}
}

// notPrecise refuses precise: true for a kind, whose own guarantee is in the help.
func notPrecise(kind, help string) refusal {
	return refusal{field: "precise", message: "a " + kind + " cannot be precise", help: help}
}
