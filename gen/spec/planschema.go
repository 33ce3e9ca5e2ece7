package spec

import (
	"fmt"
	"maps"
	"slices"
)

var plansSchema = object{
	"type": "array", "minItems": 1, "uniqueItems": true,
	"items": object{"type": "string", "pattern": planPattern, "maxLength": longestPlan, "patternErrorMessage": capital(planHelp) + "."},
}

// orByPlan is a schema of either a value, or a map with one for each plan. The names of the plans are those of the file,
// which a schema cannot refer to; see [SchemaFor].
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

// SchemaFor is [Schema] for editors of one file: it knows the names of the file's plans, which a schema cannot refer to.
func SchemaFor(f *File) []byte { return encodeSchema(fileSchemaFor(f)) }

// StrictSchemaFor is [StrictSchema] for one file.
func StrictSchemaFor(f *File) []byte { return encodeSchema(strict(fileSchemaFor(f)).(object)) }

func fileSchemaFor(f *File) object {
	schema := fileSchema()
	if len(f.Plans) == 0 {
		return schema
	}
	names := make([]string, len(f.Plans))
	for i, plan := range f.Plans {
		names[i] = plan.Name
	}
	fields := schema["definitions"].(object)["limit"].(object)["properties"].(object)
	for _, field := range limitFields {
		if field.byPlan {
			nameEveryPlan(fields[field.name].(object), names, field.name == "rate")
		}
	}
	return schema
}

// nameEveryPlan replaces the map with any names in a schema by one with the plans. The other fields may leave out plans
// with an unlimited rate.
func nameEveryPlan(schema object, names []string, required bool) {
	properties := object{}
	for _, name := range names {
		one := maps.Clone(schema["additionalProperties"].(object))
		one["title"] = name
		properties[name] = one
	}
	delete(schema, "propertyNames")
	schema["properties"], schema["additionalProperties"] = properties, false
	if required {
		schema["required"] = names
	}
}
