package fields

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var goNameField = limitField{
	name:      "goName",
	about:     "The name of the generated method.",
	accepts:   "an exported Go identifier, but not `" + strings.Join(ownMethods, "`, `") + "`, or a method whose signature go vet checks, such as `MarshalJSON`",
	absent:    "the limit's name with a capital letter, and initialisms such as ID, URL and LLM in capitals",
	example:   "SendMessage",
	schema:    goNameSchema,
	read:      func(p *parser, l *draft, e document.Entry) bool { return p.readGoName(&l.limit.GoName, e) },
	change:    ids.GoNameChanged,
	effective: func(l *spec.Limit) string { return l.GoName },
}

var (
	// ownMethods are the other methods of the generated type.
	ownMethods = []string{"All", "PeekAll", "ReserveAll", "WithConn", "WithTx"}
	// vettedMethods are the methods whose signature go vet checks on every type.
	vettedMethods = []string{
		"GobDecode", "GobEncode", "MarshalJSON", "MarshalXML", "ReadByte", "ReadRune", "Seek", "UnmarshalJSON",
		"UnmarshalXML", "UnreadByte", "UnreadRune", "WriteByte",
	}
	reservedGoNames = slices.Concat(ownMethods, vettedMethods)
)

// reservedGoName reports a Go name that no limit can have, and returns whether it is one.
func (p *parser) reservedGoName(at diag.Span, name string) bool {
	const help = "choose another name with goName:"
	switch {
	case slices.Contains(ownMethods, name):
		p.doc.Report(at, ids.ReservedName, help, "the generated code has another method %s", name)
	case slices.Contains(vettedMethods, name):
		p.doc.Report(at, ids.ReservedName, help, "go vet requires a method %s to have the signature of the standard library", name)
	default:
		return false
	}
	return true
}

// readGoName reads the Go name of a method.
func (p *parser) readGoName(into *string, e document.Entry) bool {
	name, ok := p.doc.Text(e, "an exported Go identifier")
	switch {
	case !ok || p.reservedGoName(e.At, name):
	case spec.ExportedForm.MatchString(name):
		*into = name
		return true
	default:
		p.doc.Report(e.At, ids.BadGoName, "begin with a capital letter and use letters and digits only",
			"goName must be an exported Go identifier, not %s", diag.Quote(name))
		p.doc.Offer(spec.GoName(spec.CamelCase(name)))
	}
	return false
}

var goNameSchema = object{"type": "string", "pattern": spec.ExportedForm.String(), "not": object{"enum": reservedGoNames}}
