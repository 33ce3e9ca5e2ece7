package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

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

var plansSchema = object{
	"type": "array", "minItems": 1, "maxItems": maxPlans, "uniqueItems": true,
	"items": object{"type": "string", "pattern": planPattern, "maxLength": longestPlan, "patternErrorMessage": capital(planHelp) + "."},
}
