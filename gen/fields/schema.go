package fields

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// schemaID is the $id of the schema, by which ratelimitgen recognizes one that an earlier version wrote. It never changes.
const schemaID = "https://github.com/ratelimitgen/ratelimitgen/limits.schema.json"

// IsSchema reports whether a text is the JSON Schema of limits.yaml, of this version or another.
func IsSchema(text []byte) bool {
	var schema struct {
		ID string `json:"$id"`
	}
	return json.Unmarshal(text, &schema) == nil && schema.ID == schemaID
}

// Schema returns the JSON Schema (draft-07) of limits.yaml, indented, for editors. It covers the fields and their values,
// but not every one of [ids.Rules].
func Schema() []byte {
	schema := mapSchema(fileFields)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["$id"] = schemaID
	schema["title"] = "Rate limits"
	schema["allOf"] = defaultsConditions()
	definitions := object{"limit": limitSchema(), "group": mapSchema(groupFields)}
	for _, kind := range runtime.Kinds() {
		definitions[kindDefinition(kind)] = kindSchema(kind)
	}
	schema["definitions"] = definitions
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	// Readers of the file would see \u003c in place of <.
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		panic(fmt.Sprintf("fields: the schema is not JSON: %v", err))
	}
	return out.Bytes()
}
