package spec

import (
	"strings"
)

// field is one name that a map of the file may contain. A table of fields is the only place that lists the fields of a
// map: it drives the parser, the suggestions, the JSON Schema, the reference, the diff and the words. A new field needs
// an entry here, a judgement of its change in gen/review, and its effect in package runtime.
type field[D, T any] struct {
	name string
	// synonyms are the names of the field in other limiters, in lower case.
	synonyms []string
	required bool
	// implied reports whether a diagnostic of another field covers that a required one is missing. It may be nil.
	implied func(into *D) bool
	// about explains the field in one cell of the reference, more is what does not fit there. Both are Markdown.
	about, more string
	// accepts describes the valid values, and absent what holds without the field. Both are Markdown.
	accepts, absent string
	// example is a valid value.
	example string
	schema  object
	// sets is the field of runtime.Policy, or for a field of a lease of runtime.Lease, that holds the value.
	sets string
	// read stores the value and returns true, or reports its errors.
	read func(p *parser, into *D, e entry) bool
	// change is the kind of change that a diff reports for the field. It is nil for fields that cannot change by
	// themselves: version, limits and those of a lease.
	change *ChangeKind
	// byPlan is set if the value may be a map with a value for each plan.
	byPlan bool
	// effective returns the value that applies, given or not, as limits.yaml writes it. Equal values are written alike.
	effective func(of *T) string
	// words describes the value in sentences of generated doc comments. Fields may share one.
	words func(of *T) []string
}

// names lists the names of the fields of a table.
func names[D, T any](fields []field[D, T]) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

// object is a part of a JSON Schema.
type object = map[string]any

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

// Field describes a field of limits.yaml in plain text.
type Field struct {
	Name string
	// Of is the owner of the field: "the file", "a limit", "a lease", "overrides" or "a group".
	Of string
	// Meaning explains the field, Accepts describes its valid values, and Absent is the default, or "".
	Meaning, Accepts, Absent string
	// Sets is the field of runtime.Policy that holds the value, or for a lease of runtime.Lease and for overrides
	// of runtime.OverrideBounds; "" if none does.
	Sets     string
	Required bool
	// Example is the field with a valid value.
	Example string
}
