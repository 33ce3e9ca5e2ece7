package spec

import (
	"go/token"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// fileFields are the fields at the top of the file.
var fileFields = []field[File, File]{
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
		schema:    object{"type": "string", "pattern": identifierPattern, "not": object{"enum": unusablePackages()}},
		read:      (*parser).packageName,
		change:    packageChanged,
		effective: func(f *File) string { return f.Package },
	},
	{
		name: "plans", synonyms: []string{"plan", "tiers", "tier"},
		about:     "The plans of your customers. `rate`, `capacity`, `maxReserved` and, for a token bucket, `period` may be a map with a value for each plan. The method of such a limit takes the plan as its last parameter.",
		more:      "Every such map names every plan, as in `rate: {free: 10, pro: 60, enterprise: unlimited}`. With the rate `unlimited`, requests of that plan are allowed without the store and not counted, and the plan is left out of the other maps. A key has one count, whatever its plan.",
		accepts:   "a list of names: each begins with a letter and has letters, digits, and single dashes or underscores between them",
		absent:    "limits are the same for all callers",
		example:   "[free, pro]",
		schema:    plansSchema,
		read:      (*parser).planList,
		change:    plansChanged,
		effective: effectivePlans,
	},
	{
		name: "limits", required: true,
		about:   "The limits, by name. A name is camelCase and becomes the name of a Go method.",
		accepts: "a map from names to limits, with at least one",
		example: "{sendMessage: {kind: token bucket, rate: 10, period: 1m}}",
		schema:  limitsSchema,
		read:    (*parser).limits,
	},
	{
		name:    "groups",
		about:   "Groups of limits, by name: one call takes from all limits of a group or, if one denies, from none. A name becomes the name of a Go method.",
		accepts: "a map from names to groups",
		absent:  "no groups",
		example: "{post: {takes: [sendMessage]}}",
		schema:  groupsSchema,
		read:    (*parser).groups,
	},
}

func (p *reader) version(_ *File, e entry) bool {
	switch {
	// Some people quote versions, and "1" is not ambiguous.
	case e.value.Value == "1" && (isString(e.value) || e.value.Tag == "!!int"):
		return true
	case isLaterVersion(e.value):
		p.report(e.at, badVersion, "a newer ratelimitgen may support it: go get -tool github.com/ratelimitgen/ratelimitgen/cmd/ratelimitgen@latest",
			"version must be 1, not %s", describe(e.value))
	default:
		p.report(e.at, badVersion, "write version: 1", "version must be 1, not %s", describe(e.value))
	}
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

func (p *reader) packageName(file *File, e entry) bool {
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
		p.report(e.at, badPackage, help, "package cannot be %s, a keyword of Go", quote(name))
	case slices.Contains(ignoredPackages, name):
		p.report(e.at, badPackage, help, "package cannot be %s, which go build ignores", quote(name))
	default:
		p.report(e.at, badPackage, help, "package must be a Go identifier, not %s", quote(name))
	}
	return false
}

// ignoredPackages are the identifiers whose packages go build ignores.
var ignoredPackages = []string{"_", "documentation"}

// IsPackageName reports whether a generated package can have the name: an ASCII identifier that go build does not ignore.
func IsPackageName(name string) bool {
	return identifierForm.MatchString(name) && !token.IsKeyword(name) && !slices.Contains(ignoredPackages, name)
}

// unusablePackages are the identifiers that [IsPackageName] refuses.
func unusablePackages() []string { return slices.Concat(ignoredPackages, goKeywords()) }
