package render

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// mostMarkdown is the length of a review as Markdown in characters, without the last lines. A comment on GitHub holds
// 65,536 characters.
const mostMarkdown = 59_000

// Marker returns the first line of a review as Markdown, by which a later run of a CI job finds its comment. It is an
// HTML comment with the name of the new file, in which unusual characters are percent-encoded.
func Marker(file string) string {
	var name strings.Builder
	for i, r := range file {
		plain := r == '.' || r == '/' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		// "--" and "->" would end the HTML comment.
		if plain || r == '-' && !strings.HasPrefix(file[i+1:], "-") && !strings.HasPrefix(file[i+1:], ">") {
			name.WriteRune(r)
			continue
		}
		for _, b := range []byte(string(r)) {
			fmt.Fprintf(&name, "%%%02X", b)
		}
	}
	return "<!-- ratelimitgen diff " + name.String() + " -->"
}

// WriteMarkdown prints the review as GitHub-flavored Markdown: first [Marker], then the risks and the SQL that averts them,
// a row for each change with its class, and a section for each subject with more to say, the most severe first, with its
// main numbers and a folded part for the rest.
//
// It prints fewer than 60,000 characters. If there is no room for everything, the folded parts of the last sections are
// left out, then whole sections, and a line says how many. Text from the files is printed as code, so that Markdown does
// not interpret it.
func WriteMarkdown(w io.Writer, r *review.Review, o Options) error {
	out := Marker(r.New) + "\n### Rate limits: " + code(r.New) + "\n\n"
	if r.Remark != "" {
		out += code(r.Remark) + "\n\n"
	}
	sql, whole := markdownSQL(r, o)
	if len(r.Subjects) == 0 {
		out += unchanged + "\n"
	} else {
		out += fmt.Sprintf("**%s**, compared with %s.\n", summaryOf(r), code(shortCommit(r.Old))) + markdownRisks(r) + sql + markdownTable(r, o)
	}
	room := mostMarkdown/max(1, o.Sharing) - utf8.RuneCountInString(out)
	_, err := io.WriteString(w, out+markdownSections(r, o.LinkBase, room, whole))
	return err
}

// markdownTable has a row for each change with its class, those of the most severe subjects first.
func markdownTable(r *review.Review, o Options) string {
	var out strings.Builder
	out.WriteString("\n| | change | before | after | |\n|---|---|---|---|---|\n")
	room, leftOut := 16_000/max(1, o.Sharing), 0
	for _, s := range r.BySeverity() {
		name := linked(s, o.LinkBase)
		for _, f := range s.Findings {
			for _, c := range f.Changes {
				row := fmt.Sprintf("| %s | %s | %s | %s | **%s** `%s` |\n", name, fieldCell(s, c.Change), valueCell(c.Change, c.Old),
					valueCell(c.Change, c.New),
					review.ClassList(c.Classes), f.Kind.ID)
				if room -= utf8.RuneCountInString(row); leftOut > 0 || room < 0 {
					leftOut++
					continue
				}
				out.WriteString(row)
				name = ""
			}
		}
	}
	if leftOut > 0 {
		fmt.Fprintf(&out, "\nChanges left out: %s,"+tooLong, words.Number(int64(leftOut)))
	}
	return out.String()
}

// markdownRisks lists the risks as an alert, which GitHub does not fold.
func markdownRisks(r *review.Review) string {
	lines := risksOf(r, code)
	if len(lines) == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n> [!CAUTION]\n> %s:\n", risksHeading)
	for _, line := range lines {
		fmt.Fprintf(&out, "> - %s\n", line)
	}
	return out.String()
}

// markdownSQL lists the statements that keep stored counts and overrides, in the order of a deploy, and reports whether
// there was room for all.
func markdownSQL(r *review.Review, o Options) (text string, whole bool) {
	most := 12_000 / max(1, o.Sharing)
	all := r.SQL()
	if len(all) == 0 {
		return "", true
	}
	var out strings.Builder
	order := ""
	if len(all) > 1 {
		order = ", in this order"
	}
	out.WriteString("\n**SQL to run with the deploy**" + order + ":\n\n```sql\n")
	cut := 0
	for _, q := range all {
		text := fmt.Sprintf("-- %s: %s.\n%s\n", NameOf(q.Subject), q.Why, q.Text)
		if cut > 0 || utf8.RuneCountInString(out.String())+utf8.RuneCountInString(text) > most || strings.Contains(text, "```") {
			cut++
			continue
		}
		out.WriteString(text)
	}
	out.WriteString("```\n")
	if cut > 0 {
		fmt.Fprintf(&out, "\nStatements left out: %s. `ratelimitgen sql -from OLD -dialect NAME` prints all for one database.\n",
			words.Number(int64(cut)))
	}
	return out.String(), cut == 0
}

// markdownSections returns the sections that fit into a number of characters. They do not repeat the SQL if it is above.
func markdownSections(r *review.Review, linkBase string, room int, sqlAbove bool) string {
	subjects := slices.DeleteFunc(r.BySeverity(),
		func(s *review.Subject) bool { return len(s.ShownNumbers())+len(s.Notes)+len(s.SQL) == 0 })
	// Headings come first: a section without its folded part is better than no section.
	var heads []string
	for i, s := range subjects {
		head := markdownHead(s, linkBase, i < mostPictures)
		if room -= utf8.RuneCountInString(head); room < 0 {
			break
		}
		heads = append(heads, head)
	}
	var out strings.Builder
	leftOut := 0
	for i, head := range heads {
		out.WriteString(head)
		details := markdownDetails(subjects[i], i < mostPictures, sqlAbove)
		size := utf8.RuneCountInString(details)
		// After the first one that does not fit, even shorter ones are left out: they are less severe.
		if leftOut > 0 || size > room {
			leftOut++
			continue
		}
		room -= size
		out.WriteString(details)
	}
	if cut := len(subjects) - len(heads); cut > 0 {
		fmt.Fprintf(&out, "\nSections left out: %s,"+tooLong, words.Number(int64(cut)))
	} else if leftOut > 0 {
		fmt.Fprintf(&out, "\nSections without details: %s,"+tooLong, words.Number(int64(leftOut)))
	}
	if len(r.Subjects) > 0 {
		out.WriteString("\nRun `ratelimitgen explain WORD` for the meaning of a class or an id, such as `" +
			string(r.BySeverity()[0].Classes()[0]) + "`.\n")
	}
	return out.String()
}

const tooLong = " because this comment would be too long. Run `ratelimitgen diff` to see everything.\n"

// markdownHead returns the heading of a subject with a link to its lines, and its main numbers: drawn if they are bounds of
// tokens that changed, and otherwise as text.
func markdownHead(s *review.Subject, linkBase string, draw bool) string {
	const mostNumbers = 3
	out := fmt.Sprintf("\n#### %s\n", linked(s, linkBase))
	if s.Removed() {
		return out
	}
	holder := printable.Prose(words.Holder(s.Per))
	if draw && isDrawn(s) {
		return out + "For " + holder + ", at most, before (-) and now (+):\n" + pictureOf(s) + withLeads(s, lockedOut(s))
	}
	var numbers []string
	for _, n := range s.ShownNumbers() {
		numbers = append(numbers, n.Label()+" "+valueOf(s, n))
	}
	line := ""
	if len(numbers) > 0 {
		line = "For " + holder + ": " + strings.Join(numbers[:min(mostNumbers, len(numbers))], "; ") + ". " + lockedOut(s)
	}
	return out + withLeads(s, line)
}

// isDrawn reports whether the main numbers of a subject are drawn.
func isDrawn(s *review.Subject) bool { return !s.Added() && len(pictured(s)) > 0 }

// withLeads returns a line with the notes that are not folded after its text; "" for an empty one.
func withLeads(s *review.Subject, text string) string {
	for _, n := range s.Notes {
		if n.Lead {
			text = strings.TrimSpace(text) + " " + printable.Prose(n.Text)
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return text + "\n"
}

var longCommit = regexp.MustCompile(`^([0-9a-f]{12})[0-9a-f]{28}:`)

// shortCommit shortens the hash in the name of a file in a commit.
func shortCommit(name string) string { return longCommit.ReplaceAllString(name, "$1:") }

// linked returns the name of the subject, as a link to its line in the new file if there is an address for it.
func linked(s *review.Subject, linkBase string) string {
	if linkBase == "" || s.New.Line == 0 {
		return code(NameOf(s))
	}
	return fmt.Sprintf("[%s](%s#L%d)", code(NameOf(s)), linkBase, s.New.Line)
}

// markdownDetails returns the folded part of a section, which does not repeat what its head has.
func markdownDetails(s *review.Subject, draw, sqlAbove bool) string {
	var out strings.Builder
	numbers, drawn := s.ShownNumbers(), []review.Number(nil)
	if draw && isDrawn(s) {
		drawn = pictured(s)
		numbers = slices.DeleteFunc(numbers, func(n review.Number) bool {
			return slices.ContainsFunc(drawn, func(d review.Number) bool { return d.Label() == n.Label() }) ||
				n.Name == review.NextToken && lockedOut(s) != ""
		})
	}
	folded := slices.DeleteFunc(slices.Clone(s.Notes), func(n review.Note) bool { return n.Lead })
	sql := slices.DeleteFunc(slices.Clone(s.SQL), func(q review.Statement) bool { return sqlAbove && q.Keeps != "" })
	if len(numbers)+len(folded)+len(sql) == 0 {
		return ""
	}
	out.WriteString("\n<details><summary>Details</summary>\n\n")
	for i, n := range numbers {
		if i == 0 {
			out.WriteString("| | before | after | |\n|---|---|---|---|\n")
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", n.Label(), numberCell(n, n.Old), numberCell(n, n.New), n.Ratio())
	}
	if len(numbers) > 0 && len(folded)+len(sql) > 0 {
		out.WriteString("\n")
	}
	for _, n := range folded {
		fmt.Fprintf(&out, "- **%s**: %s\n", n.About, printable.Prose(n.Text))
	}
	for _, q := range sql {
		fmt.Fprintf(&out, "- **sql**, %s: %s\n", printable.Prose(q.Why), code(q.Text))
	}
	out.WriteString("\n</details>\n")
	return out.String()
}

// fieldCell returns what a change is of, a field as code.
func fieldCell(s *review.Subject, c diff.Change) string {
	if c.Field != "" {
		return code(fieldName(s, c))
	}
	return fieldName(s, c)
}

// valueCell returns a value from a file as code, and words for a default as they are.
func valueCell(c diff.Change, side diff.Side) string {
	text := shortValue(c, side)
	switch {
	case text == "" && c.Field == "":
		return "none"
	case side.Value == "":
		return text
	}
	return code(text)
}

// code returns text from a file as code on one line.
func code(text string) string { return printable.Code(strings.Join(strings.Fields(text), " ")) }
