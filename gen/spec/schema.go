package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// object is a part of a JSON Schema.
type object = map[string]any

// Schema returns the JSON Schema (draft-07) of limits.yaml, indented, for editors. It knows the fields and
// their values, but not every rule of [Parse].
func Schema() []byte {
	schema := mapSchema(fileFields)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["title"] = "Rate limits"
	schema["definitions"] = object{"limit": limitSchema()}
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
		ifKind(runtime.TokenBucket, object{"start": false}),
		ifKind(runtime.SlidingWindow, object{
			"capacity":    false,
			"maxReserved": object{"const": 0},
			"start":       object{"not": object{"const": firstUse}},
		}),
	}
	return schema
}

// ifKind is a schema that holds the limits of one kind to more.
func ifKind(kind runtime.Kind, properties object) object {
	return object{
		"if":   object{"properties": object{"kind": object{"const": kind.String()}}, "required": []string{"kind"}},
		"then": object{"properties": properties},
	}
}

var limitsSchema = object{
	"type":                 "object",
	"minProperties":        1,
	"propertyNames":        object{"pattern": limitNamePattern},
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
