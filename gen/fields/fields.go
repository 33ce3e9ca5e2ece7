package fields

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// limitField is a field of a limit.
type limitField = field[draft, spec.Limit]

// lengthOf completes a field with the place of a positive duration in the policy.
func lengthOf(at func(*runtime.Policy) *time.Duration, f limitField) limitField {
	f.accepts, f.schema = cmp.Or(f.accepts, "a duration, as for `period`"), durationSchema
	f.read = readDuration(func(l *draft) *time.Duration { return at((*runtime.Policy)(&l.policy)) })
	f.effective = func(l *spec.Limit) string { return unlessZero(*at(&l.Policy)) }
	return f
}

// wordOf completes a field with the place of one of several words in the policy. The synonyms are used for suggestions only.
func wordOf[W fmt.Stringer](broken *rules.Rule, known []W, synonyms map[string]W, at func(*runtime.Policy) *W, f limitField) limitField {
	f.schema = object{"enum": diag.Texts(known)}
	f.read = func(p *parser, l *draft, e entry) (ok bool) {
		if isString(e.value) {
			*at((*runtime.Policy)(&l.policy)), ok = named(known, e.value.Value)
		}
		if !ok {
			p.report(e.at, broken, "", "%s must be %s, not %s", e.name, words.List(diag.Texts(known), "or"), describe(e.value))
			p.meant(meantWord(p.document, e.value.Value, known, synonyms))
		}
		return ok
	}
	if f.effective == nil {
		f.effective = func(l *spec.Limit) string { return (*at(&l.Policy)).String() }
	}
	return f
}

// falseToo lets the schema of a field with the word off accept false, as which editors by YAML 1.1 read it.
func falseToo(f limitField) limitField {
	f.schema = orFalse(f.schema)
	return f
}

// kindOf completes the field kind: some kinds of other limiters need more than one word here.
func kindOf(f limitField) limitField {
	f = wordOf(rules.BadKind, runtime.Kinds(), kindSynonyms, func(p *runtime.Policy) *runtime.Kind { return &p.Kind }, f)
	read := f.read
	f.read = func(p *parser, l *draft, e entry) bool {
		ok := read(p, l, e)
		if help := kindHelps[string(diag.Fold(e.value.Value))]; !ok && help != "" && p.described() {
			p.meant()
			p.help(help)
		}
		return ok
	}
	return f
}

// rate reads a rate, which people also write as "10 per minute".
func (p *parser) rate(limit *draft, e entry) bool {
	if e.value.Tag == "!!int" && e.value.Value == "0" {
		p.report(e.at, rules.OutOfRange, "to deny every request, give any rate and write mode: block; for one plan, deny its requests before the limit",
			"rate must be 1 to %s, not 0", words.Number(runtime.MaxTokens))
		return false
	}
	help, implies := "", false
	if e.value.Tag != "!!int" {
		help, implies = rateHelp(e.value.Value, limit.written.period)
	}
	n, ok := p.number(e, 1, runtime.MaxTokens, help)
	limit.policy.Rate = n
	// The remedy contains the period, so that it need not be reported as missing.
	limit.impliesPeriod = limit.impliesPeriod || !ok && implies
	return ok
}

// capacity reads a capacity, which is bounded by what one row can have for a limit in flight.
func (p *parser) capacity(limit *draft, e entry) (ok bool) {
	help := ""
	if limit.written.is(runtime.InFlight) {
		help = "write a number of slots, at most " + underscored(runtime.MaxSlots)
	}
	number, _ := limit.mostOf("capacity")
	*number, ok = p.number(e, 0, runtime.MaxTokens, help)
	return ok
}

// limitFields are the fields of one limit, in the order in which people read them.
var limitFields = []limitField{
	{
		name: "doc", synonyms: []string{"description", "comment"},
		about:     "What the limit is for. It becomes the method's doc comment, after the method's name.",
		accepts:   "text, of one or more lines",
		example:   "bounds how fast one user can post.",
		schema:    object{"type": "string"},
		read:      func(p *parser, l *draft, e entry) bool { return p.docText(&l.said.Doc, e) },
		change:    spec.DocChanged,
		effective: func(l *spec.Limit) string { return l.Doc },
	},
	{
		name:      "key",
		about:     "What requests are counted per. Every part becomes a parameter of the method.",
		accepts:   "a name, such as `userID`, for one string, or a map from names to types: " + spec.KeyTypesInWords,
		more:      "For an IPv6 address, `netip.Addr/64` counts the first 64 bits (1 to 128), because one subscriber has at least that many addresses; an IPv4 address counts whole. For a `hashed string`, such as an API key or an e-mail address, only a SHA-256 is stored, or with the option `limiter.HashKeys` an HMAC with a secret: whoever reads the table can find a telephone number from its SHA-256 by trying all of them. A type of your own needs a MarshalText method.",
		absent:    "one count, shared by all callers",
		example:   "{userID: int64}",
		schema:    keySchema,
		read:      (*parser).keyParts,
		change:    spec.KeyChanged,
		effective: effectiveKey,
	},
	kindOf(limitField{
		name: "kind", required: true, synonyms: []string{"type", "algorithm", "strategy"},
		about:   "How tokens are granted: " + grantsOfKinds() + ".",
		accepts: kindsAsCode(),
		example: "token bucket",
		change:  spec.KindChanged,
	}),
	{
		name: "rate", requiredBy: kindNeeds("rate"), synonyms: []string{"limit"},
		about:     "How many tokens are granted per `period`. Not for a limit in flight.",
		more:      "Requests of an `unlimited` plan are not counted. A plan whose use is to be billed has the largest number instead: nobody reaches it, and `Peek` returns what was `Used`.",
		accepts:   fmt.Sprintf("a whole number of tokens, 1 to %s; or a map with such a number or `unlimited` for each plan; or `{at most: 10_000}`, if callers give it", words.Number(runtime.MaxTokens)),
		absent:    exceptInFlight,
		example:   "10",
		schema:    orByPlan(numberSchema(1, runtime.MaxTokens), true),
		read:      byPlan((*parser).rate),
		change:    spec.RateChanged,
		byPlan:    true,
		effective: effectiveRate,
		words:     callerWords,
	},
	{
		name: "period", requiredBy: kindNeeds("period"), synonyms: []string{"window", "interval", "every", "per"},
		implied:   func(l *draft) bool { return l.impliesPeriod },
		about:     "The time in which `rate` tokens are granted: a fixed length or, for a fixed window, a number of calendar days, weeks, months or years in `zone`. Not for a limit in flight.",
		accepts:   "a duration such as `90s`, `1h30m`, `1d` or `2w`; units: " + unitsInWords + "; or `day`, `week`, `month`, `year` or `3 months`; at most " + longestPeriod,
		more:      "For a token bucket, the period may be a map with a duration for each plan. Plans whose windows have other lengths are limits of their own, each with the rate `unlimited` for the other plans, and one group takes from all of them: each length has its count, which a key finds again when it returns to a plan.",
		absent:    exceptInFlight,
		example:   "1m",
		schema:    orByPlan(periodSchema, false),
		read:      byPlan((*parser).period),
		change:    spec.RateChanged,
		byPlan:    true,
		effective: effectivePeriod,
	},
	{
		name: "zone", synonyms: []string{"timezone", "tz", "location"},
		about:     "The time zone of a `period` in calendar units, which requires it. `per key` gives every key its own: the method has a parameter for it, a `*time.Location` after the parts of the key, which must not be nil.",
		more:      "The names are those of the IANA time zone database. The zone data is Go's, and generated code embeds it unless all zones are `UTC`. If a start moves by less than half a window, because of new data or another zone, no window begins twice.",
		accepts:   "a name such as `UTC` or `Europe/Berlin`, or `per key`",
		absent:    "none; required for a `period` in calendar units",
		example:   "Europe/Berlin",
		schema:    zoneSchema(),
		read:      (*parser).zone,
		change:    spec.ZoneChanged,
		effective: effectiveZone,
	},
	{
		name: "capacity", requiredBy: kindNeeds("capacity"), synonyms: []string{"burst", "max", "slots", "concurrency", "maxconcurrent", "parallel", "concurrent"},
		about:     "The most tokens that can accumulate, and so the largest count of one call. With 0, tokens can only be reserved. Not for a sliding window. For a limit in flight, the slots: how many can be held at once.",
		accepts:   fmt.Sprintf("a whole number of tokens, 0 to %s, or of slots, 1 to %s; or a map with one for each plan; or `{at most: 20_000}`, if callers give it", words.Number(runtime.MaxTokens), words.Number(runtime.MaxSlots)),
		absent:    "`rate`; required for `in flight`",
		example:   "20",
		schema:    orByPlan(numberSchema(0, runtime.MaxTokens), false),
		read:      byPlan((*parser).capacity),
		change:    spec.CapacityChanged,
		byPlan:    true,
		effective: func(l *spec.Limit) string { return effectiveNumber(l.Policy.Full(), l.Policy.AtMost.Full()) },
	},
	{
		name: "hold", requiredBy: kindNeeds("hold"), synonyms: []string{"ttl", "holdtime", "maxduration"},
		about:     "For a limit in flight: how long a slot is held after it was acquired or last renewed, unless it is released. Then its holder is presumed dead, and the slot is free.",
		more:      "`Slot.Do` renews every third of it while its function runs, so that work may take longer. After a crash, a slot is free when its hold ends and not before: a short hold is one that recovers fast, a long one survives longer failures of the store.",
		accepts:   "a duration, as for `period`, or a map with one for each plan",
		absent:    "none; required for `in flight`",
		example:   "2m",
		schema:    orByPlan(durationSchema, false),
		read:      byPlan(readDuration(func(l *draft) *time.Duration { return &l.policy.Hold })),
		change:    spec.HoldChanged,
		byPlan:    true,
		effective: func(l *spec.Limit) string { return unlessZero(l.Policy.Hold) },
		words:     holdWords,
	},
	{
		name:    "maxReserved",
		about:   "How many tokens may be reserved before they are granted. With 0, the limit has no method `Reserve`. A sliding window and a limit in flight have no reservations.",
		accepts: fmt.Sprintf("a whole number of tokens, 0 to %s, or `%s`; or a map with one for each plan; or `{at most: 100}`, if callers give it", words.Number(mostReserved), unboundedWord),
		absent:  "0: no reservations",
		example: "100",
		schema:  orByPlan(wordSchema(0, mostReserved, unboundedWord, object{"label": "0", "body": 0}), false),
		read:    byPlan(func(p *parser, l *draft, e entry) bool { return p.reserved(&l.policy.MaxReserved, e) }),
		change:  spec.MaxReservedChanged,
		byPlan:  true,
		effective: func(l *spec.Limit) string {
			return unboundedOr(l.Policy.MaxReserved, effectiveNumber(l.Policy.MaxReserved, l.Policy.AtMost.MaxReserved))
		},
		words: reservingWords,
	},
	{
		name:      "start",
		about:     "When windows begin: at an instant and every period before and after it; at an offset from 0:00 UTC on 1 January 1970; or, for a fixed window, at each key's `first use`. Not for a token bucket.",
		more:      startMore,
		accepts:   "an RFC 3339 instant, a duration, or `first use`; for calendar units, such as `15th`, `monday`, `april 6th`, `06:00`, `anniversary`",
		absent:    "a fixed offset derived from the key; for calendar units, midnight of their first day",
		example:   "8h",
		schema:    startSchema,
		read:      (*parser).start,
		change:    spec.StartChanged,
		effective: effectiveStart,
		words:     StartWords,
	},
	{
		name: "precise", synonyms: []string{"exact", "strict"},
		about:     "Whether a sliding window is exact: with `true`, never more than `rate` in any period, wherever it begins, and each token is available again exactly a `period` after it was taken.",
		more:      "The row of a key has a log of the tokens taken in the last period, some 7 bytes for each instant. For a `rate` above 1,000, takes within a thousandth of the `period` are logged together, as of its end: so a log has at most 1,002 instants, and a token comes back up to a thousandth of the `period` late.",
		accepts:   "`true` or `false`; `true` only for a sliding window without `start`, `shards` and `lease`",
		absent:    "`false`",
		example:   "true",
		schema:    object{"type": "boolean"},
		read:      (*parser).precise,
		change:    spec.PreciseChanged,
		effective: func(l *spec.Limit) string { return strconv.FormatBool(l.Policy.Precise) },
		words:     preciseWords,
	},
	{
		name:      "shards",
		about:     "The number of rows that hold the count of one key, so that concurrent requests write to different rows. Each shard gets an equal part of `rate`, `capacity` and `maxReserved`, at least one token.",
		accepts:   fmt.Sprintf("a whole number, 1 to %s", words.Number(runtime.MaxShards)),
		absent:    "1",
		example:   "4",
		schema:    numberSchema(1, runtime.MaxShards),
		read:      readNumber(1, runtime.MaxShards, func(l *draft) *int { return &l.policy.Shards }),
		change:    spec.ShardsChanged,
		effective: func(l *spec.Limit) string { return strconv.Itoa(max(1, l.Policy.Shards)) },
		words:     shardsWords,
	},
	falseToo(wordOf(rules.BadMode, runtime.Modes(), modeSynonyms, func(p *runtime.Policy) *runtime.Mode { return &p.Mode }, limitField{
		name: "mode", synonyms: []string{"enforcement", "action", "dryrun", "enabled", "shadow", "shadowmode"},
		about:   "What the limit does with its decisions: `shadow` counts, but lets every request pass, and reports those that `enforce` would deny in `Decision.Shadowed`; `off` lets every request pass, uncounted; `block` denies every request.",
		more:    "A request that `shadow` lets pass takes nothing. In a call over several limits, a limit in `shadow` never stands in the way, nor does it if the store fails. For other readers of the file by YAML 1.1, in which `off` is false, write it in quotes. A request denied by `block` has the `RetryAfter` `runtime.Never`, and `Wait` fails at once.",
		accepts: "`enforce`, `shadow`, `off` or `block`",
		absent:  "`enforce`",
		example: "shadow",
		change:  spec.ModeChanged,
		words:   ModeWords,
	})),
	{
		name: "penalty", synonyms: []string{"ban", "bantime", "lockout", "cooldown", "blockduration", "mitigationtimeout", "penalties"},
		about:     "How long all requests for a key are denied after one was denied for lack of tokens. In a list, each is that of the next penalty, and the last one is repeated, until there was none for `forgive`.",
		more:      "A denied `Allow`, `AllowN`, `AllowUpTo` or `Require` starts it, and the first try of `Wait`, but no `Check`, no count that can never fit, and no request that only another limit of its call has denied. While it lasts, requests write nothing, and it does not grow. `Reset` ends it. In a transaction of the caller, it starts when that commits.",
		accepts:   fmt.Sprintf("a duration, or a list of up to %d; or a map with one of these or `%s` for each plan; not with `shards`, `lease` and `maxReserved`", runtime.MaxPenaltySteps, penaltyOff),
		absent:    "none",
		example:   "[1m, 10m, 1h]",
		schema:    penaltySchema(),
		read:      byPlan((*parser).penalty),
		change:    spec.PenaltyChanged,
		byPlan:    true,
		effective: effectivePenalty,
		words:     penaltyWords,
	},
	lengthOf(func(p *runtime.Policy) *time.Duration { return &p.Penalty.Forgive }, limitField{
		name: "forgive", synonyms: []string{"forgiven", "forgiveafter", "forget"},
		about:   "How long after the end of a `penalty` the next one is a first one again.",
		accepts: "a duration, as for `period`; only with a list of penalties",
		absent:  "10 times the last penalty of the list",
		example: "1d",
		change:  spec.PenaltyChanged,
	}),
	lengthOf(func(p *runtime.Policy) *time.Duration { return &p.Timeout }, limitField{
		name: "timeout", synonyms: []string{"deadline"},
		about:   "How long a decision may take. After that the store is treated as failed, though it may have taken the tokens.",
		absent:  "as long as the call's context allows",
		example: "250ms",
		change:  spec.TimeoutChanged,
	}),
	wordOf(rules.BadOnError, runtime.OnErrors(), onErrorSynonyms, func(p *runtime.Policy) *runtime.OnError { return &p.OnError }, limitField{
		name: "onError", synonyms: []string{"fail", "failure", "fallback"},
		about:   "The decision if the store fails: `closed` allows no request, and the call returns the error; `open` allows every request without counting it; `local` decides by the same rule from the memory of the process. The decision reports that.",
		more:    "With `local`, a key begins with what the store has last reported to the process, and is full if it has not: n processes together may allow n times the limit. The store does not count it. The end of the caller's context is no failure of the store: the call returns the context's error. With `open` or `local`, only `Allow` reports the failure, in `Decision.FailedOpen` or `Decision.FailedLocal`; `Require` and `Wait` cannot report it. Call the store's `Ready` at startup to find a broken store early.",
		accepts: "`closed`, `open` or `local`",
		absent:  "`closed`",
		example: "open",
		change:  spec.OnErrorChanged,
		words:   onErrorWords,
	}),
	lengthOf(func(p *runtime.Policy) *time.Duration { return &p.Jitter }, limitField{
		name: "jitter", synonyms: []string{"spread", "randomization"},
		about:   "The most by which clients are told to retry later than their tokens are due, so that they do not all come back at once. `Wait` and the delays of reservations use it too.",
		more:    "The jitter of a key is the same for the same due time, and `Decision.RetryAfter` stays exact; `Decision.RetryIn()` includes the jitter. It spreads the keys of a limit: all callers of one key get the same.",
		absent:  "none",
		example: "10s",
		change:  spec.JitterChanged,
		words:   jitterWords,
	}),
	lengthOf(func(p *runtime.Policy) *time.Duration { return &p.DenyCache }, limitField{
		name: "denyCache", synonyms: []string{"cache", "ephemeralcache", "denylist", "inmemoryblockduration"},
		about:   "The longest time that a process repeats a denial from its memory. Tokens that another process gives back may be available only that much later.",
		absent:  "denials are not cached",
		example: "1s",
		change:  spec.DenyCacheChanged,
		words:   denyCacheWords,
	}),
	{
		name: "lease", synonyms: []string{"block", "prefetch", "batch"},
		about:   "A block of tokens that a process takes at once, and spends from its memory. Not for windows that start at `first use`.",
		more:    "A lease grants no additional tokens, but those of a token bucket may be used later than they were taken, by up to `for`. A block of a window ends with the window. Reservations, requests over several limits and transactions do not use blocks.",
		accepts: "a map with `tokens` and `for`",
		absent:  "every request reaches the store",
		example: "{tokens: 10, for: 200ms}",
		schema:  mapSchema(leaseFields),
		read:    (*parser).lease,
		change:  spec.LeaseChanged,
		effective: func(l *spec.Limit) string {
			if l.Policy.Lease == (runtime.Lease{}) {
				return ""
			}
			return effectiveMap(leaseFields, &l.Policy.Lease)
		},
		words: leaseWords,
	},
	wordOf(rules.BadDurability, runtime.Durabilities(), durabilitySynonyms, func(p *runtime.Policy) *runtime.Durability { return &p.Durability }, limitField{
		name: "durability", synonyms: []string{"sync", "fsync", "synchronous", "synchronouscommit"},
		about: "Whether a decision waits for the disk. `full` waits. `relaxed` does not: a crash of the database's machine may lose the most recent counts.",
		more: "On Postgres, `relaxed` sets `synchronous_commit = off`, and on SQLite, `full` sets `PRAGMA synchronous = FULL`, both for the limit's own transactions only. " +
			"MySQL and MariaDB set durability for the whole server: there, the field has no effect. It also has no effect in the caller's transaction.",
		accepts:   "`relaxed` or `full`",
		absent:    "the setting of the database (`sqlite.Open`: `relaxed`)",
		example:   "relaxed",
		change:    spec.DurabilityChanged,
		effective: effectiveDurability,
		words:     durabilityWords,
	}),
	{
		name: "overrides", synonyms: []string{"override", "exceptions", "maxoverride"},
		about: "Lets operators block keys, and give them other numbers, at most these, while the program runs: each with an end, a reason and an author. `{}` allows numbers within those of the limit.",
		more: "A limit without it has no such methods and no cost. Overrides are rows of the table `rate_limit_overrides`, which is a log: each process reads the new entries every 5 seconds, and no decision needs a statement more. " +
			"In force is a block of the limit or the key, else the override of the key, else that of the whole limit, else the plan. The period cannot be overridden.",
		accepts: "a map with `rate`, `capacity` and `maxReserved`, each of which may be left out",
		absent:  "no overrides and no blocks",
		example: "{rate: 5_000, capacity: 10_000}",
		schema:  mapSchema(overrideFields),
		read:    (*parser).overrides,
		change:  spec.OverridesChanged,
		effective: func(l *spec.Limit) string {
			if l.Overrides == nil {
				return ""
			}
			return effectiveMap(overrideFields, l.Overrides) // other numbers follow those of the limit
		},
		words: OverridesWords,
	},
	{
		name:      "goName",
		about:     "The name of the generated method.",
		accepts:   "an exported Go identifier, but not `" + strings.Join(ownMethods, "` or `") + "`, or a method whose signature go vet checks, such as `MarshalJSON`",
		absent:    "the limit's name with a capital letter, and initialisms such as ID, URL and LLM in capitals",
		example:   "SendMessage",
		schema:    goNameSchema,
		read:      func(p *parser, l *draft, e entry) bool { return p.exportedName(&l.said.GoName, e) },
		change:    spec.GoNameChanged,
		effective: func(l *spec.Limit) string { return l.GoName },
	},
}

// Description is a limit in sentences.
type Description struct {
	// Plan is the name of the plan, for an element of Plans.
	Plan string
	// Rule says what is granted: "Token bucket: 10 per minute, at most 20 at once." It is empty with Plans.
	Rule string
	// Sentences are the others, the most important first. With Plans, they are the ones that all limited plans have in common.
	Sentences []string
	// Worst says how many tokens can be used in a period at most, see [bounds.Within]: "Worst case: 30 in any minute.", or how many
	// slots can be held. If
	// reservations have no bound, the number is for callers who do not reserve. It is empty for an unlimited element of Plans.
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

// Describe returns the limit in sentences.
func Describe(l *spec.Limit) *Description {
	d := &Description{Plan: l.Plan, Worst: "Worst case" + ifEnforced(l.Policy.Mode) + ": " + worstCase(l) + "."}
	if len(l.Plans) == 0 {
		d.Rule, d.Sentences = sentencesOf(l)
		return d
	}
	common := func(sentence string) bool { return slices.Contains(d.Sentences, sentence) }
	limited := 0
	for _, of := range l.Plans {
		plan := Describe(of)
		d.Plans = append(d.Plans, *plan)
		if of.Unlimited() {
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
		if of.UnlimitedRate {
			plan.Worst = ""
		}
	}
	return d
}

// WordsOf returns the sentences of [Description.Words].
func WordsOf(l *spec.Limit) []string { return Describe(l).Words() }

// sentencesOf describes a limit without plans, or one plan: its rule, and the rest.
func sentencesOf(l *spec.Limit) (rule string, sentences []string) {
	m := l.Policy.Mode
	switch {
	case l.Unlimited():
		return "Unlimited: every request is allowed, and none is counted.", nil
	case l.UnlimitedRate:
		rule = "Unlimited when it is not blocked."
	default:
		rule = ruleWords(l)
	}
	if m != runtime.ModeEnforce && m != runtime.ModeShadow {
		// The other fields have no effect.
		return rule, append(ModeWords(l), keyWords(l)...)
	}
	for _, f := range limitFields {
		if f.words != nil {
			sentences = append(sentences, f.words(l)...)
		}
	}
	return rule, append(sentences, keyWords(l)...)
}

// worstCase is the worst case as a part of a sentence: "30 in any minute".
func worstCase(l *spec.Limit) string {
	p := &l.Policy
	switch {
	case len(l.Plans) > 0:
		return strings.Join(words.Of(l.Plans, func(of *spec.Limit) string { return of.Plan + ": " + worstCase(of) }), "; ")
	case l.UnlimitedRate:
		return "no bound"
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

// keyWords describes the parts of the key that are not stored as they are passed. It is not the words of the field key,
// because the rule comes first.
func keyWords(l *spec.Limit) (sentences []string) {
	for _, part := range l.Key {
		switch bits := part.PrefixBits(); {
		case part.Hashed():
			sentences = append(sentences, fmt.Sprintf("Only a hash of %s is stored.", part.Name))
		case bits > 0:
			sentences = append(sentences, fmt.Sprintf("For an IPv6 address, the first %s of %s count.", words.Count(int64(bits), "bit"), part.Name))
		}
	}
	return sentences
}
