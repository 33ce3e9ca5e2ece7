package fields

import (
	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// parser reads the fields of a file.
type parser struct {
	doc *document.Document
	// plans are those of the file. With plansUnknown, some of them have errors, and the plans of limits are not checked.
	plans        []spec.Plan
	plansUnknown bool
	// defaults are the entries of the defaults, at most one of each name. With defaultsUnknown, some of them have errors, and
	// it is unknown what limits lack.
	defaults        []document.Entry
	defaultsUnknown bool
	// limitFields are the names of the fields of a limit, and defaultFields those that defaults can have. The functions that a
	// table of fields contains cannot refer to that table: Go would report an initialization cycle.
	limitFields, defaultFields []string
	// drafts are the limits of the file by name, with those that have diagnostics.
	drafts map[string]*draft
	// groupsGiven holds the entries groups:, which are read after the limits of the file.
	groupsGiven []document.Entry
	// owners has what each Go name belongs to.
	owners map[string]owner
}

func newParser(doc *document.Document) *parser {
	return &parser{doc: doc, drafts: map[string]*draft{}, owners: map[string]owner{}}
}

// owner is a limit, its overrides or its numbers, a group, a plan, or a part of a key with several types, each of which has
// Go names.
type owner struct {
	what string
	at   diag.Span
	// plan is set for a plan and part for a part of a key, which have no goName.
	plan, part bool
}

// claim keeps Go names for an owner, or reports the first one that another owner has. A name follows its sort: "method
// SendMessage", or "name PlanFree" for a type or a constant.
func (p *parser) claim(own owner, names ...string) {
	for _, name := range names {
		switch other, taken := p.owners[name]; {
		case !taken:
			p.owners[name] = own
		case other.what != own.what:
			help := "set goName on one of them"
			switch {
			case own.part || other.part:
				help = "rename one of them: parts of keys of one name and the same types share a Go type"
			case own.plan && other.plan:
				help = "rename one of the plans, which have no goName"
			case own.plan:
				help = "rename the plan, or set goName on " + other.what
			case other.plan:
				help = "set goName on it, or rename the plan"
			}
			p.doc.Report(own.at, ids.SameGoName, help, "%s and %s both have the Go %s", other.what, own.what, diag.Clip(name))
			p.doc.Note(other.at, "the first is here")
			return
		}
	}
}
