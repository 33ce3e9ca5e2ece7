package explain

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

var update = flag.Bool("update", false, "write cmd/ratelimitgen/DIAGNOSTICS.md")

const diagnosticsFile = "../../cmd/ratelimitgen/DIAGNOSTICS.md"

func TestDiagnosticsPageIsCurrent(t *testing.T) {
	page := markdown()
	if *update {
		require.NoError(t, os.WriteFile(diagnosticsFile, []byte(page), 0o644))
	}
	got, err := os.ReadFile(diagnosticsFile)
	require.NoError(t, err)
	// Not Equal, which would print the page three times.
	assert.True(t, page == string(got), "%s is not current: run go test ./gen/explain -run Diagnostics -update, and look at the diff", diagnosticsFile)
}

var heading = regexp.MustCompile(`(?m)^## ([a-z0-9-]+)$`)

// An address ends in the anchor that GitHub makes of the heading.
func TestEveryIDHasASectionAndAnAddress(t *testing.T) {
	page := markdown()
	require.True(t, utf8.ValidString(page))
	var sections []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		sections = append(sections, m[1])
	}
	var known []string
	for _, k := range append(ids.Rules(), ids.Changes()...) {
		known = append(known, k.ID)
	}
	assert.Equal(t, known, sections)
	for _, id := range known {
		assert.True(t, strings.HasSuffix(ids.Address(id), "/cmd/ratelimitgen/DIAGNOSTICS.md#"+id))
	}
	for _, term := range terms {
		assert.Contains(t, page, "\n| `"+term.word+"` | ")
	}
}

// markdown returns the pages of all ids as one page of GitHub Flavored Markdown, to which [ids.Address] leads.
func markdown() string {
	var out bytes.Buffer
	out.WriteString("# Diagnostics\n\nThe errors of `ratelimitgen check`, each with a file that is wrong (-) and what would be right (+), and " +
		"after them the changes that `ratelimitgen diff` reports, each with an edit. " +
		"`ratelimitgen explain ID` also shows what these commands print.\n\n" +
		"If `-fail-on` stops an edit that is intended, approve it with the comment that `diff` prints.\n")
	for _, r := range ids.Rules() {
		ruleMarkdown(&out, r)
	}
	for _, k := range ids.Changes() {
		changeMarkdown(&out, k)
	}
	out.WriteString("\n## Words of diff\n\n| word | | meaning |\n|---|---|---|\n")
	for _, t := range terms {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", t.word, t.category, printable.Prose(t.meaning))
	}
	return out.String()
}

func ruleMarkdown(out *bytes.Buffer, r *ids.Meaning) {
	fmt.Fprintf(out, "\n## %s\n\nAn error of `check`. %s\n", r.ID, printable.Prose(r.Summary))
	if r.Before != "" {
		fenced(out, edited(r.Before, r.After))
	}
}

func changeMarkdown(out *bytes.Buffer, k *ids.Meaning) {
	old, new := example("main:limits.yaml", k.Before), example("limits.yaml", k.After)
	classes := classesInWords(judge.Review(old, new), judge.Review(new, old), k.ID)
	fmt.Fprintf(out, "\n## %s\n\nA change that `diff` reports. %s\nThis edit is %s.\n", k.ID, printable.Prose(k.Summary), classes)
	fenced(out, edited(k.Before, k.After))
}

// fenced prints an edit as it is, but for characters that would not be visible.
func fenced(out *bytes.Buffer, edit string) {
	fmt.Fprintf(out, "\n~~~diff\n%s\n~~~\n", strings.TrimRight(printable.Text(edit), "\n"))
}
