package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// object is a part of a JSON Schema.
type object = map[string]any

// Schema returns the JSON Schema (draft-07) of limits.yaml, indented, for editors. It knows the fields and
// their values, but not every rule of [Parse].
func Schema() []byte { return encodeSchema(fileSchema()) }

// StrictSchema is [Schema] for validators that refuse what is not in the standard, as ajv does: without the
// keywords that only editors know, and with anyOf in place of a value of several types.
func StrictSchema() []byte { return encodeSchema(strict(fileSchema()).(object)) }

func fileSchema() object {
	schema := mapSchema(fileFields)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["$id"] = "https://github.com/ratelimitgen/ratelimitgen/limits.schema.json"
	schema["title"] = "Rate limits"
	schema["definitions"] = object{"limit": limitSchema()}
	return schema
}

func encodeSchema(schema object) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		panic(fmt.Sprintf("spec: the schema is not JSON: %v", err))
	}
	return out.Bytes()
}

// mapSchema is the schema of a map with the fields of a table, and no others.
func mapSchema[T any](fields []field[T]) object {
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
			property["examples"] = []any{example} // editors complete it, and 0 otherwise, which no limit has
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

// description is what an editor shows for a field, in Markdown.
func (f field[T]) description() string {
	text := f.meaning() + " Write " + f.accepts + "."
	if f.absent != "" {
		text += " Default: " + f.absent + "."
	}
	return text
}

// meaning is all that there is to say about a field, in Markdown.
func (f field[T]) meaning() string { return strings.TrimSpace(f.about + " " + f.more) }

// withoutMarks returns Markdown of ours as plain text.
func withoutMarks(markdown string) string { return strings.ReplaceAll(markdown, "`", "") }

func limitSchema() object {
	schema := mapSchema(limitFields)
	schema["allOf"] = []any{
		ifKind(runtime.TokenBucket, "A token bucket has no windows that start.", object{"start": false}),
		ifKind(runtime.SlidingWindow, "A sliding window's capacity is its rate.", object{"capacity": false}),
		ifKind(runtime.SlidingWindow, "", object{
			"maxReserved": object{"const": 0, "errorMessage": "A sliding window cannot be reserved ahead."},
			"start":       object{"not": object{"const": firstUse}},
		}),
	}
	return schema
}

// ifKind is a schema that holds the limits of one kind to more. Editors show the reason for a property that is false.
func ifKind(kind runtime.Kind, reason string, properties object) object {
	then := object{"type": "object", "properties": properties}
	if reason != "" {
		then["errorMessage"] = reason
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
	object{"type": "string", "pattern": typePattern, "not": object{"pattern": unimportedPattern}},
}}

var partSchema = object{"type": "string", "pattern": partPattern, "not": object{"enum": unusableParts()}}

// keySchema is the schema of a name or a map. It is of two types, and not one of two schemas, each of which
// editors would show.
var keySchema = object{
	"type":                 []string{"string", "object"},
	"pattern":              partPattern,
	"not":                  object{"enum": unusableParts()},
	"minProperties":        1,
	"maxProperties":        maxKeyParts,
	"propertyNames":        partSchema,
	"additionalProperties": typeSchema,
}

// startSchema is of one pattern, so that editors say what to write if it does not match.
var startSchema = object{
	"type":    []string{"string", "integer"},
	"minimum": 0,
	"maximum": 0,
	"pattern": "^(0|" + firstUse + ")$|" + offsetPattern + "|" + instantPattern,
	"defaultSnippets": []any{
		object{"label": firstUse, "body": firstUse},
		object{"label": "0", "body": "0"},
	},
}

// numberSchema is the schema of a whole number. Editors that read YAML 1.2 take 40_000 for text.
func numberSchema(least, most int64) object {
	return object{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": "^[1-9][0-9]*(_[0-9]+)+$"}
}

func kindNames() []string { return inWords(runtime.Kinds()) }

var (
	// editorKeywords are those of the schemas that editors read, and of no standard.
	editorKeywords = []string{"markdownDescription", "defaultSnippets", "patternErrorMessage", "errorMessage"}
	// keywordsOf are the keywords that say something about values of one type only.
	keywordsOf = map[string][]string{
		"integer": {"minimum", "maximum"},
		"string":  {"pattern"},
		"object":  {"minProperties", "maxProperties", "propertyNames", "additionalProperties"},
	}
)

// strict returns a part of a schema as [StrictSchema] has it.
func strict(part any) any {
	switch part := part.(type) {
	case []any:
		list := make([]any, len(part))
		for i, one := range part {
			list[i] = strict(one)
		}
		return list
	case object:
		clean := object{}
		for name, value := range part {
			if !slices.Contains(editorKeywords, name) {
				clean[name] = strict(value)
			}
		}
		if types, ok := clean["type"].([]string); ok {
			clean["anyOf"] = alternatives(clean, types)
			delete(clean, "type")
		}
		return clean
	}
	return part
}

// alternatives takes out of a schema of several types a schema for each of them.
func alternatives(schema object, types []string) (list []any) {
	for _, t := range types {
		one := object{"type": t}
		for _, name := range keywordsOf[t] {
			if value, ok := schema[name]; ok {
				one[name] = value
				delete(schema, name)
			}
		}
		list = append(list, one)
	}
	return list
}
