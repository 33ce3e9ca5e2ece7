package review

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// validator checks values against our schema: as much of JSON Schema as it uses.
type validator struct {
	t    *testing.T
	root map[string]any
}

func newValidator(t *testing.T) validator {
	t.Helper()
	var root map[string]any
	require.NoError(t, json.Unmarshal(Schema(), &root))
	return validator{t, root}
}

// problems returns where a value breaks the schema.
func (v validator) problems(at string, schema, value any) (found []string) {
	for word, want := range schema.(map[string]any) {
		if problem := v.breaks(word, want, value); problem {
			found = append(found, at+": "+word)
		}
		object, _ := value.(map[string]any)
		items, _ := value.([]any)
		switch word {
		case "$ref":
			definition := v.root["definitions"].(map[string]any)[strings.TrimPrefix(want.(string), "#/definitions/")]
			require.NotNil(v.t, definition, want)
			found = append(found, v.problems(at, definition, value)...)
		case "properties":
			for name, property := range want.(map[string]any) {
				if inside, ok := object[name]; ok {
					found = append(found, v.problems(at+"."+name, property, inside)...)
				}
			}
			for name := range object {
				if _, ok := want.(map[string]any)[name]; !ok {
					found = append(found, at+"."+name+" is not in the schema")
				}
			}
		case "items":
			for i, item := range items {
				found = append(found, v.problems(fmt.Sprintf("%s[%d]", at, i), want, item)...)
			}
		}
	}
	return found
}

// breaks reports whether a value breaks one word of a schema by itself.
func (v validator) breaks(word string, want, value any) bool {
	switch word {
	case "type":
		return !isType(want.(string), value)
	case "enum":
		return !slices.ContainsFunc(want.([]any), func(one any) bool { return reflect.DeepEqual(one, value) })
	case "const":
		return !reflect.DeepEqual(want, value)
	case "minimum":
		number, ok := value.(float64)
		return ok && number < want.(float64)
	case "required":
		object, ok := value.(map[string]any)
		return ok && slices.ContainsFunc(want.([]any), func(name any) bool { _, has := object[name.(string)]; return !has })
	case "anyOf":
		return !slices.ContainsFunc(want.([]any), func(one any) bool { return len(v.problems("", one, value)) == 0 })
	}
	require.Contains(v.t, []string{"$schema", "$ref", "title", "description", "definitions", "properties", "items"}, word)
	return false
}

func isType(want string, value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return want == "object"
	case []any:
		return want == "array"
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case float64:
		return want == "integer" && value == float64(int64(value))
	}
	return want == "null" && value == nil
}

func TestJSONKeepsToItsSchema(t *testing.T) {
	v := newValidator(t)
	eachCase(t, func(t *testing.T, _ string, _ []section, r *Review) {
		var out bytes.Buffer
		require.NoError(t, r.WriteJSON(&out))
		var answer any
		require.NoError(t, json.Unmarshal(out.Bytes(), &answer))
		assert.Empty(t, v.problems("", v.root, answer))
	})
}

func TestSchemaRefusesWhatIsNoReview(t *testing.T) {
	v := newValidator(t)
	r := Of(parse(t, "old", cases("rate: 10")), parse(t, "new", cases("rate: 20")))
	var out bytes.Buffer
	require.NoError(t, r.WriteJSON(&out))
	for _, edit := range [][2]string{
		{`"version": 1`, `"version": 2`}, {`"old": "old"`, `"old": null`}, {`"rate-changed"`, `"rate"`}, {`"loosened"`, `"looser"`},
		{`"line": 3`, `"line": 0`}, {`"given": true`, `"given": 1`}, {`"unit": "tokens"`, `"unit": "token"`}, {`"sql": []`, `"sql": null`},
		{`"about": "rule"`, `"about": "rules"`}, {`"limit": "send",`, ``},
	} {
		require.Contains(t, out.String(), edit[0])
		var answer any
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(out.String(), edit[0], edit[1])), &answer), edit)
		assert.NotEmpty(t, v.problems("", v.root, answer), "%v", edit)
	}
}

// cases returns a file of one limit.
func cases(rest string) string {
	return "version: 1\nlimits:\n  send: {kind: token bucket, period: 1m, " + rest + "}\n"
}
