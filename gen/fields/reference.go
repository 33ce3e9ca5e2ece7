package fields

import "slices"

// Field describes a field of limits.yaml in plain text.
type Field struct {
	Name string
	// Of is the owner of the field: "the file", "a limit", "defaults", "a lease", "overrides" or "a group".
	Of string
	// Meaning explains the field, Accepts describes its valid values, and Absent is the default, or "".
	Meaning, Accepts, Absent string
	Required                 bool
	// Example is the field with a valid value.
	Example string
}

// Fields returns every field, in the order of the reference in README.md.
func Fields() []Field {
	return slices.Concat(fieldsIn("the file", fileFields), fieldsIn("a limit", limitFields),
		fieldsIn("defaults", defaultFields), fieldsIn("a lease", leaseFields),
		fieldsIn("overrides", overrideFields), fieldsIn("an exception", exceptionFields), fieldsIn("a group", groupFields))
}

func fieldsIn[D, T any](of string, fields []field[D, T]) (list []Field) {
	for _, f := range fields {
		list = append(list, Field{
			Name: f.name, Of: of, Required: f.required, Example: f.name + ": " + f.example,
			Meaning: withoutMarks(f.meaning()), Accepts: withoutMarks(f.accepts), Absent: withoutMarks(f.absent),
		})
	}
	return list
}
