package fields

import (
	"go/token"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var packageField = fileField{
	name:      "package",
	about:     "The name of the Go package to generate.",
	accepts:   "a Go identifier, but not `" + strings.Join(ignoredPackages, "` or `") + "`",
	absent:    "the `-package` flag, or the directory's name",
	example:   "limits",
	schema:    object{"type": "string", "pattern": diag.IdentifierForm.String(), "not": object{"enum": slices.Concat(ignoredPackages, spec.GoKeywords())}},
	read:      (*parser).readPackage,
	change:    ids.PackageChanged,
	effective: func(f *spec.File) string { return f.Package },
}

func (p *parser) readPackage(file *spec.File, e document.Entry) bool {
	name, ok := p.doc.Text(e, "a Go identifier")
	if !ok {
		return false
	}
	const help = "choose another name, such as limits"
	switch {
	case IsPackageName(name):
		file.Package = name
		return true
	case token.IsKeyword(name):
		p.doc.Report(e.At, ids.BadPackage, help, "package cannot be %s, a keyword of Go", diag.Quote(name))
	case slices.Contains(ignoredPackages, name):
		p.doc.Report(e.At, ids.BadPackage, help, "package cannot be %s, which go build ignores", diag.Quote(name))
	default:
		p.doc.Report(e.At, ids.BadPackage, help, "package must be a Go identifier, not %s", diag.Quote(name))
	}
	return false
}

// ignoredPackages are the identifiers whose packages go build ignores.
var ignoredPackages = []string{"_", "documentation"}

// IsPackageName reports whether a generated package can have the name: an ASCII identifier that go build does not ignore.
func IsPackageName(name string) bool {
	return diag.IdentifierForm.MatchString(name) && !token.IsKeyword(name) && !slices.Contains(ignoredPackages, name)
}
