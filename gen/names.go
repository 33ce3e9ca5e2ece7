package gen

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// names are the identifiers of a source that depend on what the author chose.
type names struct {
	// receiver is that of all methods, and is no parameter of any.
	receiver string
	// imports holds the name of every package that a type of a key comes from, by its path.
	imports map[string]string
}

// fixedImports are the packages that the source imports for its own use, by path.
var fixedImports = map[string]string{
	contextPath: "context",
	timePath:    "time",
	netipPath:   "netip",
	runtimePath: "runtime",
}

func namesFor(f *spec.File) names {
	n := names{receiver: "l", imports: map[string]string{}}
	taken := func(name string) bool {
		return slices.ContainsFunc(f.Limits, func(l *spec.Limit) bool { return hasPart(l, name) })
	}
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

// importPackage chooses the name of a package, which cannot be known from its path.
func (n names) importPackage(from string) {
	if n.imports[from] != "" || fixedImports[from] != "" {
		return
	}
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
	return name == "init" || jen.IsReservedWord(name) // a name of the file's scope cannot be init
}

// register tells the printer the names of the packages.
func (n names) register(file *jen.File) {
	file.ImportNames(fixedImports)
	for from, name := range n.imports {
		file.ImportAlias(from, name)
	}
}

// parameter returns the name of the parameter for a part of a limit's key: the part's own, unless the
// body of the method needs that name for something else.
func (n names) parameter(l *spec.Limit, part string) string {
	name := part
	for name == "runtime" || name == policyName(l) || name != part && hasPart(l, name) {
		name += "Key"
	}
	return name
}

func hasPart(l *spec.Limit, name string) bool {
	return slices.ContainsFunc(l.Key, func(p spec.KeyPart) bool { return p.Name == name })
}

// splitType splits import/path.Type. It is false for a type that needs no import of the author's.
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

// packageName makes a name for the package at a path: the last element that is not a version, as far as
// it can be an identifier.
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
