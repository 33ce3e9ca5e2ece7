package fields

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The reference of limits.yaml is generated from the tables of fields.
func TestReadmeReferenceIsUpToDate(t *testing.T) {
	readme, err := os.ReadFile("../spec/README.md")
	require.NoError(t, err)
	const begin, end = "<!-- reference -->\n", "<!-- /reference -->"
	before, rest, ok := strings.Cut(string(readme), begin)
	require.True(t, ok)
	listed, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile("../spec/README.md", []byte(before+begin+reference()+end+after), 0o644))
	}
	assert.Equal(t, reference(), listed, "after a change of a field, run go test ./gen/fields -run Reference -update")
}

// reference returns the fields of limits.yaml as Markdown: a table for the file, one each for a limit, a lease, overrides,
// an exception and a group, and below each table the explanations that do not fit into it. The defaults are fields of a
// limit.
func reference() string {
	var out strings.Builder
	writeTable(&out, "The file", fileFields)
	out.WriteString("\n")
	writeTable(&out, "A limit", limitFields)
	out.WriteString("\n")
	writeTable(&out, "A lease", leaseFields)
	out.WriteString("\n")
	writeTable(&out, "Overrides", overrideFields)
	out.WriteString("\n")
	writeTable(&out, "An exception", exceptionFields)
	out.WriteString("\n")
	writeTable(&out, "A group", groupFields)
	return out.String()
}

func writeTable[D, T any](out *strings.Builder, title string, fields []field[D, T]) {
	out.WriteString("| " + title + " | meaning | what to write | default |\n|---|---|---|---|\n")
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
