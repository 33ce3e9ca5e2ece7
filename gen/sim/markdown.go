package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// The first lines of a replay and of a comparison as Markdown. By them, a step of CI finds the comment that it
// wrote before.
const (
	replayMarker     = "<!-- ratelimitgen simulate -->\n### Replayed requests\n\n"
	comparisonMarker = "<!-- ratelimitgen simulate -against -->\n### Replayed requests: what would change\n\n"
)

// noKeys ends what is printed as Markdown, which others may read than those who may see a key.
const noKeys = "\nKeys are left out, since they may be personal; `-format text` shows those with most.\n"

// mostMarkdown is how many limits have a section of their own in Markdown: a comment holds no more than 65,536
// characters.
const mostMarkdown = 40

// WriteMarkdown prints the report as Markdown, as GitHub has it: for each limit what became of its requests, and
// what is not replayed. It shows no keys. The error is that of w.
func (r *Report) WriteMarkdown(w io.Writer) error {
	out := bytes.NewBufferString(replayMarker)
	r.span.write(out, r.LeftOut)
	var rows [][]string
	var notes []string
	for l := range r.asked {
		rows = append(rows, append([]string{code(l.Policy.Name)}, l.row(len(l.counts))...))
		notes = append(notes, "- "+code(l.Policy.Name)+": "+literal(strings.TrimSpace(l.Words+" "+l.caveat())))
	}
	if len(rows) > 0 {
		out.WriteByte('\n')
		writeMarkdownTable(out, append([]string{"limit"}, tallyHead...), rows[:min(len(rows), mostMarkdown)])
		fmt.Fprintf(out, "\n%s\n", strings.Join(notes[:min(len(notes), mostMarkdown)], "\n"))
		writeMore(out, len(rows)-mostMarkdown)
		out.WriteString(noKeys)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// WriteMarkdown prints what would change for each limit that was asked as Markdown, as GitHub has it. It shows no
// keys. The error is that of w.
func (c *Comparison) WriteMarkdown(w io.Writer) error {
	out := bytes.NewBufferString(comparisonMarker)
	c.span.write(out, c.LeftOut)
	var same []string
	shown := 0
	for _, l := range c.limits {
		switch {
		case l.asked == 0:
		case l.same():
			same = append(same, "- "+code(l.name)+": nothing would change, "+plural(l.asked, "request")+". "+literal(l.caveat()))
		default:
			if shown++; shown <= mostMarkdown {
				l.writeMarkdown(out)
			}
		}
	}
	writeMore(out, shown-mostMarkdown)
	if len(same) > 0 {
		fmt.Fprintf(out, "\n%s\n", strings.Join(same[:min(len(same), mostMarkdown)], "\n"))
		writeMore(out, len(same)-mostMarkdown)
	}
	if c.span.requests > 0 {
		out.WriteString(noKeys)
	}
	_, err := w.Write(out.Bytes())
	return err
}

func writeMore(out *bytes.Buffer, n int) {
	if n > 0 {
		fmt.Fprintf(out, "\nand %s, for lack of room not shown\n", plural(int64(n), "more limit"))
	}
}

// writeMarkdown is the section of a limit.
func (c *compared) writeMarkdown(out *bytes.Buffer) {
	fmt.Fprintf(out, "\n#### %s\n\n", code(c.name))
	sides := []struct {
		name string
		*replayed
	}{{"before", c.old}, {"after", c.new}}
	for _, side := range sides {
		if side.replayed != nil {
			fmt.Fprintf(out, "- **%s**: %s\n", side.name, literal(side.Words))
		}
	}
	for _, line := range c.sayings() {
		fmt.Fprintf(out, "- %s\n", line)
	}
	if caveat := c.caveat(); caveat != "" {
		fmt.Fprintf(out, "- %s\n", literal(caveat))
	}
	if c.old == nil || c.new == nil {
		return
	}
	var rows [][]string
	for _, side := range sides {
		rows = append(rows, append([]string{side.name}, side.row(len(side.counts))...))
	}
	out.WriteByte('\n')
	writeMarkdownTable(out, append([]string{""}, tallyHead...), rows)
}

// sayings are what would change, in words.
func (c *compared) sayings() (lines []string) {
	if c.reshaped {
		lines = append(lines, reshapedWords)
	}
	switch {
	case c.old == nil:
		return append(lines, c.addedWords())
	case c.new == nil:
		return append(lines, c.removedWords())
	}
	c.eachChange(func(from, to outcome, words string) {
		lines = append(lines, "**"+words+"**")
	})
	return lines
}

func writeMarkdownTable(out *bytes.Buffer, head []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	out.WriteString("|---" + strings.Repeat("|---:", len(head)-1) + "|\n")
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.ReplaceAll(cmp.Or(cell, " "), "<", "&lt;")
		}
		line(cells)
	}
}

// code returns the name of a limit as code. It is a Go identifier, so that it has no backtick.
func code(name string) string { return "`" + printable.Line(name) + "`" }

// literal returns a sentence so that Markdown leaves it alone.
func literal(text string) string {
	return strings.NewReplacer("\\", "\\\\", "<", "&lt;", "*", "\\*", "_", "\\_", "`", "\\`", "|", "\\|", "[", "\\[", "~", "\\~").Replace(printable.Line(text))
}
