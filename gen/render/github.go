package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// WriteProblemsGitHub prints each diagnostic and each stale file as an annotation.
func WriteProblemsGitHub(w io.Writer, p Problems, o Options) error {
	text := ""
	for _, diagnostics := range p.Diagnostics {
		for _, d := range diagnostics {
			// endColumn is inclusive, whereas the end of a diagnostic is exclusive.
			place := fmt.Sprintf("line=%d,col=%d,endColumn=%d", d.Pos.Line, d.Pos.Column, max(d.Pos.Column, d.End.Column-1))
			text += annotation("error", d.ID, o.Place(d.File), place, inLines(d))
		}
	}
	for _, stale := range p.Stale {
		text += annotation("error", "stale code", o.Place(stale.Path), "line=1", stale.String())
	}
	_, err := io.WriteString(w, text)
	return err
}

// inLines returns a diagnostic with its help and notes.
func inLines(d diag.Diagnostic) string {
	message := d.Message
	if d.Help != "" {
		message += "\n" + d.Help
	}
	for _, n := range d.Notes {
		message += fmt.Sprintf("\nline %d: %s", n.Pos.Line, n.Message)
	}
	if d.More > 0 {
		message += fmt.Sprintf("\nThe file has %d more errors.", d.More)
	}
	return message + "\n" + ids.Address(d.ID)
}

// WriteGitHub prints an annotation for each subject: at the limit's name in the new file, or on the first line for a removed
// limit.
func WriteGitHub(w io.Writer, r *review.Review, o Options) error {
	file, text := o.Place(r.New), ""
	if r.Remark != "" {
		text = annotation("notice", "diff", file, "line=1,col=1", r.Remark)
	}
	for i := range r.Subjects {
		s := &r.Subjects[i]
		place := fmt.Sprintf("line=%d,col=%d", max(1, s.New.Line), max(1, s.New.Column))
		text += annotation(o.Level(s), titleOf(s), file, place, strings.Join(LinesOf(s), "\n"))
	}
	_, err := io.WriteString(w, text)
	return err
}

// annotation returns a workflow command, which GitHub Actions shows as an annotation at a place in a file.
// See https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
func annotation(level, title, file, place, message string) string {
	return fmt.Sprintf("::%s title=%s,file=%s,%s::%s\n", level, escapedProperty("ratelimitgen "+title),
		escapedProperty(file), place, escaped(message))
}

// escaped returns text that cannot end the workflow command it is part of, or begin another.
func escaped(text string) string {
	text = strings.ReplaceAll(printable.Text(text), "##[", `##\x5b`) // the older form of workflow commands
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

// escapedProperty is escaped for the properties before the message, which colons and commas separate.
func escapedProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escaped(text))
}
