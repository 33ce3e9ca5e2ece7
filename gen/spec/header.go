package spec

import (
	"go/token"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"
)

const identifierPattern = `^[A-Za-z_][A-Za-z0-9_]*$`

var identifierForm = regexp.MustCompile(identifierPattern)

func (p *parser) version(_ *File, e entry) bool {
	switch {
	case e.value.Value == "1" && (isString(e.value) || e.value.Tag == "!!int"):
		return true
	case isLaterVersion(e.value):
		p.report(e.at, badVersion, "a later ratelimitgen may read it: go get -tool github.com/ratelimitgen/ratelimitgen/cmd/ratelimitgen@latest",
			"version must be 1, not %s", describe(e.value))
	default:
		p.report(e.at, badVersion, "write version: 1", "version must be 1, not %s", describe(e.value))
	}
	return false
}

var laterForm = regexp.MustCompile(`^[1-9][0-9]*$`)

// isLaterVersion reports whether a version is that of a format that is not known yet.
func isLaterVersion(n *yaml.Node) bool {
	return n.Tag == "!!int" && n.Value != "1" && laterForm.MatchString(n.Value)
}

// laterVersion returns the version of a file in a format that is not known yet, and so cannot be judged;
// nil if it is not.
func laterVersion(root *yaml.Node) *yaml.Node {
	for i := 0; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
		if root.Content[i].Value == "version" && isLaterVersion(root.Content[i+1]) {
			return root.Content[i+1]
		}
	}
	return nil
}

func (p *parser) packageName(file *File, e entry) bool {
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
		p.report(e.at, badPackage, help, "package cannot be %s, a name that go build does not build", quote(name))
	default:
		p.report(e.at, badPackage, help, "package must be a Go identifier, not %s", quote(name))
	}
	return false
}

// ignoredPackages are the identifiers that no package has that can be built.
var ignoredPackages = []string{"_", "documentation"}

// IsPackageName reports whether name can be the name of a generated package: an identifier in ASCII that
// go build does not pass over.
func IsPackageName(name string) bool {
	return identifierForm.MatchString(name) && !token.IsKeyword(name) && !slices.Contains(ignoredPackages, name)
}

// unusablePackages are the identifiers that [IsPackageName] refuses.
func unusablePackages() []string { return slices.Concat(ignoredPackages, goKeywords()) }

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
