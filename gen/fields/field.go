package fields

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// field is one name that a map of the file may contain, with everything about it. A table of fields is the
// only place that lists the fields of a map: it drives the parser, the suggestions, the JSON Schema, the reference, the diff
// and the sentences.
type field[D, T any] struct {
	name string
	// synonyms are the names of the field in other limiters, in lower case.
	synonyms []string
	required bool
	// implied reports whether a diagnostic of another field covers that a required one is missing. It may be nil.
	implied func(into *D) bool
	// requiredBy reports whether the other fields require this one. It may be nil.
	requiredBy func(into *D) bool
	// about explains the field in one cell of the reference, more is what does not fit there. Both are Markdown.
	about, more string
	// accepts describes the valid values, and absent what holds without the field. Both are Markdown.
	accepts, absent string
	// example is a valid value.
	example string
	// schema is the JSON Schema of the value, and conditions what the schema of a limit demands because of the field.
	schema     object
	conditions []any
	read       reader[D]
	// check fills in the default of the field, and reports a value that contradicts other fields, once all are read. It may be
	// nil.
	check func(p *parser, into *D)
	// suits reports whether a default of the file applies to a limit, which has not been read yet. It is nil for one that
	// applies to all.
	suits func(into *D) bool
	// change is the kind of change that a diff reports for the field. It is nil for fields whose edits are reported as changes
	// of other fields (defaults, limits, those of a lease) and for version, which has one value.
	change *ids.Meaning
	// byPlan is set if the value may be a map with a value for each plan.
	byPlan bool
	// effective returns the value that applies, given or not, as limits.yaml writes it. Equal values are written alike.
	effective func(of *T) string
	// items is set if the value is a list of which each item is compared by itself.
	items bool
	// sentences describe the value in generated doc comments. Fields may share one.
	sentences func(of *T) []string
}

// limitField is a field of a limit.
type limitField = field[draft, spec.Limit]

// fileField is a field at the top of the file.
type fileField = field[spec.File, spec.File]

// reader stores the value of an entry and returns true, or reports its errors.
type reader[D any] func(p *parser, into *D, e document.Entry) bool

// names lists the names of the fields of a table.
func names[D, T any](fields []field[D, T]) []string {
	return words.Of(fields, func(f field[D, T]) string { return f.name })
}

// withoutMarks returns our own Markdown, which has only code spans, as plain text.
func withoutMarks(markdown string) string { return strings.ReplaceAll(markdown, "`", "") }

// description is the Markdown that an editor shows for a field.
func (f field[D, T]) description() string {
	text := f.meaning() + " Write " + f.accepts + "."
	if f.absent != "" {
		text += " Default: " + f.absent + "."
	}
	return text
}

// meaning is the full explanation of a field, in Markdown.
func (f field[D, T]) meaning() string { return strings.TrimSpace(f.about + " " + f.more) }

// readFields reads the entries of a map into a value, by the table of its fields. It returns the entries without errors.
// Missing fields are reported at owner, but only if the entries are complete.
func readFields[D, T any](p *parser, fields []field[D, T], into *D, entries []document.Entry, owner diag.Span,
	complete bool) map[string]document.Entry {
	read, seen, blank := map[string]document.Entry{}, map[string]bool{}, *into
	for _, e := range entries {
		i := slices.IndexFunc(fields, func(f field[D, T]) bool { return f.name == e.Name })
		if i < 0 {
			if !e.Again {
				// A misspelled field counts as given: otherwise it would be reported as missing too.
				seen[reportUnknown(p, e, fields)] = true
				complete = complete && p.doc.Described() // otherwise it may be any of the fields
			}
			continue
		}
		seen[e.Name] = true
		before, target := len(p.doc.Found), into
		if e.Again {
			// The value must not replace the first one.
			other := *into
			target = &other
		}
		switch {
		// The value has a diagnostic already.
		case p.doc.Muted(e.Value):
		case fields[i].read(p, target, e):
			if !e.Again {
				read[e.Name] = e
			}
		default:
			dropRefused(p, p.doc.Found[before:], e, fields[i], blank)
		}
	}
	for _, f := range fields {
		required := f.required || f.requiredBy != nil && f.requiredBy(into)
		if required && complete && !seen[f.name] && (f.implied == nil || !f.implied(into)) {
			p.doc.Report(owner, ids.MissingField, "add "+f.name+": "+f.example, "%s is missing", f.name)
		}
	}
	return read
}

// readMap reads a field of a limit that is a map with fields of its own. It returns false if one of them is wrong.
func readMap[D, T any](p *parser, fields []field[D, T], into *D, e document.Entry, help string) bool {
	entries, ok := p.doc.Entries(e.Value, e.At, e.Name, help)
	if !ok {
		return false
	}
	before := len(p.doc.Found)
	defer p.doc.Enter(e.Name)()
	readFields(p, fields, into, entries, e.Named, p.doc.Complete(e.Value))
	return len(p.doc.Found) == before
}

// dropRefused drops the offers that the field would not accept either.
func dropRefused[D, T any](p *parser, found diag.Diagnostics, e document.Entry, f field[D, T], blank D) {
	for i, d := range found {
		if d.Span == e.At {
			found[i].Meant = slices.DeleteFunc(d.Meant, func(text string) bool { return !f.takes(p, blank, text) })
		}
	}
}

// takes reports whether a text is a valid value of the field in a map without other values, by parsing a file with it.
func (f field[D, T]) takes(of *parser, blank D, text string) bool {
	// A real parse is slow, but it runs for offers of wrong values only, and cannot disagree with the field.
	p := newParser(document.New(diag.NewSource("", f.name+": "+text)))
	p.plans = of.plans
	root := p.doc.Root()
	if root == nil {
		return false
	}
	entries, _ := p.doc.Entries(root, p.doc.Source.At(root), "", "")
	return len(entries) == 1 && f.read(p, &blank, entries[0])
}

// reportUnknown reports a field that the table lacks, and returns the field that was probably meant, or "".
func reportUnknown[D, T any](p *parser, e document.Entry, fields []field[D, T]) string {
	if p.doc.MissingSpaceAfterColon(e, ids.UnknownField) {
		name, _, _ := strings.Cut(e.Name, ":")
		return name
	}
	p.doc.Report(e.Named, ids.UnknownField, "", "unknown field %s", diag.Quote(e.Name))
	if !p.doc.Described() {
		return ""
	}
	meant := meantField(p, e.Name, fields)
	// A limit at the top of the file is a common mistake, and a list of fields would not help there.
	if meant == "" && p.doc.AtTop() && p.looksLikeLimit(e.Value) {
		p.doc.Help("indent the limit below limits:")
		return "limits"
	}
	if p.doc.AtTop() && slices.Contains(p.defaultFields, e.Name) {
		p.doc.Help("indent it below defaults:, which apply to all limits")
		return "defaults"
	}
	p.doc.Help("the fields are " + words.List(names(fields), "and"))
	p.doc.Offer(meant)
	return meant
}

// meantField returns the field that a name probably means: one with that synonym, or with a similar name.
func meantField[D, T any](p *parser, name string, fields []field[D, T]) string {
	for _, f := range fields {
		if slices.Contains(f.synonyms, strings.ToLower(name)) {
			return f.name
		}
	}
	return p.doc.Nearest(name, func() []string { return names(fields) })
}

// looksLikeLimit reports whether a node is a map with a field of a limit.
func (p *parser) looksLikeLimit(node *yaml.Node) bool {
	return node.Kind == yaml.MappingNode &&
		slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return slices.Contains(p.limitFields, n.Value) })
}

// effectiveMap is a map with the fields of a table that have a value.
func effectiveMap[D, T any](fields []field[D, T], of *T) string {
	var parts []string
	for _, f := range fields {
		if value := f.effective(of); value != "" {
			parts = append(parts, f.name+": "+value)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// object is a part of a JSON Schema.
type object = map[string]any

// having is the schema of limits with a field that has a schema.
func having(field string, schema object) object {
	return object{"type": "object", "properties": object{field: schema}, "required": []string{field}}
}

// mapSchema is the schema of a map with the fields of a table and no others.
func mapSchema[D, T any](fields []field[D, T]) object {
	properties, required := object{}, []string{}
	for _, f := range fields {
		property := object{"title": f.name, "description": withoutMarks(f.description()), "markdownDescription": f.description()}
		for name, value := range f.schema {
			property[name] = value
		}
		if _, ok := f.schema["pattern"]; ok {
			property["patternErrorMessage"] = "Write " + withoutMarks(f.accepts) + "."
		}
		if example, err := strconv.Atoi(f.example); err == nil && f.schema["minimum"] != nil {
			// Editors complete an example. Without one they complete 0, which is not valid.
			property["examples"] = []any{example}
		}
		properties[f.name] = property
		if f.required {
			required = append(required, f.name)
		}
	}
	return object{
		"type":                 "object",
		"properties":           properties,
		"required":             required,
		"additionalProperties": false,
	}
}
