package spec

import (
	"strings"
)

// Reference returns the fields of limits.yaml as Markdown: a table for the file, one for a limit and one for its lease.
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
}
