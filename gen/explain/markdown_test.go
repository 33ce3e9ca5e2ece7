package explain

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var update = flag.Bool("update", false, "write cmd/ratelimitgen/DIAGNOSTICS.md")

const diagnosticsFile = "../../cmd/ratelimitgen/DIAGNOSTICS.md"

func TestDiagnosticsPageIsCurrent(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, WriteMarkdown(&out))
	if *update {
		require.NoError(t, os.WriteFile(diagnosticsFile, out.Bytes(), 0o644))
	}
	got, err := os.ReadFile(diagnosticsFile)
	require.NoError(t, err)
	assert.Equal(t, out.String(), string(got), "after an intended change, run: go test ./gen/explain -run Diagnostics -update")
}

var heading = regexp.MustCompile(`(?m)^## ([a-z0-9-]+)$`)

// An address ends in the anchor that GitHub makes of the heading.
func TestEveryIDHasASectionAndAnAddress(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, WriteMarkdown(&out))
	require.True(t, utf8.Valid(out.Bytes()))
	var sections []string
	for _, m := range heading.FindAllStringSubmatch(out.String(), -1) {
		sections = append(sections, m[1])
	}
	var ids []string
	for _, r := range spec.Rules() {
		ids = append(ids, r.ID)
	}
	for _, k := range spec.ChangeKinds() {
		ids = append(ids, k.ID)
	}
	assert.Equal(t, ids, sections)
	for _, id := range ids {
		assert.Equal(t, 1, strings.Count(out.String(), "](#"+id+")"), id)
		assert.True(t, strings.HasSuffix(spec.Address(id), "/cmd/ratelimitgen/DIAGNOSTICS.md#"+id))
	}
	for _, term := range terms {
		assert.Contains(t, out.String(), "\n| `"+term.word+"` | ")
	}
}
