package fields

import (
	"regexp"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var versionField = fileField{
	name: "version", required: true,
	about:   "The version of this format.",
	accepts: "`1`",
	example: "1",
	schema:  object{"enum": []any{1, "1"}},
	read:    (*parser).readVersion,
}

func (p *parser) readVersion(_ *spec.File, e document.Entry) bool {
	help := "write version: 1"
	switch {
	// Some people quote versions, and "1" is not ambiguous.
	case e.Value.Value == "1" && (document.IsString(e.Value) || e.Value.Tag == "!!int"):
		return true
	case isLaterVersion(e.Value):
		help = "a newer ratelimitgen may support it: go get -tool github.com/ratelimitgen/ratelimitgen/cmd/ratelimitgen@latest"
	}
	p.doc.Report(e.At, ids.BadVersion, help, "version must be 1, not %s", document.Describe(e.Value))
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
