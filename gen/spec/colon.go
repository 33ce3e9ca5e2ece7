package spec

import (
	"regexp"

	"gopkg.in/yaml.v3"
)

// tightColonForm is a name with a colon that YAML takes for a part of it.
var tightColonForm = regexp.MustCompile(`^[ \t]*(?:- )?[A-Za-z][A-Za-z0-9_-]*(:)[^\s/:]`)

// tightColon reports a name that holds its value too, since there is no space after the colon.
func (p *parser) tightColon(e entry, id string) bool {
	place := tightColonForm.FindStringSubmatchIndex(e.name)
	if place == nil || e.value.Tag != "!!null" || e.value.Kind != yaml.ScalarNode {
		return false
	}
	p.report(e.named, id, "write name: value", "a colon needs a space after it")
	p.meant(e.name[:place[3]] + " " + e.name[place[3]:])
	return true
}
