package spec

import (
	"slices"
	"strings"
)

// Field is what there is to say about a field of limits.yaml, in plain text.
type Field struct {
	Name string
	// Of is what has the field: "the file", "a limit" or "a lease".
	Of string
	// Meaning says what the field means, Accepts what may stand there, and Absent what holds without it, "" if
	// that is nothing.
	Meaning, Accepts, Absent string
	Required                 bool
	// Example is the field with a valid value.
	Example string
}

// Fields returns every field, in the order of [Reference].
func Fields() []Field {
	return slices.Concat(fieldsIn("the file", fileFields), fieldsIn("a limit", limitFields), fieldsIn("a lease", leaseFields))
}

func fieldsIn[T any](of string, fields []field[T]) (list []Field) {
	for _, f := range fields {
		list = append(list, Field{
			f.name, of, withoutMarks(f.meaning()), withoutMarks(f.accepts), withoutMarks(f.absent), f.required, f.name + ": " + f.example,
		})
	}
	return list
}

// Reference returns the fields of limits.yaml as Markdown: a table for the file, one for a limit and one for its
// lease, and below each what does not fit into it.
func Reference() string {
	var out strings.Builder
	writeTable(&out, "The file", fileFields)
	out.WriteString("\n")
	writeTable(&out, "A limit", limitFields)
	out.WriteString("\n")
	writeTable(&out, "A lease", leaseFields)
	return out.String()
}

func writeTable[T any](out *strings.Builder, title string, fields []field[T]) {
	out.WriteString("| " + title + " | what it means | what to write | without it |\n|---|---|---|---|\n")
	for _, f := range fields {
		absent := f.absent
		if f.required {
			absent = "(required)"
		}
		out.WriteString("| `" + f.name + "` | " + f.about + " | " + f.accepts + " | " + absent + " |\n")
	}
	for _, f := range fields {
		if f.more != "" {
			out.WriteString("\n`" + f.name + "`: " + f.more + "\n")
		}
	}
}
