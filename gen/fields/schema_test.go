package fields

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
)

// beyondSchema are the rules that a JSON Schema cannot express, because they are about the text of the file, or compare
// values that are not constants.
var beyondSchema = []*ids.Meaning{
	ids.FileTooLarge, ids.InvalidUTF8, ids.ControlCharacter, ids.Syntax, ids.SecondDocument, ids.Anchor, ids.MergeKey, ids.Tag, ids.NameNotText, ids.Duplicate,
	ids.LeadingZero, ids.ReservedName, ids.SameGoName, ids.NothingPasses, ids.NothingCached, ids.TooManyShards, ids.BadLease, ids.BadOverrides, ids.BadExceptions, ids.BadDoc,
	ids.NoPlans, ids.UnknownPlan, ids.MissingPlan, ids.UnlimitedPlan, ids.PlansDiffer, ids.PlanCarry,
	ids.UnknownLimit, ids.UnboundKeyPart, ids.ParameterType, ids.CannotPass, ids.TakenAndChecked,
}

// partlyInSchema are the rules whose syntax only is in the schema: not the length of a duration, whether a day exists, which
// names are plans, the order of percentages, or how many digits a price has. And in a schema, 10.0 equals 10, and false may
// be off.
var partlyInSchema = []*ids.Meaning{ids.BadMode, ids.BadCount, ids.BadVersion, ids.BadPrices, ids.BadNumbers, ids.NotWhole, ids.OutOfRange, ids.BadDuration, ids.BadStart, ids.NotForPeriod, ids.BadWarn}

// inSchema reports whether a file that breaks the rule must be invalid by the schema too.
func inSchema(id string) bool {
	return !slices.ContainsFunc(slices.Concat(beyondSchema, partlyInSchema), func(r *ids.Meaning) bool { return r.ID == id })
}

func TestSchemaAgreesWithParse(t *testing.T) {
	schema := readSchema(t, Schema())
	for name, src := range corpus(t, "good") {
		assert.Empty(t, schema.check(value(t, src)), name)
	}
	for name, src := range corpus(t, "bad") {
		if _, ds := Parse(name, src); slices.ContainsFunc(idsOf(ds), inSchema) {
			assert.NotEmpty(t, schema.check(value(t, src)), name)
		}
	}
}

// A bad file has many limits, and the schema must agree about each of them.
func TestSchemaAgreesOnEveryLimit(t *testing.T) {
	schema := readSchema(t, Schema())
	for name, src := range corpus(t, "bad") {
		var file struct {
			Defaults yaml.Node
			Limits   map[string]yaml.Node
		}
		_, ds := Parse(name, src)
		if yaml.Unmarshal(src, &file) != nil || slices.ContainsFunc(idsOf(ds), aboutNames) || len(ofLimit(ds, "defaults")) > 0 {
			continue
		}
		defaults := any(map[string]any{})
		if file.Defaults.Kind != 0 {
			defaults = plainValue(t, &file.Defaults)
		}
		for limit, node := range file.Limits {
			problems := schema.check(map[string]any{"version": 1.0, "defaults": defaults, "limits": map[string]any{limit: plainValue(t, &node)}})
			broken := idsOf(ofLimit(ds, limit))
			if len(broken) == 0 {
				assert.Empty(t, problems, "%s: %s", name, limit)
			}
			if slices.ContainsFunc(broken, inSchema) {
				assert.NotEmpty(t, problems, "%s: %s is %v", name, limit, broken)
			}
		}
	}
}

// aboutNames reports whether a rule is about names or the text, so that its diagnostics do not name a limit.
func aboutNames(id string) bool {
	return slices.ContainsFunc([]*ids.Meaning{ids.Anchor, ids.MergeKey, ids.Tag, ids.NameNotText, ids.Duplicate, ids.NotIndented, ids.ControlCharacter}, func(r *ids.Meaning) bool { return r.ID == id })
}

// ofLimit returns the diagnostics about a limit.
func ofLimit(ds diag.Diagnostics, limit string) diag.Diagnostics {
	return slices.DeleteFunc(slices.Clone(ds), func(d diag.Diagnostic) bool {
		return !strings.HasPrefix(d.Message, diag.Label(limit)+": ") && !strings.HasPrefix(d.Message, diag.Label(limit)+" must be ") && !strings.Contains(d.Message, diag.Quote(limit))
	})
}

// schemaChecker checks values against a JSON Schema, with the keywords of ours only.
type schemaChecker struct {
	t    *testing.T
	root map[string]any
}

func readSchema(t *testing.T, schema []byte) schemaChecker {
	t.Helper()
	var root map[string]any
	require.NoError(t, json.Unmarshal(schema, &root))
	return schemaChecker{t, root}
}

func (c schemaChecker) check(v any) []string { return c.problems(c.root, v) }

func (c schemaChecker) valid(schema, v any) bool { return len(c.problems(schema, v)) == 0 }

// keywords are the words of a schema that do not make a value invalid by themselves.
var keywords = []string{
	"$schema", "$id", "examples", "errorMessage", "title", "description", "markdownDescription", "patternErrorMessage", "definitions", "defaultSnippets", "then", "else", "required",
	"additionalProperties",
}

// problems returns the words of the schema that the value breaks.
func (c schemaChecker) problems(schema, v any) (broken []string) {
	if allowed, ok := schema.(bool); ok {
		if !allowed {
			return []string{"false"}
		}
		return nil
	}
	rules := schema.(map[string]any)
	for word, want := range rules {
		if !c.keeps(rules, word, want, v) {
			broken = append(broken, word)
		}
	}
	return broken
}

func (c schemaChecker) keeps(rules map[string]any, word string, want, v any) bool {
	object, isObject := v.(map[string]any)
	list, isList := v.([]any)
	text, isText := v.(string)
	number, isNumber := v.(float64)
	switch word {
	case "$ref":
		return c.valid(c.root["definitions"].(map[string]any)[strings.TrimPrefix(want.(string), "#/definitions/")], v)
	case "type":
		return isType(want, v)
	case "enum":
		return slices.ContainsFunc(want.([]any), func(one any) bool { return reflect.DeepEqual(one, v) })
	case "const":
		return reflect.DeepEqual(want, v)
	case "anyOf":
		return slices.ContainsFunc(want.([]any), func(one any) bool { return c.valid(one, v) })
	case "allOf":
		return !slices.ContainsFunc(want.([]any), func(one any) bool { return !c.valid(one, v) })
	case "not":
		return !c.valid(want, v)
	case "if":
		if !c.valid(want, v) {
			return rules["else"] == nil || c.valid(rules["else"], v)
		}
		return c.valid(rules["then"], v)
	case "pattern":
		return !isText || utf8.ValidString(text) && regexp.MustCompile(want.(string)).MatchString(text)
	case "maxLength":
		return !isText || utf8.RuneCountInString(text) <= int(want.(float64))
	case "minimum":
		return !isNumber || number >= want.(float64)
	case "maximum":
		return !isNumber || number <= want.(float64)
	case "maxItems":
		return !isList || len(list) <= int(want.(float64))
	case "minItems":
		return !isList || len(list) >= int(want.(float64))
	case "uniqueItems":
		return !isList || len(list) == len(slices.CompactFunc(slices.SortedFunc(slices.Values(list), func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }), reflect.DeepEqual))
	case "items":
		return !slices.ContainsFunc(list, func(one any) bool { return !c.valid(want, one) })
	case "minProperties":
		return !isObject || len(object) >= int(want.(float64))
	case "maxProperties":
		return !isObject || len(object) <= int(want.(float64))
	case "propertyNames":
		return c.everyName(want, object)
	case "properties":
		return c.everyProperty(rules, object)
	case "patternProperties":
		return c.everyMatch(want.(map[string]any), object)
	}
	if word == "required" {
		return !isObject || !slices.ContainsFunc(want.([]any), func(name any) bool { _, ok := object[name.(string)]; return !ok })
	}
	if word == "additionalProperties" && rules["properties"] == nil {
		return c.everyProperty(rules, object)
	}
	require.Contains(c.t, keywords, word, "a word that the schemaChecker does not support")
	return true
}

func (c schemaChecker) everyName(schema any, object map[string]any) bool {
	for name := range object {
		if !c.valid(schema, name) {
			return false
		}
	}
	return true
}

// everyMatch checks the values of a map by the schemas of the patterns that their names match.
func (c schemaChecker) everyMatch(schemas, object map[string]any) bool {
	for name, v := range object {
		for pattern, schema := range schemas {
			if regexp.MustCompile(pattern).MatchString(name) && !c.valid(schema, v) {
				return false
			}
		}
	}
	return true
}

// everyProperty checks the values of a map by the schemas of their names, or by additionalProperties.
func (c schemaChecker) everyProperty(rules map[string]any, object map[string]any) bool {
	known, _ := rules["properties"].(map[string]any)
	for name, v := range object {
		schema, ok := known[name]
		if !ok {
			schema, ok = rules["additionalProperties"]
		}
		if ok && !c.valid(schema, v) {
			return false
		}
	}
	return true
}

// isType reports whether a value is of a type, or of one of several.
func isType(want, v any) bool {
	if several, ok := want.([]any); ok {
		return slices.ContainsFunc(several, func(one any) bool { return isType(one, v) })
	}
	switch v := v.(type) {
	case nil:
		return want == "null"
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case float64:
		return want == "number" || want == "integer" && v == float64(int64(v))
	}
	return false
}

// value returns the value of a YAML file in the types of JSON; nil for an empty file.
func value(t *testing.T, src []byte) any {
	t.Helper()
	var node yaml.Node
	require.NoError(t, yaml.Unmarshal(src, &node))
	if node.Kind == 0 {
		return nil
	}
	return plainValue(t, node.Content[0])
}

func plainValue(t *testing.T, node *yaml.Node) any {
	t.Helper()
	if node.Kind == yaml.ScalarNode && node.Tag == "!!timestamp" {
		return node.Value // editors read YAML 1.2, which has no dates
	}
	if node.Kind == yaml.MappingNode {
		object := map[string]any{}
		for i := 0; i < len(node.Content); i += 2 {
			object[node.Content[i].Value] = plainValue(t, node.Content[i+1])
		}
		return object
	}
	if node.Kind == yaml.SequenceNode {
		list := []any{}
		for _, one := range node.Content {
			list = append(list, plainValue(t, one))
		}
		return list
	}
	var v any
	require.NoError(t, node.Decode(&v))
	if reflect.ValueOf(v).CanInt() {
		return float64(reflect.ValueOf(v).Int())
	}
	return v
}

// For an editor by YAML 1.1, off is false.
func TestSchemaAcceptsOffOfYAML11(t *testing.T) {
	schema := readSchema(t, Schema())
	for field, valid := range map[string]bool{"mode: off": true, `mode: "off"`: true, "mode: false": true, "mode: true": false, "penalty: off": true, "penalty: false": true, "penalty: true": false} {
		src := []byte("version: 1\nlimits:\n  a: {kind: token bucket, rate: 10, period: 1m, shards: 2, " + field + "}\n")
		assert.Equal(t, valid, schema.valid(schema.root, value(t, src)), field)
	}
	// Parse reads off with and without quotes, and names it in place of false.
	for _, field := range []string{"mode: off", `mode: "off"`, "penalty: 'off'", "penalty: off"} {
		_, ds := Parse("limits.yaml", []byte("version: 1\nlimits:\n  a: {kind: token bucket, rate: 10, period: 1m, "+field+"}\n"))
		assert.Empty(t, ds, field)
	}
}
