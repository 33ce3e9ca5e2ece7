package sim

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// The first lines of a replay and of a comparison as Markdown. A CI step finds the comment to update by them.
const (
	replayMarker     = "<!-- ratelimitgen simulate -->\n### Replayed requests\n\n"
	comparisonMarker = "<!-- ratelimitgen simulate -against -->\n### Replayed requests: what would change\n\n"
)

// noKeys is the last line of Markdown, which more people can read than may see a key.
const noKeys = "\nKeys are omitted because they may be personal data; `-format text` lists the most affected ones.\n"

// maxMarkdown is how many limits have a section of their own: a comment on GitHub holds at most 65,536 characters.
const maxMarkdown = 40

// WriteMarkdown prints the totals of each limit, its rule and the settings that are not replayed, as GitHub Flavored
// Markdown without keys. The error is that of w.
func (r *Report) WriteMarkdown(w io.Writer) error {
	out := bytes.NewBufferString(replayMarker)
	r.span.write(out, r.LeftOut)
	var rows, shown [][]string // of the limits, and with the rows of their plans
	var notes []string
	shadow := r.shadow()
	for l := range r.requested {
		name := printable.Code(l.Policy.Name)
		if rows = append(rows, append([]string{name}, l.row(l.requestedKeys(), shadow)...)); len(rows) <= maxMarkdown {
			shown = append(shown, rows[len(rows)-1])
			shown = append(shown, l.planRows(name+" ", shadow)...)
		}
		// Below the table, because a rule is too long for a cell of it.
		notes = append(notes, "- "+printable.Code(l.Policy.Name)+": "+printable.Prose(strings.Join(strings.Fields(l.Words+" "+l.caveat()+" "+l.verbs()), " ")))
	}
	if len(rows) > 0 {
		out.WriteByte('\n') // without an empty line before it, a table is part of the paragraph
		writeMarkdownTable(out, tallyHead("limit", shadow), shown)
		fmt.Fprintf(out, "\n%s\n", strings.Join(notes[:min(len(notes), maxMarkdown)], "\n"))
		writeOmitted(out, len(rows)-maxMarkdown)
		out.WriteString(noKeys)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// WriteMarkdown prints the changes for each limit with requests, as GitHub Flavored Markdown without keys. The error is
// that of w.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	out := bytes.NewBufferString(comparisonMarker)
	c.span.write(out, c.LeftOut)
	var same []string // listed below the changes that the reader looks for
	sections := 0
	for _, p := range c.pairs {
		switch {
		case p.requests == 0:
		case p.same():
			same = append(same, "- "+printable.Code(p.name)+": nothing would change, "+words.Count(p.requests, "request")+". "+printable.Prose(p.caveat()))
		default:
			if sections++; sections <= maxMarkdown {
				p.writeMarkdown(out)
			}
		}
	}
	writeOmitted(out, sections-maxMarkdown)
	if len(same) > 0 {
		fmt.Fprintf(out, "\n%s\n", strings.Join(same[:min(len(same), maxMarkdown)], "\n"))
		writeOmitted(out, len(same)-maxMarkdown)
	}
	if c.span.requests > 0 {
		out.WriteString(noKeys)
	}
	_, err := w.Write(out.Bytes())
	return err
}

func writeOmitted(out *bytes.Buffer, n int) {
	if n > 0 {
		fmt.Fprintf(out, "\nand %s, omitted to keep this short\n", words.Count(int64(n), "more limit"))
	}
}

// writeMarkdown prints the section of a limit.
func (p *limitPair) writeMarkdown(out *bytes.Buffer) {
	fmt.Fprintf(out, "\n#### %s\n\n", printable.Code(p.name))
	sides := []struct {
		name string
		*limitState
	}{{"before", p.old}, {"after", p.new}}
	for _, side := range sides {
		if side.limitState != nil {
			fmt.Fprintf(out, "- **%s**: %s\n", side.name, printable.Prose(side.Words))
		}
	}
	for _, line := range p.markdownChanges() {
		fmt.Fprintf(out, "- %s\n", line)
	}
	if caveat := p.caveat(); caveat != "" {
		fmt.Fprintf(out, "- %s\n", printable.Prose(caveat))
	}
	if p.old == nil || p.new == nil {
		return
	}
	var rows [][]string
	for _, side := range sides {
		rows = append(rows, append([]string{side.name}, side.row(side.requestedKeys(), p.shadow())...))
		rows = append(rows, side.planRows(side.name+" ", p.shadow())...)
	}
	out.WriteByte('\n')
	writeMarkdownTable(out, tallyHead("", p.shadow()), rows)
}

func (p *limitPair) markdownChanges() (lines []string) {
	if p.keyChanged {
		lines = append(lines, keyChangedText)
	}
	switch {
	case p.old == nil:
		return append(lines, p.addedText())
	case p.new == nil:
		return append(lines, p.removedText())
	}
	for _, change := range p.outcomeChanges() {
		lines = append(lines, "**"+change.text+"**")
	}
	return lines
}

func writeMarkdownTable(out *bytes.Buffer, head []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	out.WriteString("|---" + strings.Repeat("|---:", len(head)-1) + "|\n")
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.ReplaceAll(cell, "<", "&lt;") // "<0.1%" would begin a tag
		}
		line(cells)
	}
}
