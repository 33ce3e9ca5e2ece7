package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

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
