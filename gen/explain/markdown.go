package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// WriteMarkdown prints the pages of all [IDs] as one page of GitHub Flavored Markdown, to which [spec.Address] leads. It
// returns the error of w.
func WriteMarkdown(w io.Writer) error {
	var out bytes.Buffer
	out.WriteString("# Diagnostics\n\nEvery id that `ratelimitgen check` and `ratelimitgen diff` print, with an example. " +
		"`ratelimitgen explain ID` prints the same in a terminal.\n\n")
	var rules, changes []string
	for _, r := range spec.Rules() {
		rules = append(rules, r.ID)
	}
	for _, k := range spec.ChangeKinds() {
		changes = append(changes, k.ID)
	}
	fmt.Fprintf(&out, "Errors of check: %s.\n\nChanges of diff: %s.\n", linked(rules), linked(changes))
	for _, r := range spec.Rules() {
		ruleMarkdown(&out, r)
	}
	for _, k := range spec.ChangeKinds() {
		changeMarkdown(&out, k)
	}
	out.WriteString("\n## Words of diff\n\n| word | | meaning |\n|---|---|---|\n")
	for _, t := range terms {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", t.word, t.category, printable.Prose(t.meaning))
	}
	_, err := w.Write(out.Bytes())
	return err
}

// linked lists ids as links to their sections.
func linked(ids []string) string {
	links := make([]string, len(ids))
	for i, id := range ids {
		links[i] = "[" + id + "](#" + id + ")"
	}
	return strings.Join(links, ", ")
}

func ruleMarkdown(out *bytes.Buffer, r spec.Rule) {
	fmt.Fprintf(out, "\n## %s\n\nAn error of `check`. %s\n", r.ID, printable.Prose(r.Summary))
	if r.Wrong == "" {
		out.WriteString("\nThere is no example, because such a file is too long to show. Make it smaller.\n")
		return
	}
	_, diagnostics := spec.Parse("limits.yaml", []byte(r.Wrong))
	var output bytes.Buffer
	diagnostics.WriteText(&output, false) // a buffer returns no error
	fenced(out, "Wrong:", "yaml", r.Wrong)
	fenced(out, "What check prints:", "text", output.String())
	fenced(out, "Right:", "yaml", r.Right)
}

func changeMarkdown(out *bytes.Buffer, k spec.ChangeKind) {
	fmt.Fprintf(out, "\n## %s\n\nA change that `diff` reports. %s\n", k.ID, printable.Prose(k.Summary))
	old, new := example("main:limits.yaml", k.Old), example("limits.yaml", k.New)
	r := review.Of(old, new)
	forward, back := classesOf(r, k.ID), classesOf(review.Of(new, old), k.ID)
	text := "This edit is " + forward
	if back != "" && back != forward {
		text += "; the opposite edit is " + back
	}
	fmt.Fprintf(out, "%s. If the edit is intended and `-fail-on` stops it, approve it with the comment that it prints.\n", text)
	fenced(out, "Before:", "yaml", k.Old)
	fenced(out, "After:", "yaml", k.New)
	for _, s := range r.Subjects {
		fenced(out, "What diff prints:", "text", strings.Join(s.Lines(), "\n"))
	}
}

// fenced prints a text as it is, but for characters that would not be visible.
func fenced(out *bytes.Buffer, label, language, text string) {
	fmt.Fprintf(out, "\n%s\n\n~~~%s\n%s\n~~~\n", label, language, strings.TrimRight(printable.Text(text), "\n"))
}
