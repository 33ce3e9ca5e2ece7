package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// object is a part of a JSON Schema.
type object = map[string]any

// Schema returns the JSON Schema (draft-07) of limits.yaml, indented, for editors. It covers the fields and their values,
// but not every one of [Rules].
func Schema() []byte { return encodeSchema(fileSchema()) }

func fileSchema() object {
	schema := mapSchema(fileFields)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["$id"] = "https://github.com/ratelimitgen/ratelimitgen/limits.schema.json"
	schema["title"] = "Rate limits"
	schema["definitions"] = object{"limit": limitSchema(), "group": mapSchema(groupFields)}
	return schema
}

func encodeSchema(schema object) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	// Readers of the file would see \u003c in place of <.
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		panic(fmt.Sprintf("spec: the schema is not JSON: %v", err))
	}
	return out.Bytes()
}

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

// description is the Markdown that an editor shows for a field.
func (f field[D, T]) description() string {
	text := f.meaning() + " Write " + f.accepts + "."
	if f.absent != "" {
		text += " Default: " + f.absent + "."
	}
	return text
}

// meaning is the full explanation of a field, in Markdown.
func (f field[D, T]) meaning() string { return strings.TrimSpace(f.about + " " + f.more) }

// withoutMarks returns our own Markdown, which has only code spans, as plain text.
func withoutMarks(markdown string) string { return strings.ReplaceAll(markdown, "`", "") }

func limitSchema() object {
	schema := mapSchema(limitFields)
	var conditions []any
	for _, kind := range runtime.Kinds() {
		for _, r := range algorithmOf(kind).refusals {
			conditions = append(conditions, ifKind(kind, r.hint, object{r.field: r.schema}))
		}
	}
	schema["allOf"] = slices.Concat(conditions, ifCalendar(), preciseConditions())
	return schema
}

// ifKind is a schema for the limits of one kind. Editors show the hint for a property that is false.
func ifKind(kind runtime.Kind, hint string, properties object) object {
	then := object{"type": "object", "properties": properties}
	if hint != "" {
		then["errorMessage"] = hint
	}
	return object{
		"if": object{
			"type": "object", "properties": object{"kind": object{"const": kind.String()}}, "required": []string{"kind"},
		},
		"then": then,
	}
}

var limitsSchema = object{
	"type":                 "object",
	"minProperties":        1,
	"propertyNames":        object{"pattern": limitNamePattern, "maxLength": runtime.MaxKey},
	"additionalProperties": object{"$ref": "#/definitions/limit"},
	"defaultSnippets": []any{object{
		"label": "limit",
		"body":  object{"${1:name}": object{"kind": "${2:token bucket}", "rate": "^${3:10}", "period": "${4:1m}"}},
	}},
}

var typeSchema = object{"anyOf": []any{
	object{"enum": keyTypes},
	object{"type": "string", "pattern": addrPrefixPattern},
	object{"type": "string", "pattern": typePattern, "not": object{"pattern": unimportedPattern}},
}}

var partSchema = object{"type": "string", "pattern": partPattern, "not": object{"enum": unusableParts()}}

// keySchema is the schema of a name or a map. It has two types, because editors would show the errors of both schemas of
// an anyOf.
var keySchema = object{
	"type":                 []string{"string", "object"},
	"pattern":              partPattern,
	"not":                  object{"enum": unusableParts()},
	"minProperties":        1,
	"maxProperties":        maxKeyParts,
	"propertyNames":        partSchema,
	"additionalProperties": typeSchema,
}

// durationSchema is the schema of a positive duration.
var durationSchema = object{"type": "string", "pattern": durationPattern}

// periodSchema has one pattern too.
var periodSchema = object{"type": "string", "pattern": durationPattern + "|" + calendarPattern}

// startSchema has one pattern, so that editors show the patternErrorMessage if it does not match.
var startSchema = object{
	"type":    []string{"string", "integer"},
	"minimum": 0,
	"maximum": 0,
	"pattern": "^(0|" + firstUse + ")$|" + offsetPattern + "|" + instantPattern + "|" + calendarStartPattern,
	"defaultSnippets": []any{
		object{"label": firstUse, "body": firstUse},
		object{"label": "0", "body": "0"},
	},
}

// numberSchema is the schema of a whole number. For editors that read YAML 1.2, 40_000 is text.
func numberSchema(least, most int64) object {
	return object{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": "^[1-9][0-9]*(_[0-9]+)+$"}
}

// reservedSchema is the schema of a maxReserved.
var reservedSchema = object{
	"type": []string{"integer", "string"}, "minimum": 0, "maximum": int64(mostReserved), "pattern": "^([1-9][0-9]*(_[0-9]+)+|" + unboundedWord + ")$",
	"defaultSnippets": []any{
		object{"label": unboundedWord, "body": unboundedWord},
		object{"label": "0", "body": 0},
	},
}

func kindNames() []string { return texts(runtime.Kinds()) }

// Field describes a field of limits.yaml in plain text.
type Field struct {
	Name string
	// Of is the owner of the field: "the file", "a limit", "a lease", "overrides" or "a group".
	Of string
	// Meaning explains the field, Accepts describes its valid values, and Absent is the default, or "".
	Meaning, Accepts, Absent string
	// Sets is the field of [runtime.Policy] that holds the value, or for a lease of [runtime.Lease] and for overrides
	// of [runtime.OverrideBounds]; "" if none does.
	Sets     string
	Required bool
	// Example is the field with a valid value.
	Example string
}

// Fields returns every field, in the order of the reference in README.md.
func Fields() []Field {
	return slices.Concat(fieldsIn("the file", fileFields), fieldsIn("a limit", limitFields), fieldsIn("a lease", leaseFields),
		fieldsIn("overrides", overrideFields), fieldsIn("a group", groupFields))
}

func fieldsIn[D, T any](of string, fields []field[D, T]) (list []Field) {
	for _, f := range fields {
		list = append(list, Field{
			Name: f.name, Of: of, Sets: f.sets, Required: f.required, Example: f.name + ": " + f.example,
			Meaning: withoutMarks(f.meaning()), Accepts: withoutMarks(f.accepts), Absent: withoutMarks(f.absent),
		})
	}
	return list
}

var plansSchema = object{
	"type": "array", "minItems": 1, "maxItems": maxPlans, "uniqueItems": true,
	"items": object{"type": "string", "pattern": planPattern, "maxLength": longestPlan, "patternErrorMessage": capital(planHelp) + "."},
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
	both["propertyNames"] = object{"pattern": planPattern, "maxLength": longestPlan}
	both["additionalProperties"] = one
	return both
}
