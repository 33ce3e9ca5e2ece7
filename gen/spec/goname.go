package spec

import (
	"regexp"
	"slices"
)

// sameGoNames reports limits that would become the same Go method.
func (p *parser) sameGoNames(entries []entry, limits []*Limit) {
	first := map[string]int{}
	for i, limit := range limits {
		if entries[i].again || !limitNameForm.MatchString(entries[i].name) {
			continue // that has been said, or it has no Go name yet
		}
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

var (
	// ownMethods are those that the generated type has besides the limits.
	ownMethods = []string{"All", "WithTx"}
	// vettedMethods are those whose parameters and results go vet checks, whatever type has them.
	vettedMethods = []string{
		"GobDecode", "GobEncode", "MarshalJSON", "MarshalXML", "ReadByte", "ReadRune", "Seek", "UnmarshalJSON",
		"UnmarshalXML", "UnreadByte", "UnreadRune", "WriteByte",
	}
	reservedGoNames = slices.Concat(ownMethods, vettedMethods)
)

const exportedPattern = `^[A-Z][A-Za-z0-9_]*$`

var exportedForm = regexp.MustCompile(exportedPattern)

// reservedGoName reports a Go name that a limit cannot have. It is false if the limit can.
func (p *parser) reservedGoName(at span, name string) bool {
	const help = "choose another name with goName:"
	switch {
	case slices.Contains(ownMethods, name):
		p.report(at, reservedName, help, "the generated code has a method %s of its own", name)
	case slices.Contains(vettedMethods, name):
		p.report(at, reservedName, help, "go vet takes a method %s for the one that the standard library knows", name)
	default:
		return false
	}
	return true
}

func (p *parser) goName(limit *Limit, e entry) bool {
	name, ok := p.text(e, "an exported Go identifier")
	if !ok {
		return false
	}
	switch {
	case p.reservedGoName(e.at, name):
	case exportedForm.MatchString(name):
		limit.GoName = name
		return true
	default:
		p.report(e.at, badGoName, "begin with a capital letter and use letters and digits only",
			"goName must be an exported Go identifier, not %s", quote(name))
		p.meant(goName(camelCase(name)))
	}
	return false
}
