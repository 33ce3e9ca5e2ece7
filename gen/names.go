package gen

import (
	"bytes"
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// names are the identifiers of a source that depend on names of the author.
type names struct {
	// receiver is the receiver of all methods, and not a parameter of any.
	receiver string
	// packages has the paths of the packages that the source uses, by their names.
	packages map[string]string
	// own is the path of the generated package, or "". It cannot import itself.
	own string
	// keyTypes has the types of the generated package that keys have, and predeclared ones.
	keyTypes map[string]bool
}

// fixedPackages are those that the source itself uses.
var fixedPackages = map[string]string{
	"context": "context",
	"driver":  "database/sql/driver",
	"sql":     "database/sql",
	"time":    timePath,
	"netip":   "net/netip",
	"limiter": limiterPath,
	"runtime": runtimePath,
	"folded":  foldedPath,
}

func namesFor(f *spec.File, own string) names {
	n := names{receiver: "l", packages: maps.Clone(fixedPackages), own: own, keyTypes: map[string]bool{}}
	var parameters []string
	for _, l := range f.Limits {
		parameters = append(parameters, spec.PartNames(l.Key)...)
	}
	for _, g := range f.Groups {
		parameters = slices.Concat(parameters, g.Counts(), g.Parameters())
	}
	// All methods have the same receiver, because linters report differing ones.
	for slices.Contains(parameters, n.receiver) {
		n.receiver += "l"
	}
	for _, l := range f.Limits {
		for _, part := range l.Key {
			for _, of := range part.Single() {
				if from, name, ok := splitType(of.GoType()); ok && from != n.own {
					n.importPackage(from)
				} else {
					n.keyTypes[cmp.Or(name, of.GoType())] = true
				}
			}
		}
	}
	return n
}

// importPackage chooses the name of a package, unless it has one.
func (n names) importPackage(from string) {
	if slices.Contains(slices.Collect(maps.Values(n.packages)), from) {
		return
	}
	base := packageName(from)
	name := base
	// Go forbids the name init in the scope of a file.
	for i := 2; n.packages[name] != "" || name == "init" || jen.IsReservedWord(name); i++ {
		name = base + strconv.Itoa(i)
	}
	n.packages[name] = from
}

// register passes the names of the packages to the printer.
func (n names) register(file *jen.File) {
	for name, from := range n.packages {
		if fixedPackages[name] != "" {
			file.ImportName(from, name)
		} else {
			// The real name cannot be derived from the path, so the import always has an alias.
			file.ImportAlias(from, name)
		}
	}
}

// parameter returns the name of the parameter for a part of a limit's key: the name of the part, unless that would hide a
// name that the body of the method uses.
func (n names) parameter(l *spec.Limit, part string) string {
	hidden := []string{"runtime", "limiter", policyName(l), exceptionsName(l), prioritiesName(l)}
	if slices.ContainsFunc(l.Key, spec.KeyPart.Folded) {
		hidden = append(hidden, "folded")
	}
	if len(l.Plans) > 0 {
		hidden = append(hidden, spec.PlanParameter)
	}
	return unhidden(part, "Key", hidden, spec.PartNames(l.Key))
}

// shared returns the name of a shared parameter. For the plan, the parts of the key make room, and otherwise it does.
func (n names) shared(l *spec.Limit, name string) string {
	if name == spec.PlanParameter {
		return name
	}
	return unhidden(name, "OfKey", append(spec.PartNames(l.Key), n.receiver), nil)
}

// unhidden returns a name, with an ending if it would hide another one. The endings do not make it the name of another
// parameter.
func unhidden(name, ending string, hidden, parameters []string) string {
	for original := name; slices.Contains(hidden, name) || name != original && slices.Contains(parameters, name); {
		name += ending
	}
	return name
}

// splitType splits import/path.Type, or returns false for a predeclared type of keys and one of the generated package.
func splitType(written string) (from, name string, ok bool) {
	dot := strings.LastIndexByte(written, '.')
	if keyParts[written] != "" || dot < 0 {
		return "", "", false
	}
	return written[:dot], written[dot+1:], true
}

var (
	majorVersion = regexp.MustCompile(`^v[0-9]+$`)
	noIdentifier = regexp.MustCompile(`^[^a-z]+|[^a-z0-9]+`)
)

// packageName returns a name for the package at a path: the last element that is not a version, without the characters
// that an identifier cannot have.
func packageName(from string) string {
	last := path.Base(from)
	if parent := path.Dir(from); majorVersion.MatchString(last) && parent != "." {
		last = path.Base(parent)
	}
	last, _, _ = strings.Cut(last, ".")
	if name := noIdentifier.ReplaceAllString(strings.ToLower(last), ""); name != "" {
		return name
	}
	return "pkg"
}

const (
	modulePath  = "github.com/ratelimitgen/ratelimitgen"
	runtimePath = modulePath + "/runtime"
	limiterPath = runtimePath + "/limiter"
	foldedPath  = runtimePath + "/folded"
	timePath    = "time"
	tzdataPath  = "time/tzdata"
)

// groupImports splits the import block of a source into two groups, the standard library and all others. The printer
// sorts all imports into one.
func groupImports(source []byte) []byte {
	const open, end = "import (\n", "\n)"
	// The source is our own, and has at least two imports, which the printer puts into one block.
	start := bytes.Index(source, []byte(open))
	if start < 0 {
		return source
	}
	start += len(open)
	length := bytes.Index(source[start:], []byte(end))
	lines := strings.Split(string(source[start:start+length]), "\n")
	others := slices.DeleteFunc(slices.Clone(lines), isStandard)
	standard := slices.DeleteFunc(lines, func(line string) bool { return !isStandard(line) })
	grouped := strings.Join(standard, "\n") + "\n\n" + strings.Join(others, "\n")
	return slices.Concat(source[:start], []byte(grouped), source[start+length:])
}

// isStandard reports whether a line imports a package of the standard library, by the rule of go get: the first element of
// its path has no dot.
func isStandard(line string) bool {
	_, path, _ := strings.Cut(line, `"`)
	first, _, _ := strings.Cut(strings.TrimSuffix(path, `"`), "/")
	return !strings.Contains(first, ".")
}

// keyParts has the function of package runtime that turns a value into a part of a key, for the predeclared types. All
// other types use runtime.Text.
var keyParts = map[string]string{
	"string":               "String",
	"folded string":        "String",
	"hashed string":        "Hashed",
	"hashed folded string": "Hashed",
	"bool":                 "Bool",
	"int":                  "Int",
	"int64":                "Int64",
	"uint64":               "Uint64",
	"netip.Addr":           "Addr",
}

// exceptionsName is the variable with the exceptions of a limit.
func exceptionsName(l *spec.Limit) string { return "exceptions" + l.GoName }

// prioritiesName is the variable with the classes of the requests of a limit.
func prioritiesName(l *spec.Limit) string { return "priorities" + l.GoName }

// policyName is the variable with the policy of a limit, or with those of its plans.
func policyName(l *spec.Limit) string {
	if len(l.Plans) > 0 {
		return "policies" + l.GoName
	}
	return "policy" + l.GoName
}
