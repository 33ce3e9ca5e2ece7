package review

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// mostMarkdown is how long a review can be as Markdown, in characters, with room to say what was cut. It is
// less than what a comment of a pull request holds.
const mostMarkdown = 59_000

// Marker is the first line of a review as Markdown: by it, a step of CI finds the comment that it wrote before.
// It is an HTML comment with the name of the new file.
func Marker(file string) string {
	var name strings.Builder
	for i, r := range file {
		plain := r == '.' || r == '/' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
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

// WriteMarkdown prints the review as Markdown, as GitHub has it: first [Marker], then how many limits are in which
// class and which they are, then a section for each subject, the gravest first: its numbers in a line, and the rest
// folded. It is shorter than 60,000 characters: where there is no room, the folded parts of the last sections are left
// out, then the sections, which are counted in a last line. Whatever stands in the files is shown as code, so that it
// means nothing to Markdown. It returns the error of w.
func (r *Review) WriteMarkdown(w io.Writer) error {
	out := Marker(r.New) + "\n### Rate limits: " + code(r.New) + "\n\n"
	if r.Remark != "" {
		out += code(r.Remark) + "\n\n"
	}
	if len(r.Subjects) == 0 {
		out += unchanged + "\n"
	} else {
		out += r.markdownTable()
	}
	_, err := io.WriteString(w, out+r.markdownSections(mostMarkdown-utf8.RuneCountInString(out)))
	return err
}

// markdownSections returns the sections that fit into some characters. As many as possible have a heading, and of
// those the first have what is folded.
func (r *Review) markdownSections(room int) string {
	subjects := r.bySeverity()
	var heads []string
	for _, s := range subjects {
		head := s.markdownHead()
		if room -= utf8.RuneCountInString(head); room < 0 {
			break
		}
		heads = append(heads, head)
	}
	var out strings.Builder
	folded := 0
	for i, head := range heads {
		out.WriteString(head)
		rest := subjects[i].markdownRest()
		size := utf8.RuneCountInString(rest)
		if folded > 0 || size > room {
			folded++
			continue
		}
		room -= size
		out.WriteString(rest)
	}
	if cut := len(subjects) - len(heads); cut > 0 {
		fmt.Fprintf(&out, "\n%s of these are not shown for lack of room; `ratelimitgen diff` prints them all.\n", spec.Grouped(int64(cut)))
	} else if folded > 0 {
		fmt.Fprintf(&out, "\nThe details of %s are not shown for lack of room; `ratelimitgen diff` prints them all.\n", spec.Grouped(int64(folded)))
	}
	if len(subjects) > 0 {
		out.WriteString("\n`ratelimitgen explain WORD` explains each class and id, such as " + "`" + string(subjects[0].Classes()[0]) + "`.\n")
	}
	return out.String()
}

// markdownTable lists the limits of each class.
func (r *Review) markdownTable() string {
	var out strings.Builder
	classes, names := r.headings()
	counts := make([]string, len(classes))
	for i, class := range classes {
		counts[i] = fmt.Sprintf("%s %s", spec.Grouped(int64(len(names[class]))), class)
	}
	fmt.Fprintf(&out, "**%s** compared with %s:\n\n| | |\n|---|---|\n", strings.Join(counts, ", "), code(r.Old))
	for _, class := range classes {
		shown := names[class]
		if len(shown) > 40 {
			shown = shown[:40]
		}
		list := make([]string, len(shown))
		for i, name := range shown {
			list[i] = code(name)
		}
		fmt.Fprintf(&out, "| **%s** | %s", class, strings.Join(list, ", "))
		if more := len(names[class]) - len(shown); more > 0 {
			fmt.Fprintf(&out, " and %s more", spec.Grouped(int64(more)))
		}
		out.WriteString(" |\n")
	}
	return out.String()
}

// markdownHead names a subject and says in a line what its edit comes to.
func (s *Subject) markdownHead() string {
	out := fmt.Sprintf("\n#### %s: %s\n", code(s.name()), classList(s.Classes()))
	var numbers []string
	for _, n := range s.Telling() {
		if s.added() {
			numbers = append(numbers, n.Name+" "+n.words(n.New))
		} else {
			numbers = append(numbers, n.Name+" "+n.change())
		}
	}
	if len(numbers) > 0 {
		out += "For " + literal(s.party()) + ": " + strings.Join(numbers[:min(3, len(numbers))], "; ") + ".\n"
	}
	return out
}

// markdownRest is what is folded of the section of a subject.
func (s *Subject) markdownRest() string {
	var out strings.Builder
	out.WriteString("\n<details><summary>Details</summary>\n\n| | before | after | |\n|---|---|---|---|\n")
	for _, f := range s.Findings {
		for _, c := range f.Changes {
			what := code(c.Field)
			if c.Field == "" {
				what = "limit"
			}
			fmt.Fprintf(&out, "| %s | %s | %s | `%s` %s |\n", what, cell(c, c.Old), cell(c, c.New), f.ID, classList(f.Classes))
		}
	}
	for _, n := range s.Telling() {
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", n.Name, n.markdown(n.Old), n.markdown(n.New), n.ratio())
	}
	if len(s.Notes)+len(s.SQL) > 0 {
		out.WriteString("\n")
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&out, "- **%s**: %s\n", n.About, literal(n.Text))
	}
	for _, q := range s.SQL {
		fmt.Fprintf(&out, "- **sql**, %s: %s\n", literal(q.Why), code(q.Text))
	}
	out.WriteString("\n</details>\n")
	return out.String()
}

// cell is one side of a change: what the file says as code, what holds without it in words.
func cell(c spec.Change, side spec.Side) string {
	text := clip(value(c, side))
	if side.Value == "" {
		return text
	}
	return code(text)
}

func (n Number) markdown(v *int64) string {
	if v == nil {
		return ""
	}
	return n.words(v)
}

// code returns a text as code that can stand in a cell of a table, on one line. Names and numbers after # and
// @ mean nothing in code. A text with a | or a backtick in it is written as HTML, with a reference for every
// character that could mean anything.
func code(text string) string {
	text = oneLine(text)
	switch {
	case text == "":
		return ""
	case !strings.ContainsAny(text, "|`"):
		return "`" + text + "`"
	}
	var out strings.Builder
	for _, r := range text {
		if r > unicode.MaxASCII || r == ' ' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, "&#%d;", r)
	}
	return "<code>" + out.String() + "</code>"
}

// literal returns a sentence of ours, which has only names in it that limits and Go methods can have, so
// that Markdown leaves it alone.
func literal(text string) string {
	return strings.NewReplacer("\\", "\\\\", "<", "&lt;", "*", "\\*", "_", "\\_", "`", "\\`", "|", "\\|", "[", "\\[", "~", "\\~").Replace(oneLine(text))
}
