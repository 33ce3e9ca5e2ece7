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

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
	"github.com/ratelimitgen/ratelimitgen/gen/review/render"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
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
	var ids []string
	for _, r := range rules.Rules() {
		ids = append(ids, r.ID)
	}
	for _, k := range spec.ChangeKinds() {
		ids = append(ids, k.ID)
	}
	assert.Equal(t, ids, sections)
	for _, id := range ids {
		assert.Equal(t, 1, strings.Count(page, "](#"+id+")"), id)
		assert.True(t, strings.HasSuffix(rules.Address(id), "/cmd/ratelimitgen/DIAGNOSTICS.md#"+id))
	}
	for _, term := range terms {
		assert.Contains(t, page, "\n| `"+term.word+"` | ")
	}
}

// markdown returns the pages of all [IDs] as one page of GitHub Flavored Markdown, to which [rules.Address] leads.
func markdown() string {
	var out bytes.Buffer
	out.WriteString("# Diagnostics\n\nEvery id that `ratelimitgen check` and `ratelimitgen diff` print, with an example. " +
		"`ratelimitgen explain ID` prints the same in a terminal.\n\n")
	var all, changes []string
	for _, r := range rules.Rules() {
		all = append(all, r.ID)
	}
	for _, k := range spec.ChangeKinds() {
		changes = append(changes, k.ID)
	}
	fmt.Fprintf(&out, "Errors of check: %s.\n\nChanges of diff: %s.\n", linked(all), linked(changes))
	for _, r := range rules.Rules() {
		ruleMarkdown(&out, r)
	}
	for _, k := range spec.ChangeKinds() {
		changeMarkdown(&out, k)
	}
	out.WriteString("\n## Words of diff\n\n| word | | meaning |\n|---|---|---|\n")
	for _, t := range terms {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", t.word, t.category, printable.Prose(t.meaning))
	}
	return out.String()
}

// linked lists ids as links to their sections.
func linked(ids []string) string {
	links := make([]string, len(ids))
	for i, id := range ids {
		links[i] = "[" + id + "](#" + id + ")"
	}
	return strings.Join(links, ", ")
}

func ruleMarkdown(out *bytes.Buffer, r rules.Rule) {
	fmt.Fprintf(out, "\n## %s\n\nAn error of `check`. %s\n", r.ID, printable.Prose(r.Summary))
	if r.Wrong == "" {
		out.WriteString("\nThere is no example, because such a file is too long to show. Make it smaller.\n")
		return
	}
	_, diagnostics := fields.Parse("limits.yaml", []byte(r.Wrong))
	var output bytes.Buffer
	diagnostics.WriteText(&output, false) // a buffer returns no error
	fenced(out, "Wrong (-) and right (+):", "diff", edited(r.Wrong, r.Right))
	fenced(out, "What check prints:", "text", output.String())
}

func changeMarkdown(out *bytes.Buffer, k *spec.ChangeKind) {
	fmt.Fprintf(out, "\n## %s\n\nA change that `diff` reports. %s\n", k.ID, printable.Prose(k.Summary))
	old, new := example("main:limits.yaml", k.Old), example("limits.yaml", k.New)
	r := judge.Review(old, new)
	fmt.Fprintf(out, "This edit is %s. If the edit is intended and `-fail-on` stops it, approve it with the comment that it prints.\n",
		classesInWords(r, judge.Review(new, old), k.ID))
	fenced(out, "Before (-) and after (+):", "diff", edited(k.Old, k.New))
	for _, s := range r.Subjects {
		fenced(out, "What diff prints:", "text", strings.Join(render.LinesOf(&s), "\n"))
	}
}

// fenced prints a text as it is, but for characters that would not be visible.
func fenced(out *bytes.Buffer, label, language, text string) {
	fmt.Fprintf(out, "\n%s\n\n~~~%s\n%s\n~~~\n", label, language, strings.TrimRight(printable.Text(text), "\n"))
}
