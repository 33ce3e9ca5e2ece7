package spec

import "regexp"

// sameGoNames reports limits that would become the same Go method.
func (p *parser) sameGoNames(entries []entry, limits []*Limit) {
	first := map[string]int{}
	for i, limit := range limits {
		before, twice := first[limit.GoName]
		if !twice {
			first[limit.GoName] = i
			continue
		}
		p.report(entries[i].named, sameGoName, "set goName on one of them",
			"%s and %s both become the Go method %s", quote(entries[before].name), quote(entries[i].name), clip(limit.GoName))
		p.note(entries[before].named, "the first is here")
	}
}

// reservedGoNames are the methods that the generated type has besides the limits.
var reservedGoNames = map[string]bool{"All": true, "WithTx": true}

const exportedPattern = `^[A-Z][A-Za-z0-9_]*$`

var exportedForm = regexp.MustCompile(exportedPattern)

func (p *parser) reservedGoName(at span, name string) {
	p.report(at, reservedName, "choose another name with goName:", "the generated code has a method %s of its own", name)
}

func (p *parser) goName(limit *Limit, e entry) bool {
	name, ok := p.text(e, "an exported Go identifier")
	if !ok {
		return false
	}
	switch {
	case exportedForm.MatchString(name) && !reservedGoNames[name]:
		limit.GoName = name
		return true
	case reservedGoNames[name]:
		p.reservedGoName(e.at, name)
	default:
		help := "begin with a capital letter and use letters and digits only"
		if meant := goName(camelCase(name)); meant != "" {
			help = didYouMean(meant)
		}
		p.report(e.at, badGoName, help, "goName must be an exported Go identifier, not %s", quote(name))
	}
	return false
}
