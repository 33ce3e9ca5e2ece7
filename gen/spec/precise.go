package spec

import (
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// readBool returns a reader of true or false.
func readBool[T any](broken *Rule, at func(*T) *bool) func(*parser, *T, entry) bool {
	return func(p *parser, into *T, e entry) bool {
		// YAML 1.1 has more words for them, which people and YAML 1.2 read as text.
		if e.value.Tag == "!!bool" && slices.Contains(booleans, e.value.Value) {
			*at(into) = e.value.Value == "true"
			return true
		}
		p.report(e.at, broken, "", "%s must be true or false, not %s", e.name, describe(e.value))
		p.meant(meantBoolean[e.value.Value])
		return false
	}
}

var booleans = []string{"true", "false"}

// meantBoolean are the other words for true and false in YAML 1.1 and elsewhere.
var meantBoolean = map[string]string{
	"true": "true", "false": "false", // in quotes
	"True": "true", "TRUE": "true", "yes": "true", "Yes": "true", "on": "true", "On": "true", "1": "true",
	"False": "false", "FALSE": "false", "no": "false", "No": "false", "off": "false", "Off": "false", "0": "false",
}

// preciseFits reports the fields that a precise limit cannot have.
func (p *parser) preciseFits(policy *runtime.Policy, given map[string]entry) {
	precise, ok := given["precise"]
	if !ok || !policy.Precise {
		return
	}
	for _, c := range preciseConflicts {
		e, ok := given[c.field]
		if ok && c.applies(policy) {
			p.report(e.at, badPrecise, c.help(policy), "%s", c.message(policy))
			p.note(precise.at, "precise is given here")
		}
	}
}

// preciseConflict is a field that a precise limit cannot have, or some of its values.
type preciseConflict struct {
	field         string
	applies       func(p *runtime.Policy) bool
	message, help func(p *runtime.Policy) string
	// schema is the schema of the values that a precise limit can have, and hint what editors show for the others.
	schema any
	hint   string
}

var preciseConflicts = []preciseConflict{
	{
		field:   "rate",
		applies: func(p *runtime.Policy) bool { return p.Rate > runtime.MaxPreciseRate },
		message: func(p *runtime.Policy) string {
			return fmt.Sprintf("a precise limit has a rate of at most %s, not %s", words.Number(runtime.MaxPreciseRate), words.Number(p.Rate))
		},
		help:   bucketInstead,
		schema: numberSchema(1, runtime.MaxPreciseRate),
		hint:   tooPrecise,
	},
	{
		field: "start", applies: func(p *runtime.Policy) bool { return true },
		message: always("a precise limit has no windows to start"), help: always("leave start out"),
		schema: false, hint: "A precise limit has no windows that start.",
	},
	{
		field: "shards", applies: func(p *runtime.Policy) bool { return p.Shards > 1 },
		message: always("a precise limit cannot have shards, which each would have a log of their own"), help: always("leave shards out"),
		schema: object{"const": 1, "errorMessage": "A precise limit cannot have shards."},
	},
	{
		field: "lease", applies: func(p *runtime.Policy) bool { return true },
		message: always("a precise limit has no lease, because leased tokens are used later than they are counted"), help: always("leave lease out"),
		schema: false, hint: "A precise limit has no lease.",
	},
}

var tooPrecise = fmt.Sprintf("A precise limit has a rate of at most %s.", words.Number(runtime.MaxPreciseRate))

func always(text string) func(*runtime.Policy) string {
	return func(*runtime.Policy) string { return text }
}

// bucketInstead describes the token bucket that keeps the promise of a precise limit: with capacity C and rate N-C per
// period, it never grants more than N in any period.
func bucketInstead(p *runtime.Policy) string {
	return fmt.Sprintf("use a token bucket with rate: %d and capacity: %d, or any other two with this sum: it never grants more than %s in any %s either",
		p.Rate-p.Rate/10, p.Rate/10, words.Number(p.Rate), words.Period(p.Period))
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
		field: "precise", applies: func(p *runtime.Policy) bool { return p.Precise },
		message: "a " + kind + " cannot be precise", help: help,
		schema: object{"const": false, "errorMessage": "Only a sliding window can be precise."},
	}
}

// withinPrecise is [Within] for a precise sliding window, without the last instant of the interval: all of the rate at its
// beginning, and again each time these tokens are available again.
func withinPrecise(p *runtime.Policy, t int64) int64 {
	return times(p.Rate, max(1, ceil(t, int64(p.Period))))
}
