package fields

import (
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var limitsField = fileField{
	name: "limits", required: true,
	about:   "The limits, by name. A name is camelCase and becomes the name of a Go method.",
	accepts: "a map from names to limits, with at least one",
	example: "{sendMessage: {kind: token bucket, rate: 10, period: 1m}}",
	schema:  limitsSchema(),
	read:    (*parser).readLimits,
}

// readLimits reads the map of limits.
func (p *parser) readLimits(file *spec.File, e document.Entry) bool {
	if e.Value.Tag == "!!null" {
		p.doc.Report(e.At, ids.NoLimits, limitHelp, "the file has no limits")
		return false
	}
	entries, ok := p.doc.Entries(e.Value, e.At, "limits", limitHelp)
	if !ok {
		return false
	}
	if len(e.Value.Content) == 0 {
		p.doc.Report(e.At, ids.NoLimits, limitHelp, "the file has no limits")
	}
	entries = p.withoutFields(entries)
	drafts := make([]*draft, len(entries))
	for i, e := range entries {
		drafts[i] = p.readLimit(e)
		if drafts[i].done != nil {
			file.Limits = append(file.Limits, drafts[i].done)
		}
		if !e.Again {
			p.drafts[e.Name] = drafts[i]
		}
	}
	for i, e := range entries {
		// A name that is not valid has a diagnostic already.
		if !e.Again && spec.LimitNameForm.MatchString(e.Name) {
			p.claimLimit(e, drafts[i])
		}
	}
	return true
}

// claimLimit claims the Go names of a limit, of its overrides, of the classes of its requests, and of the structs for its
// usage and the numbers of callers.
func (p *parser) claimLimit(e document.Entry, l *draft) {
	name := diag.Quote(e.Name)
	p.claim(owner{what: "the limit " + name, at: e.Named}, "method "+l.limit.GoName)
	for _, method := range OverridesMethods(&l.limit) {
		p.claim(owner{what: "the overrides of " + name, at: e.Named}, "method "+method)
	}
	if l.done == nil {
		return
	}
	if len(l.done.Prices) > 0 {
		p.claim(owner{what: "the usage of " + name, at: e.Named}, "name "+l.done.UsageType())
	}
	p.claimPriorities(e, l.done)
	if len(l.done.CallerNumbers()) == 0 {
		return
	}
	// The only name of generated code that ends as the names of these types do.
	if own := "ErrInvalidNumbers"; l.done.NumbersType() == own {
		p.doc.Report(e.Named, ids.SameGoName, "choose another name with goName:",
			"an error of the generated code and the numbers of %s both have the Go name %s", name, own)
	} else {
		p.claim(owner{what: "the numbers of " + name, at: e.Named}, "name "+l.done.NumbersType())
	}
}

const limitHelp = "write a limit as sendMessage: {kind: token bucket, rate: 10, period: 1m}"

// withoutFields returns the limits without entries that are fields of the limit above, which should be indented. It
// reports them once for each limit.
func (p *parser) withoutFields(entries []document.Entry) []document.Entry {
	var limits []document.Entry
	reported := false
	for i, e := range entries {
		isField := e.Value.Kind == yaml.ScalarNode && slices.Contains(names(limitFields), e.Name)
		empty := i > 0 && entries[i-1].Value.Tag == "!!null"
		switch {
		case isField && reported:
		case isField && empty:
			p.doc.Report(e.Named, ids.NotIndented, "indent it below "+diag.Label(entries[i-1].Name),
				"%s is a field of a limit, not a limit", e.Name)
			// Without its fields the limit above is empty, which would be reported again.
			limits, reported = limits[:len(limits)-1], true
		default:
			limits, reported = append(limits, e), false
		}
	}
	return limits
}

// readLimit reads one limit.
func (p *parser) readLimit(e document.Entry) *draft {
	l := &draft{policy: unchecked{Name: e.Name}, limit: spec.Limit{GoName: spec.GoName(e.Name), Pos: e.Named.Pos,
		Places: map[string]diag.Pos{}}}
	atFirst := len(p.doc.Found)
	// The first entry of that name has been checked.
	if !e.Again {
		p.limitName(e, "limit")
	}
	defer p.doc.Enter(diag.Label(e.Name))()
	entries, ok := p.doc.Entries(e.Value, e.At, "a limit", limitHelp)
	if !ok {
		return l
	}
	entries = p.withDefaults(l, entries)
	before := len(p.doc.Found)
	given := readFields(p, limitFields, l, entries, e.Named, p.doc.Complete(e.Value) && !p.defaultsUnknown)
	l.given, l.clean = map[string]document.Entry{}, len(p.doc.Found) == before
	for field, e := range given {
		l.keep(field, e)
	}
	// A goName has been checked by its reader, and replaces the name derived from the limit's.
	if !l.gives("goName") && !e.Again {
		p.reservedGoName(e.Named, l.limit.GoName)
	}
	p.settlePlans(l)
	if len(p.doc.Found) == before {
		p.checkOverrides(l)
	}
	if len(p.doc.Found) == atFirst {
		p.finish(l, e)
	}
	return l
}

// limitName reports the name of a limit or group that is not camelCase or too long.
func (p *parser) limitName(e document.Entry, what string) {
	if spec.LimitNameForm.MatchString(e.Name) {
		if len(e.Name) > runtime.MaxKey {
			p.doc.Report(e.Named, ids.NameTooLong, "choose a shorter name: goName would shorten the method's name only",
				"the name of a %s has at most %d bytes, and %s has %s", what, runtime.MaxKey, diag.Quote(e.Name), words.Number(int64(len(e.Name))))
		}
		return
	}
	p.doc.Report(e.Named, ids.BadName, "begin with a lowercase letter and use letters and digits only",
		"the name of a %s must be camelCase, not %s", what, diag.Quote(e.Name))
	if better := spec.CamelCase(e.Name); !slices.Contains(reservedGoNames, spec.GoName(better)) {
		p.doc.Offer(better)
	}
}

func limitsSchema() object {
	schema := namedSchema("limit")
	schema["minProperties"] = 1
	schema["defaultSnippets"] = []any{object{
		"label": "limit",
		"body":  object{"${4:name}": limitSnippet},
	}}
	return schema
}

// namedSchema is the schema of a map from names to limits or groups.
func namedSchema(definition string) object {
	return object{
		"type":                 "object",
		"propertyNames":        object{"pattern": spec.LimitNameForm.String(), "maxLength": runtime.MaxKey},
		"additionalProperties": object{"$ref": "#/definitions/" + definition},
	}
}
