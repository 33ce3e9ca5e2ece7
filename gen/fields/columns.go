package fields

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// effectiveMap is a map with the fields of a table that have a value.
func effectiveMap[D, T any](fields []field[D, T], of *T) string {
	var parts []string
	for _, f := range fields {
		if value := f.effective(of); value != "" {
			parts = append(parts, f.name+": "+value)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// effectiveDurability is empty for the setting of the database.
func effectiveDurability(l *spec.Limit) string {
	if l.Policy.Durability == runtime.DurabilityDefault {
		return ""
	}
	return l.Policy.Durability.String()
}

// effectiveKey is a map of names to types, whether the file names one string or has a map.
func effectiveKey(l *spec.Limit) string {
	if len(l.Key) == 0 {
		return ""
	}
	return "{" + strings.Join(words.Of(l.Key, func(part spec.KeyPart) string { return part.Name + ": " + part.Type }), ", ") + "}"
}

// effectiveStart is empty for an offset derived from the key.
func effectiveStart(l *spec.Limit) string {
	offset, aligned := l.Policy.Start.Offset()
	switch {
	case l.Policy.Calendar.Unit != 0:
		return effectiveCalendarStart(l.Policy.Calendar)
	case l.Policy.Start.FirstUse():
		return firstUse
	case !aligned:
		return ""
	// The file cannot have such an offset as a duration, so it has an instant.
	case offset.Abs() > runtime.MaxPeriod:
		return instantAt(offset).Format(time.RFC3339Nano)
	}
	return words.Duration(offset)
}

func numberUnlessZero(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func unlessZero(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return words.Duration(d)
}

// effectivePenalty returns a penalty as limits.yaml writes it.
func effectivePenalty(l *spec.Limit) string {
	steps := penaltySteps(&l.Policy)
	if len(steps) < 2 {
		return strings.Join(steps, "")
	}
	return "[" + strings.Join(steps, ", ") + "]"
}

// penaltySteps returns the steps of a penalty in words.
func penaltySteps(p *runtime.Policy) []string {
	return words.Of(p.Penalty.Steps[:p.Penalty.Len()], words.Duration)
}

// effectiveZone is empty without a calendar.
func effectiveZone(l *spec.Limit) string {
	if l.Policy.Calendar.ZonePerKey {
		return perKey
	}
	return l.Policy.Calendar.Zone
}

// effectivePeriod returns a period as limits.yaml writes it; "" for a limit in flight.
func effectivePeriod(l *spec.Limit) string {
	if c := l.Policy.Calendar; c.Unit != 0 {
		return calendarPeriod(c)
	}
	return unlessZero(l.Policy.Period)
}

// effectiveCalendarStart returns the start of a calendar as limits.yaml writes it, "" for the default.
func effectiveCalendarStart(c runtime.Calendar) string {
	var parts []string
	switch from := c.From; {
	case c.Anniversary:
		parts = append(parts, anniversary)
	case from == runtime.Date{}:
	case c.Count > 1:
		parts = append(parts, from.String())
	case c.Unit == runtime.Week:
		parts = append(parts, strings.ToLower(weekdayOf(from).String()))
	case c.Unit == runtime.Month:
		parts = append(parts, ordinal(from.Day))
	default:
		parts = append(parts, strings.ToLower(from.Month.String()), ordinal(from.Day))
	}
	if c.At > 0 {
		parts = append(parts, timeOfDay(time.Time{}.Add(c.At)))
	}
	return strings.Join(parts, " ")
}

// PeriodOf returns the period of a policy as it reads after "per": "minute", "month", "3 months".
func PeriodOf(p *runtime.Policy) string {
	if p.Calendar.Unit != 0 {
		return calendarPeriod(p.Calendar)
	}
	return words.Period(p.Period)
}

// listed is a list as limits.yaml writes it; "" for an empty one.
func listed(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// effectiveRate is empty for a limit in flight.
func effectiveRate(l *spec.Limit) string {
	switch {
	case l.UnlimitedRate:
		return unlimited
	case l.Policy.Rate == 0:
		return ""
	}
	return effectiveNumber(l.Policy.Rate, l.Policy.AtMost.Rate)
}

// effectiveNumber returns a number of tokens, or the most that callers can give.
func effectiveNumber(n, most int64) string {
	if most > 0 {
		return "{" + atMost + ": " + underscored(n) + "}"
	}
	return strconv.FormatInt(n, 10)
}

func unboundedOr(n int64, text string) string {
	if n == runtime.Unbounded {
		return unboundedWord
	}
	return text
}

// timeOfDay leaves out seconds that are zero.
func timeOfDay(t time.Time) string {
	if t.Second() == 0 && t.Nanosecond() == 0 {
		return t.Format("15:04")
	}
	return t.Format("15:04:05.999999999")
}

// instantAt returns the instant at an offset from 0:00 UTC on 1 January 1970.
func instantAt(offset time.Duration) time.Time { return time.Unix(0, int64(offset)).UTC() }

// mapSchema is the schema of a map with the fields of a table and no others.
func mapSchema[D, T any](fields []field[D, T]) object {
	properties, required := object{}, []string{}
	for _, f := range fields {
		property := object{"title": f.name, "description": withoutMarks(f.description()), "markdownDescription": f.description()}
		for name, value := range f.schema {
			property[name] = value
		}
		if _, ok := f.schema["pattern"]; ok {
			property["patternErrorMessage"] = "Write " + withoutMarks(f.accepts) + "."
		}
		if example, err := strconv.Atoi(f.example); err == nil && f.schema["minimum"] != nil {
			// Editors complete an example. Without one they complete 0, which is not valid.
			property["examples"] = []any{example}
		}
		properties[f.name] = property
		if f.required {
			required = append(required, f.name)
		}
	}
	return object{
		"type":                 "object",
		"properties":           properties,
		"required":             required,
		"additionalProperties": false,
	}
}

var typeSchema = object{"anyOf": []any{
	object{"enum": spec.KeyTypes},
	object{"type": "string", "pattern": spec.AddrPrefixForm.String()},
	object{"type": "string", "pattern": spec.ExportedForm.String(), "not": object{"enum": slices.Sorted(maps.Keys(commonTypes))}},
	object{"type": "string", "pattern": spec.TypeForm.String(), "not": object{"anyOf": []any{
		object{"pattern": spec.UnimportedForm.String()},
		object{"pattern": spec.UnqualifiedForm.String(), "not": object{"pattern": "^(" + strings.Join(spec.TopPackages, "|") + `)\.`}},
	}}},
}}

var partSchema = object{"type": "string", "pattern": partForm.String(), "not": object{"enum": unusableParts()}}

// keySchema is the schema of a name or a map. It has two types, because editors would show the errors of both schemas of
// an anyOf.
var keySchema = object{
	"type":                 []string{"string", "object"},
	"pattern":              partForm.String(),
	"not":                  object{"enum": unusableParts()},
	"minProperties":        1,
	"maxProperties":        maxKeyParts,
	"propertyNames":        partSchema,
	"additionalProperties": typeSchema,
}

// durationSchema is the schema of a positive duration.
var durationSchema = object{"type": "string", "pattern": durationForm.String()}

// penaltyOff is the penalty of a plan that has none.
const penaltyOff = "off"

// orFalse is a schema of a value or of false, because editors that use YAML 1.1 read off as false. The double negation keeps editors
// from proposing false, and the description keeps them from showing the title of the field twice.
func orFalse(value object) object {
	isFalse := object{"description": "off by YAML 1.1", "not": object{"not": object{"const": false}}}
	return object{"anyOf": []object{value, isFalse}}
}

// penaltySchema is the schema of penalties or off, or of a map with these for each plan.
func penaltySchema() object {
	all := orByPlan(penaltiesSchema, false)
	all["additionalProperties"] = orFalse(all["additionalProperties"].(object))
	return orFalse(all)
}

// penaltiesSchema is the schema of a duration, a list of them, or off.
var penaltiesSchema = object{
	"type": []string{"string", "array"}, "pattern": "^" + penaltyOff + "$|" + durationForm.String(),
	"minItems": 1, "maxItems": runtime.MaxPenaltySteps, "items": durationSchema,
	"defaultSnippets": []any{object{"label": "15m", "body": "15m"}, object{"label": "[1m, 10m, 1h]", "body": []string{"1m", "10m", "1h"}}},
}

// periodSchema has one pattern too.
var periodSchema = object{"type": "string", "pattern": durationForm.String() + "|" + calendarForm.String()}

// startSchema has one pattern, so that editors show the patternErrorMessage if it does not match.
var startSchema = object{
	"type":    []string{"string", "integer"},
	"minimum": 0,
	"maximum": 0,
	"pattern": "^(0|" + firstUse + ")$|" + offsetForm.String() + "|" + instantForm.String() + "|" + calendarStartPattern,
	"defaultSnippets": []any{
		object{"label": firstUse, "body": firstUse},
		object{"label": "0", "body": "0"},
	},
}

// numberSchema is the schema of a whole number. For editors that read YAML 1.2, 40_000 is text.
func numberSchema(least, most int64) object {
	return object{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": "^[1-9][0-9]*(_[0-9]+)+$"}
}

// wordSchema is the schema of a whole number or a word, which editors offer, as they do more.
func wordSchema(least, most int64, word string, more ...any) object {
	schema := numberSchema(least, most)
	schema["pattern"] = "^([1-9][0-9]*(_[0-9]+)+|" + word + ")$"
	schema["defaultSnippets"] = append([]any{object{"label": word, "body": word}}, more...)
	return schema
}

// orByPlan is a schema of either a value, or a map with one for each plan. The names of the plans are those of the file,
// which a schema cannot refer to.
func orByPlan(value object, unlimitedToo bool) object {
	one := maps.Clone(value)
	switch {
	case value["minimum"] == nil:
		one["patternErrorMessage"] = "Write a duration such as 90s."
	case unlimitedToo:
		one["patternErrorMessage"] = "Write a whole number of tokens, or unlimited."
	default:
		one["patternErrorMessage"] = "Write a whole number of tokens."
	}
	if unlimitedToo {
		one["pattern"] = fmt.Sprintf("^%s$|%s", unlimited, value["pattern"])
		one["defaultSnippets"] = []any{object{"label": unlimited, "body": unlimited}}
	}
	both := maps.Clone(value)
	types, several := value["type"].([]string)
	if !several {
		types = []string{value["type"].(string)}
	}
	both["type"] = append(slices.Clone(types), "object")
	both["minProperties"] = 1
	both["propertyNames"] = object{"pattern": planForm.String(), "maxLength": longestPlan}
	both["additionalProperties"] = one
	if value["minimum"] != nil {
		most := numberSchema(1, value["maximum"].(int64))
		most["patternErrorMessage"] = "Write the most that callers can give, a whole number of tokens."
		both["properties"] = object{atMost: most}
		both["propertyNames"] = object{"pattern": planForm.String() + "|^" + atMost + "$", "maxLength": longestPlan}
		both["if"], both["then"] = having(atMost, object{}), object{"maxProperties": 1}
	}
	return both
}

var plansSchema = object{
	"type": "array", "minItems": 1, "maxItems": maxPlans, "uniqueItems": true,
	"items": object{"type": "string", "pattern": planForm.String(), "maxLength": longestPlan, "patternErrorMessage": spec.Capital(planHelp) + "."},
}

var goNameSchema = object{"type": "string", "pattern": spec.ExportedForm.String(), "not": object{"enum": reservedGoNames}}

// namedSchema is the schema of a map from names to limits or groups.
func namedSchema(definition string) object {
	return object{
		"type":                 "object",
		"propertyNames":        object{"pattern": spec.LimitNameForm.String(), "maxLength": runtime.MaxKey},
		"additionalProperties": object{"$ref": "#/definitions/" + definition},
	}
}
