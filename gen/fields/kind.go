package fields

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var kindField = kindOf(limitField{
	name: "kind", requiredBy: func(*draft) bool { return true }, synonyms: []string{"type", "algorithm", "strategy"},
	about:      "How tokens are granted: " + grantsOfKinds() + ".",
	accepts:    kindsAsCode(),
	absent:     "that of `defaults`, which must have one then",
	example:    "token bucket",
	conditions: kindConditions(),
	change:     ids.KindChanged,
})

// kindOf completes the field kind: some kinds of other limiters need more than one word here.
func kindOf(f limitField) limitField {
	f = wordOf(ids.BadKind, runtime.Kinds(), kindSynonyms, func(p *runtime.Policy) *runtime.Kind { return &p.Kind }, f)
	read := f.read
	f.read = func(p *parser, l *draft, e document.Entry) bool {
		ok := read(p, l, e)
		if help := kindHelps[string(diag.Fold(e.Value.Value))]; !ok && help != "" && p.doc.Described() {
			p.doc.Offer()
			p.doc.Help(help)
		}
		return ok
	}
	return f
}

// kindSynonyms are other words for kinds, each for one of them.
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

// algorithm is everything in this package that depends on the kind of a limit.
type algorithm struct {
	// rule describes the rate and the capacity in words.
	rule func(p *runtime.Policy) string
	// grants describes how the kind grants tokens, after "How tokens are granted:".
	grants string
	// refusals are the fields that the kind does not have.
	refusals []refusal
}

// fitsKind reports the given fields that the limit's kind does not have.
func (p *parser) fitsKind(l *draft, given map[string]document.Entry) bool {
	var because document.Entry
	if l.limit.ByDefault["kind"] {
		if because = l.given["kind"]; slices.ContainsFunc(l.entries, func(e document.Entry) bool { return !slices.Contains(p.limitFields, e.Name) }) {
			return false // the unknown field may be the kind
		}
	}
	return p.refuse(l, given, ids.NotForKind, algorithms[l.policy.Kind].refusals, because)
}

// onePeriod is a refusal of kinds with windows: their rows have the start of a window, which must mean the same to all
// plans.
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
		refusals: append([]refusal{
			noStart("a token bucket", "leave start out, or use a fixed window"), noHold,
			notCounted("a token bucket does not count an unlimited rate",
				": its tokens accrue again, so that nobody knows how many were used"),
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
			notCounted("a sliding window does not count an unlimited rate",
				": use leaves it all the time, so that it has none for a bill"),
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
			notCounted("a limit in flight does not count use", ": slots are given back, and do not add up"),
			noStart("a limit in flight", ""),
			notPrecise("limit in flight", "leave precise out: a limit in flight is exact"),
			{
				field: "shards", message: "a limit in flight cannot have shards", why: ": the holders of a key are in one row",
				help: "leave shards out, or add a part to the key",
			},
			{field: "prices", message: "a limit in flight has no prices", why: ": slots are given back, and not spent"},
			{field: "lease", message: "a limit in flight has no lease", why: ": a slot is held by what runs, not by a process in advance"},
		},
	},
}

// kindConditions are the schemas of limits of each kind.
func kindConditions() (list []any) {
	for _, kind := range runtime.Kinds() {
		list = append(list, object{"if": isKind(kind), "then": refToKind(kind)})
	}
	return list
}

// isKind is the schema of a map with the kind.
func isKind(kind runtime.Kind) object { return having("kind", object{"const": kind.String()}) }

// kindDefinition is the name of [kindSchema] in the definitions of the schema.
func kindDefinition(kind runtime.Kind) string { return strings.ReplaceAll(kind.String(), " ", "-") }

func refToKind(kind runtime.Kind) object {
	return object{"$ref": "#/definitions/" + kindDefinition(kind)}
}

// kindSchema has the fields that limits of a kind need, and those that they do not have.
func kindSchema(kind runtime.Kind) object {
	all := []any{object{"required": needsOf[kind]}}
	for _, r := range algorithmOf(kind).refusals {
		all = append(all, r.allowed())
	}
	return object{"type": "object", "allOf": all}
}

// algorithmOf returns the entry of a kind. A kind without one must not be described as another one.
func algorithmOf(kind runtime.Kind) algorithm {
	a, ok := algorithms[kind]
	if !ok {
		panic(fmt.Sprintf("fields: %v has no entry in algorithms: add one in gen/fields/kind.go", kind))
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
	return words.List(words.Of(diag.Texts(runtime.Kinds()), func(name string) string { return "`" + name + "`" }), "or")
}

func perPeriod(p *runtime.Policy) string {
	return fmt.Sprintf("%s per %s", words.Number(p.Rate), PeriodOf(p))
}

// ruleSentence covers kind, rate, period and capacity.
func ruleSentence(l *spec.Limit) string {
	if p := &l.Policy; l.CountsOnly() {
		return "Unlimited, and counted per " + PeriodOf(p) + "."
	} else if p.AtMost.Unlimited {
		rule := spec.Capital(p.Kind.String()) + ": as many per " + PeriodOf(p) + " as callers give"
		if p.Capacity < p.Rate {
			rule += ", at most " + words.Number(p.Capacity) + " at once"
		}
		return rule + "."
	}
	return spec.Capital(l.Policy.Kind.String()) + ": " + algorithmOf(l.Policy.Kind).rule(&l.Policy) + "."
}
