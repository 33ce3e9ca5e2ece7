// Package fields has the fields of limits.yaml, and all that follows from them.
//
// [Parse] turns the bytes of the file into a [spec.File] of [spec.Limit] values with every default filled in, or into
// [diag.Diagnostics]: its first 100 errors and how many more there are, each with its place, one of [rules.Rules], and a remedy. One table of fields drives
// the parser, the [Schema] for editors, the reference in the README.md of package spec, [Describe] and [Diff].
//
// # Guarantees
//
// No value is rounded or guessed, and no part of the file is ignored. Parse does not panic on any input. Every policy of
// a File passes runtime.Policy.Validate.
package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// fileFields are the fields at the top of the file.
var fileFields = []field[spec.File, spec.File]{
	{
		name: "version", required: true,
		about:   "The version of this format.",
		accepts: "`1`",
		example: "1",
		schema:  object{"enum": []any{1, "1"}},
		read:    (*parser).version,
	},
	{
		name:      "package",
		about:     "The name of the Go package to generate.",
		accepts:   "a Go identifier, but not `" + strings.Join(ignoredPackages, "` or `") + "`",
		absent:    "the `-package` flag, or the directory's name",
		example:   "limits",
		schema:    object{"type": "string", "pattern": diag.IdentifierForm.String(), "not": object{"enum": slices.Concat(ignoredPackages, spec.GoKeywords())}},
		read:      (*parser).packageName,
		change:    spec.PackageChanged,
		effective: func(f *spec.File) string { return f.Package },
	},
	{
		name: "plans", synonyms: []string{"plan", "tiers", "tier"},
		about:     "The plans of your customers. `rate`, `capacity`, `hold`, `maxReserved` and, for a token bucket, `period` may be a map with a value for each plan. The method of such a limit takes the plan as its last parameter.",
		more:      "Every such map names every plan, as in `rate: {free: 10, pro: 60, enterprise: unlimited}`. With the rate `unlimited`, requests of that plan are allowed without the store and not counted, and the plan is left out of the other maps. A key has one count, whatever its plan.",
		accepts:   "a list of names: each begins with a letter and has letters, digits, and single dashes or underscores between them",
		absent:    "limits are the same for all callers",
		example:   "[free, pro]",
		schema:    plansSchema,
		read:      (*parser).planList,
		change:    spec.PlansChanged,
		effective: func(f *spec.File) string { return listed(f.PlanNames()) },
	},
	{
		name: "limits", required: true,
		about:   "The limits, by name. A name is camelCase and becomes the name of a Go method.",
		accepts: "a map from names to limits, with at least one",
		example: "{sendMessage: {kind: token bucket, rate: 10, period: 1m}}",
		schema:  limitsSchema(),
		read:    (*parser).limits,
	},
	{
		name:    "groups",
		about:   "Groups of limits, by name: one call takes from all limits of a group or, if one denies, from none. A name becomes the name of a Go method.",
		accepts: "a map from names to groups",
		absent:  "no groups",
		example: "{post: {takes: [sendMessage]}}",
		schema:  namedSchema("group"),
		read:    (*parser).groups,
	},
}

func (p *parser) version(_ *spec.File, e entry) bool {
	help := "write version: 1"
	switch {
	// Some people quote versions, and "1" is not ambiguous.
	case e.value.Value == "1" && (isString(e.value) || e.value.Tag == "!!int"):
		return true
	case isLaterVersion(e.value):
		help = "a newer ratelimitgen may support it: go get -tool github.com/ratelimitgen/ratelimitgen/cmd/ratelimitgen@latest"
	}
	p.report(e.at, rules.BadVersion, help, "version must be 1, not %s", describe(e.value))
	return false
}

var laterForm = regexp.MustCompile(`^[1-9][0-9]*$`)

// isLaterVersion reports whether a version may be that of a future format.
func isLaterVersion(n *yaml.Node) bool {
	return n.Tag == "!!int" && n.Value != "1" && laterForm.MatchString(n.Value)
}

// laterVersion returns the version of a file in a future format, or nil.
func laterVersion(root *yaml.Node) *yaml.Node {
	for i := 0; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
		if root.Content[i].Value == "version" && isLaterVersion(root.Content[i+1]) {
			return root.Content[i+1]
		}
	}
	return nil
}

func (p *parser) packageName(file *spec.File, e entry) bool {
	name, ok := p.text(e, "a Go identifier")
	if !ok {
		return false
	}
	const help = "choose another name, such as limits"
	switch {
	case IsPackageName(name):
		file.Package = name
		return true
	case token.IsKeyword(name):
		p.report(e.at, rules.BadPackage, help, "package cannot be %s, a keyword of Go", diag.Quote(name))
	case slices.Contains(ignoredPackages, name):
		p.report(e.at, rules.BadPackage, help, "package cannot be %s, which go build ignores", diag.Quote(name))
	default:
		p.report(e.at, rules.BadPackage, help, "package must be a Go identifier, not %s", diag.Quote(name))
	}
	return false
}

// ignoredPackages are the identifiers whose packages go build ignores.
var ignoredPackages = []string{"_", "documentation"}

// IsPackageName reports whether a generated package can have the name: an ASCII identifier that go build does not ignore.
func IsPackageName(name string) bool {
	return diag.IdentifierForm.MatchString(name) && !token.IsKeyword(name) && !slices.Contains(ignoredPackages, name)
}

// Field describes a field of limits.yaml in plain text.
type Field struct {
	Name string
	// Of is the owner of the field: "the file", "a limit", "a lease", "overrides" or "a group".
	Of string
	// Meaning explains the field, Accepts describes its valid values, and Absent is the default, or "".
	Meaning, Accepts, Absent string
	Required                 bool
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
			Name: f.name, Of: of, Required: f.required, Example: f.name + ": " + f.example,
			Meaning: withoutMarks(f.meaning()), Accepts: withoutMarks(f.accepts), Absent: withoutMarks(f.absent),
		})
	}
	return list
}

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
// but not every one of [rules.Rules].
func Schema() []byte {
	schema := mapSchema(fileFields)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["$id"] = schemaID
	schema["title"] = "Rate limits"
	schema["definitions"] = object{"limit": limitSchema(), "group": mapSchema(groupFields)}
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

// Parse reads a limits.yaml. The name is used in messages only. It returns all errors of the file at once, of more
// than 100 the first ones; the File is nil if and only if it has errors.
func Parse(name string, src []byte) (*spec.File, diag.Diagnostics) {
	source := diag.NewSource(name, string(src))
	file, p := read(source, nil)
	if len(p.found) == 0 {
		return file, nil
	}
	// Errors are not found in the order of the file: those of groups come last, wherever the groups are.
	if len(p.found) > diag.MaxDiagnostics && !p.found.Described(diag.MaxDiagnostics) {
		_, p = read(source, firstOf(p.found))
	}
	// Only now are the offers final: the field of a value may have dropped some of them.
	p.found.Suggest()
	return nil, p.found.First(diag.MaxDiagnostics)
}

// read reads a file, and returns it with its parser, which has the diagnostics in the order of the file.
func read(source *diag.Source, first *firstPlaces) (*spec.File, *parser) {
	p := newParser(source)
	p.limitFields, p.drafts, p.first = names(limitFields), map[string]*draft{}, first
	file := p.readFile()
	p.found.Sort()
	return file, p
}

func (p *parser) readFile() *spec.File {
	if !p.legible() || !p.noConflictMarkers() {
		return nil
	}
	root := p.root()
	if root == nil {
		return nil
	}
	// Other diagnostics would be misleading: this version of the program does not have the rules of a future format.
	if version := laterVersion(root); version != nil {
		p.version(nil, entry{name: "version", value: version, at: p.src.At(version)})
		return nil
	}
	// This precedes the fields, whose readers skip the values that it reports.
	p.refuseIndirection(root)
	file := &spec.File{Name: p.src.Name}
	if entries, ok := p.entries(root, p.src.At(root), "the file", "begin with version: 1"); ok {
		// The limits refer to the plans, wherever these are in the file.
		isPlans := func(e entry) bool { return e.name == "plans" }
		others := slices.DeleteFunc(slices.Clone(entries), isPlans)
		entries = slices.DeleteFunc(entries, func(e entry) bool { return !isPlans(e) })
		readFields(p, fileFields, file, append(entries, others...), p.src.At(root), p.complete(root))
		p.settleGroups(file)
	}
	return file
}
