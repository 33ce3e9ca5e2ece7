package spec

import (
	"go/token"
	"regexp"
	"slices"
)

// importedNames are the names by which generated code may import packages, other than those of key types.
var importedNames = []string{"runtime", "context", "time"}

const identifierPattern = `^[A-Za-z_][A-Za-z0-9_]*$`

var identifierForm = regexp.MustCompile(identifierPattern)

func (p *parser) version(_ *File, e entry) bool {
	switch {
	case e.value.Value == "1" && (isString(e.value) || e.value.Tag == "!!int"):
		return true
	case e.value.Tag == "!!int":
		p.report(e.at, badVersion, "a later ratelimitgen may read it: go get -tool github.com/ratelimitgen/ratelimitgen/cmd/ratelimitgen@latest",
			"version must be 1, not %s", describe(e.value))
	default:
		p.report(e.at, badVersion, "write version: 1", "version must be 1, not %s", describe(e.value))
	}
	return false
}

func (p *parser) packageName(file *File, e entry) bool {
	name, ok := p.text(e, "a Go identifier")
	if !ok {
		return false
	}
	const help = "choose another name, such as limits"
	switch {
	case token.IsKeyword(name):
		p.report(e.at, badPackage, help, "package cannot be %s, a keyword of Go", quote(name))
	case !identifierForm.MatchString(name):
		p.report(e.at, badPackage, help, "package must be a Go identifier, not %s", quote(name))
	case name == "main", name == "_":
		p.report(e.at, badPackage, help, "package cannot be %s, which nobody can import", quote(name))
	case slices.Contains(importedNames, name):
		p.report(e.at, badPackage, help, "package cannot be %s, the name of a package that generated code imports", quote(name))
	default:
		file.Package = name
		return true
	}
	return false
}

// unusablePackages are the identifiers that [parser.packageName] refuses.
func unusablePackages() []string {
	return slices.Concat([]string{"main", "_"}, importedNames, goKeywords())
}

// goKeywords are the keywords of Go.
func goKeywords() []string {
	var keywords []string
	for t := token.Token(0); t < 1<<8; t++ {
		if t.IsKeyword() {
			keywords = append(keywords, t.String())
		}
	}
	return keywords
}
