package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

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

// refusal is a field, or some of its values, that makes no sense for a kind.
type refusal struct {
	field string
	// applies selects the refused values; nil selects all.
	applies func(p *unchecked) bool
	// byPlan refuses only a map with a value for each plan.
	byPlan bool
	// message is the diagnostic, and help its remedy.
	message, help string
	// schema is the schema of the values that the kind has; false for none. Then hint is what editors show.
	schema any
	hint   string
}

// onePeriod is a refusal of kinds with windows: their rows have the start of a window, which must mean the same to all plans.
var onePeriod = refusal{
	field: "period", byPlan: true,
	message: "windows have the same period for all plans", help: "give one period, or use a token bucket",
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
		refusals: append([]refusal{{
			field: "start", message: "a token bucket has no windows to start", help: "leave start out, or use a fixed window",
			schema: false, hint: "A token bucket has no windows that start.",
		}, notPrecise("token bucket", "leave precise out: a token bucket is exact, and never grants more than capacity and rate together in any period")},
			calendarRefusals("A token bucket")...),
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
		refusals: []refusal{onePeriod, notPrecise("fixed window", "leave precise out, or use a sliding window")},
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
				schema: false, hint: "A sliding window's capacity is its rate.",
			},
			{
				field: "maxReserved", applies: func(p *unchecked) bool { return p.MaxReserved != 0 },
				message: "a sliding window has no reservations", help: "leave maxReserved out, or use a token bucket",
				schema: object{"const": 0, "errorMessage": "A sliding window has no reservations."},
			},
			{
				field: "start", applies: func(p *unchecked) bool { return p.Start.FirstUse() },
				message: "a sliding window cannot start at first use", help: "give an instant or an offset, or leave start out",
				schema: object{"not": object{"const": firstUse}},
			},
			onePeriod,
		}, calendarRefusals("A sliding window")...),
	},
}

// calendarRefusals refuse the calendar units of a fixed window.
func calendarRefusals(kind string) []refusal {
	const help = "use a fixed window, or a period of fixed length such as 30d"
	lower := strings.ToLower(kind[:1]) + kind[1:]
	return []refusal{
		{
			field: "period", applies: func(p *unchecked) bool { return p.Calendar.Unit != 0 },
			message: lower + " has a period of fixed length", help: help,
			schema: object{"not": object{"type": "string", "pattern": calendarPattern}, "errorMessage": kind + " has a period of fixed length."},
		},
		{field: "zone", message: lower + " has no zone", help: help, schema: false, hint: kind + " has no zone."},
	}
}

// algorithmOf returns the entry of a kind. A kind without one must not be described as another one.
func algorithmOf(kind runtime.Kind) algorithm {
	a, ok := algorithms[kind]
	if !ok {
		panic(fmt.Sprintf("spec: %v has no entry in algorithms: add one in gen/spec/kinds.go", kind))
	}
	return a
}

// grantsOfKinds describes how each kind grants tokens.
func grantsOfKinds() string {
	var all []string
	for _, kind := range runtime.Kinds() {
		all = append(all, fmt.Sprintf("%s (`%v`)", algorithmOf(kind).grants, kind))
	}
	return words.List(all, "or")
}

// kindsAsCode lists the values of the field kind.
func kindsAsCode() string {
	names := kindNames()
	for i := range names {
		names[i] = "`" + names[i] + "`"
	}
	return words.List(names, "or")
}

// kind reads the kind of a limit.
func (p *reader) kind(limit *draft, e entry) bool {
	kind, ok := oneOf(e, runtime.Kinds())
	if !ok {
		p.report(e.at, badKind, "", "kind must be %s, not %s", words.List(kindNames(), "or"), describe(e.value))
		p.meant(meantKind(e.value.Value))
	}
	limit.policy.Kind = kind
	return ok
}

// meantKind returns the kind that text probably means: a similar one, or the only one with that word.
func meantKind(text string) string {
	if meant := Nearest(text, kindNames()); meant != "" {
		return meant
	}
	var having []string
	for _, kind := range kindNames() {
		if slices.Contains(strings.Fields(kind), strings.ToLower(text)) {
			having = append(having, kind)
		}
	}
	if len(having) == 1 {
		return having[0]
	}
	return ""
}

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
func preciseWords(l *Limit) []string {
	if !l.Policy.Precise {
		return nil
	}
	return []string{fmt.Sprintf("A token is available again exactly %s after it was taken.", words.Duration(l.Policy.Period))}
}

// preciseConditions are the conditions of the JSON Schema for precise limits.
func preciseConditions() (conditions []any) {
	for _, c := range preciseConflicts {
		then := object{"type": "object", "properties": object{c.field: c.schema}}
		if c.hint != "" {
			then["errorMessage"] = c.hint
		}
		conditions = append(conditions, object{
			"if": object{
				"type": "object", "properties": object{"precise": object{"const": true}}, "required": []string{"precise"},
			},
			"then": then,
		})
	}
	return conditions
}

// notPrecise refuses precise: true for a kind, whose own guarantee is in the help.
func notPrecise(kind, help string) refusal {
	return refusal{
		field: "precise", applies: func(p *unchecked) bool { return p.Precise },
		message: "a " + kind + " cannot be precise", help: help,
		schema: object{"const": false, "errorMessage": "Only a sliding window can be precise."},
	}
}
