package fields

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var defaultsField = fileField{
	name: "defaults", synonyms: []string{"default", "common", "global", "globals"},
	about:   "Values for the limits that do not give their own.",
	more:    "A default is for the limits that can have it: `zone` for a `period` in calendar units, `denyCache` not with capacity 0, `denyCache` and `jitter` not with the rate `unlimited`.",
	accepts: "a map with any of " + words.List(words.Of(names(defaultFields), func(name string) string { return "`" + name + "`" }), "and"),
	absent:  "each limit has its own values",
	example: "{timeout: 250ms, onError: open}",
	schema:  defaultsSchema,
	read:    (*parser).readDefaults,
}

// defaultFields are the fields that a file can give for all limits at once. Others, such as a rate, belong to one limit.
var defaultFields = []limitField{
	byDefault(kindField, "The kind of the limits that give none."),
	byDefault(zoneField, "The zone of the limits that give none and have a `period` in calendar units. Other limits do not take it."),
	byDefault(timeoutField, "The timeout of the limits that give none."),
	byDefault(onErrorField, "The decision of the limits that give none, if the store fails."),
	byDefault(jitterField, "The jitter of the limits that give none. Limits with an unlimited rate do not take it."),
	byDefault(denyCacheField, "The denyCache of the limits that give none. Limits with capacity 0 or an unlimited rate do not take it."),
}

// byDefault returns the entry of a field in the defaults, made of its entry in a limit.
func byDefault(f limitField, about string) limitField {
	f.about, f.more, f.absent = about, "", "none"
	f.requiredBy, f.conditions = nil, nil
	return f
}

var defaultsSchema = mapSchema(defaultFields)

// defaultsConditions are what the schema of a file demands of its limits because of the defaults, or of what these lack.
func defaultsConditions() (list []any) {
	add := func(defaults, limit object) {
		// A pattern, because editors would complete another property limits.
		limits := object{"^limits$": object{"type": "object", "additionalProperties": limit}}
		list = append(list, object{"if": defaults, "then": object{"type": "object", "patternProperties": limits}})
	}
	lacks := func(field string) object { return object{"not": having(defaultsField.name, having(field, object{}))} }
	add(lacks("kind"), object{"type": "object", "required": []string{"kind"}})
	add(lacks("zone"), object{"if": having("period", isCalendar), "then": object{"type": "object", "required": []string{"zone"}}})
	noKind := object{"type": "object", "not": object{"required": []string{"kind"}}}
	for _, kind := range runtime.Kinds() {
		add(having(defaultsField.name, isKind(kind)), object{"if": noKind, "then": refToKind(kind)})
	}
	return list
}

// readDefaults keeps the defaults for [parser.withDefaults], which reads them into each limit.
func (p *parser) readDefaults(_ *spec.File, e document.Entry) bool {
	const help = "write defaults: {timeout: 250ms}"
	before := len(p.doc.Found)
	entries, ok := p.doc.Entries(e.Value, e.At, e.Name, help)
	if ok {
		leave := p.doc.Enter(e.Name)
		entries = p.withoutOwn(entries)
		// A value with an error has no second one at each limit.
		read := readFields(p, defaultFields, new(draft), entries, e.Named, false)
		for _, value := range entries {
			if _, valid := read[value.Name]; !valid {
				p.doc.Mute(value.Value)
			}
		}
		leave()
	}
	ok = len(p.doc.Found) == before
	if !e.Again {
		p.defaults = slices.DeleteFunc(entries,
			func(e document.Entry) bool { return e.Again || !slices.Contains(p.defaultFields, e.Name) })
		p.defaultsUnknown = !ok || !p.doc.Complete(e.Value)
	}
	return ok
}

// withoutOwn reports and removes entries whose fields only a limit can have.
func (p *parser) withoutOwn(entries []document.Entry) (known []document.Entry) {
	for _, e := range entries {
		if slices.Contains(p.defaultFields, e.Name) || !slices.Contains(p.limitFields, e.Name) {
			known = append(known, e)
			continue
		}
		if !e.Again {
			p.doc.Report(e.Named, ids.UnknownField, "give each limit its own "+e.Name+": the fields with defaults are "+
				words.List(p.defaultFields, "and"), "%s has no default", e.Name)
		}
	}
	return known
}

// withDefaults appends to the entries of a limit each default that suits it and that it does not give itself.
func (p *parser) withDefaults(l *draft, entries []document.Entry) []document.Entry {
	l.entries = entries
	for _, f := range defaultFields {
		i := slices.IndexFunc(p.defaults, func(e document.Entry) bool { return e.Name == f.name })
		// The kind comes first, because it decides what suits.
		if i < 0 || l.has(f.name) || f.suits != nil && !f.suits(l) {
			continue
		}
		l.entries = append(l.entries, p.defaults[i])
		if l.limit.ByDefault == nil {
			l.limit.ByDefault = map[string]bool{}
		}
		l.limit.ByDefault[f.name] = true
	}
	return l.entries
}

// FromDefaults lists the values that a limit has from the defaults of its file, as limits.yaml writes them: "timeout: 250ms,
// onError: open".
func FromDefaults(l *spec.Limit) string {
	var parts []string
	for _, f := range defaultFields {
		if l.ByDefault[f.name] {
			parts = append(parts, f.name+": "+f.effective(l))
		}
	}
	return strings.Join(parts, ", ")
}
