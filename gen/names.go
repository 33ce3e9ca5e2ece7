package gen

import (
	"bytes"
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
	// imports has the names of the packages with types of keys, by path.
	imports map[string]string
	// plans has the constants of the plans, by name.
	plans map[string]string
}

// fixedImports are the names of the packages that the source itself uses, by path.
var fixedImports = map[string]string{
	contextPath: "context",
	driverPath:  "driver",
	timePath:    "time",
	netipPath:   "netip",
	limiterPath: "limiter",
	runtimePath: "runtime",
}

func namesFor(f *spec.File) names {
	n := names{receiver: "l", imports: map[string]string{}, plans: map[string]string{}}
	for _, plan := range f.Plans {
		n.plans[plan.Name] = plan.GoName
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(f.Limits, func(l *spec.Limit) bool { return hasPart(l, name) }) ||
			slices.ContainsFunc(f.Groups, func(g *spec.Group) bool { return hasParameter(g, name) })
	}
	// All methods have the same receiver, because linters report differing ones.
	for taken(n.receiver) {
		n.receiver += "l"
	}
	for _, limit := range f.Limits {
		for _, part := range limit.Key {
			if from, _, ok := splitType(part.Type); ok {
				n.importPackage(from)
			}
		}
	}
	return n
}

// importPackage chooses the name of a package.
func (n names) importPackage(from string) {
	if n.imports[from] != "" || fixedImports[from] != "" {
		return
	}
	// The real name cannot be derived from the path, so the import always has an alias.
	base := packageName(from)
	name := base
	for i := 2; n.isTaken(name); i++ {
		name = base + strconv.Itoa(i)
	}
	n.imports[from] = name
}

func (n names) isTaken(name string) bool {
	for _, taken := range []map[string]string{fixedImports, n.imports} {
		for _, other := range taken {
			if name == other {
				return true
			}
		}
	}
	// Go forbids the name init in the scope of a file.
	return name == "init" || jen.IsReservedWord(name)
}

// register passes the names of the packages to the printer.
func (n names) register(file *jen.File) {
	file.ImportNames(fixedImports)
	for from, name := range n.imports {
		file.ImportAlias(from, name)
	}
}

// parameter returns the name of the parameter for a part of a limit's key: the name of the part, unless that would hide a
// name that the body of the method uses.
func (n names) parameter(l *spec.Limit, part string) string {
	name := part
	for name == "runtime" || name == "limiter" || name == policyName(l) || len(l.Plans) > 0 && name == planParameter || name != part && hasPart(l, name) {
		name += "Key"
	}
	return name
}

// The parameters of a key that has its own calendar.
const (
	anniversaryParameter = spec.AnniversaryParameter
	zoneParameter        = spec.ZoneParameter
)

// calendarParameter returns the name of such a parameter, which differs from the parts of the key.
func (n names) calendarParameter(l *spec.Limit, name string) string {
	for hasPart(l, name) || name == n.receiver {
		name += "OfKey"
	}
	return name
}

func hasPart(l *spec.Limit, name string) bool {
	return slices.ContainsFunc(l.Key, func(p spec.KeyPart) bool { return p.Name == name })
}

// splitType splits import/path.Type, or returns false for a predeclared type of keys.
func splitType(written string) (from, name string, ok bool) {
	if keyParts[written] != "" {
		return "", "", false
	}
	dot := strings.LastIndexByte(written, '.')
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
	contextPath = "context"
	driverPath  = "database/sql/driver"
	timePath    = "time"
	netipPath   = "net/netip"
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
	"string":        "String",
	"hashed string": "Hashed",
	"bool":          "Bool",
	"int":           "Int",
	"int64":         "Int64",
	"uint64":        "Uint64",
	"netip.Addr":    "Addr",
}

func hasParameter(g *spec.Group, name string) bool {
	return slices.Contains(g.Counts(), name) || slices.ContainsFunc(g.Keys(), func(k spec.KeyPart) bool { return k.Name == name })
}

// planParameter is the last parameter of the method of a limit or a group that depends on the plan.
const planParameter = spec.PlanParameter

// policyName is the variable with the policy of a limit, or with those of its plans.
func policyName(l *spec.Limit) string {
	if len(l.Plans) > 0 {
		return "policies" + l.GoName
	}
	return "policy" + l.GoName
}

// key is the expression for the key of the parameters of a limit's method:
//
//	runtime.KeyOf(runtime.Int64(userID), runtime.Text(team)).Since(anniversary).In(zone)
func (n names) key(l *spec.Limit) *jen.Statement {
	key := n.storedKey(l)
	if l.Policy.Calendar.Anniversary {
		key = key.Dot("Since").Call(jen.Id(n.calendarParameter(l, anniversaryParameter)))
	}
	if l.Policy.Calendar.ZonePerKey {
		key = key.Dot("In").Call(jen.Id(n.calendarParameter(l, zoneParameter)))
	}
	return key
}

// alias is a name of another package that the generated package declares too, so that its users need not import both.
type alias struct{ from, name, doc string }

func (n names) storedKey(l *spec.Limit) *jen.Statement {
	if len(l.Key) == 0 {
		return jen.Qual(runtimePath, "Key").Values()
	}
	return jen.Qual(runtimePath, "KeyOf").CallFunc(func(g *jen.Group) {
		for _, part := range l.Key {
			parameter := jen.Id(n.parameter(l, part.Name))
			if bits := part.PrefixBits(); bits > 0 {
				g.Qual(runtimePath, "AddrPrefix").Call(parameter, jen.Lit(bits))
				continue
			}
			from := keyParts[part.Type]
			if from == "" {
				from = "Text"
			}
			g.Qual(runtimePath, from).Call(parameter)
		}
	})
}
