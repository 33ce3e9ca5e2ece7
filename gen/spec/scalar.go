package spec

import (
	"gopkg.in/yaml.v3"
)

func isString(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!str" }

// text returns the value of a field that must be text, or reports that it is something else.
func (p *parser) text(e entry, want string) (string, bool) {
	if isString(e.value) {
		return e.value.Value, true
	}
	p.wrongType(e, want, "")
	return "", false
}

// wrongType reports a value that is not even of the sort that is wanted.
func (p *parser) wrongType(e entry, want, help string) {
	p.report(e.at, wrongType, help, "%s must be %s, not %s", e.name, want, describe(e.value))
}
