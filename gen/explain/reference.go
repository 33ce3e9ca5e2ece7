package explain

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// word is one that explain has a page of, and its sort: "a field" or "an id".
type word struct {
	text, sort string
	// page gets how the reader starts ratelimitgen.
	page func(program string) Page
}

// vocabulary returns the words with a page of their own: the fields of limits.yaml, the ids of its rules and of changes, the
// classes of changes, the labels of the notes of a review, and the levels of annotations.
func vocabulary() (list []word) {
	for _, f := range fields.Fields() {
		list = append(list, word{f.Name, "a field", func(string) Page { return fieldPage(f) }})
	}
	for _, r := range ids.Rules() {
		list = append(list, word{r.ID, "an id", func(string) Page { return rulePage(r) }})
	}
	for _, k := range ids.Changes() {
		list = append(list, word{k.ID, "an id", func(string) Page { return changePage(k) }})
	}
	for _, t := range terms {
		list = append(list, word{t.word, "an id", func(program string) Page { return termPage(t, program) }})
	}
	return list
}

// Words returns the words that [Word] explains.
func Words() []string { return words.Of(vocabulary(), func(w word) string { return w.text }) }

// Word returns what a word is, "a field" or "an id", and its pages, each with an example. There are none for an unknown
// word, and several if limits and groups, for example, have a field of that name. program is how the reader starts
// ratelimitgen.
func Word(text, program string) (sort string, pages []Page) {
	for _, w := range vocabulary() {
		if w.text == text {
			sort, pages = w.sort, append(pages, w.page(program))
		}
	}
	return sort, pages
}

func fieldPage(f fields.Field) Page {
	p := Page{Title: f.Name + ": a field of " + f.Of}
	p.add("meaning", f.Meaning)
	p.add("write", f.Accepts)
	if f.Required {
		p.add("default", "none, required")
	} else {
		p.add("default", f.Absent)
	}
	p.file("example", f.Example)
	return p
}

// rulePage has a file that breaks the rule, with the edit that corrects it, and the output of check for the file.
func rulePage(r *ids.Meaning) Page {
	p := Page{Title: r.ID + ": an error that check reports"}
	p.add("rule", r.Summary)
	if r.Before == "" {
		p.add("example", "none, because such a file is too long to show.")
		return p
	}
	p.file("wrong (-) and right (+)", edited(r.Before, r.After))
	_, diagnostics := fields.Parse("limits.yaml", []byte(r.Before))
	p.Sections = append(p.Sections, Section{Label: "check prints", Diagnostics: diagnostics})
	return p
}

// edited returns both versions of a file in one, as diff prints them: the lines of only one version begin with - or +.
func edited(old, new string) string {
	a, b := strings.SplitAfter(old, "\n"), strings.SplitAfter(new, "\n")
	begin, end := 0, 0
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		begin++
	}
	for end < min(len(a), len(b))-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	var out strings.Builder
	for _, part := range []struct {
		mark  string
		lines []string
	}{{" ", a[:begin]}, {"-", a[begin : len(a)-end]}, {"+", b[begin : len(b)-end]}, {" ", a[len(a)-end:]}} {
		for _, line := range part.lines {
			if line != "" {
				out.WriteString(part.mark + strings.TrimSuffix(line, "\n") + "\n")
			}
		}
	}
	return out.String()
}

// changePage has an edit that is the change, the output of diff for it, and the classes in both directions.
func changePage(k *ids.Meaning) Page {
	p := Page{Title: k.ID + ": a change that diff reports"}
	p.add("change", k.Summary)
	old, new := example("main:limits.yaml", k.Before), example("limits.yaml", k.After)
	r := judge.Review(old, new)
	p.add("classes", "The example below is "+classesInWords(r, judge.Review(new, old), k.ID)+".")
	p.file("old (-) and new (+)", edited(k.Before, k.After))
	for _, s := range r.Subjects {
		p.Sections = append(p.Sections, Section{Label: "diff prints", Lines: render.LinesOf(&s)})
	}
	return p
}

// example parses a file of [ids.Changes], all of which are valid.
func example(name, text string) *spec.File {
	file, diagnostics := fields.Parse(name, []byte(text))
	if len(diagnostics) > 0 {
		panic("explain: an example is not valid: " + diagnostics[0].Message)
	}
	return file
}

// classesInWords lists the classes of the changes with an id in an example, and in the opposite edit if they differ: one
// example serves for both, since most edits have a looser and a tighter direction.
func classesInWords(example, opposite *review.Review, id string) string {
	forward, back := words.List(classesOf(example, id), "and"), words.List(classesOf(opposite, id), "and")
	if back == "" || back == forward {
		return forward
	}
	return forward + "; the opposite edit is " + back
}

func classesOf(r *review.Review, id string) (classes []string) {
	for _, s := range r.Subjects {
		for _, f := range s.Findings {
			if f.Kind.ID == id {
				classes = append(classes, review.ClassNames(f.Classes())...)
			}
		}
	}
	return classes
}

// term is a word that a review prints about a change, besides the ids of changes.
type term struct{ word, category, meaning string }

// The categories of terms, as titles print them.
const (
	aClass = "a class of changes"
	aNote  = "a label of the notes of diff"
	aLevel = "a level of annotations"
)

var terms = append(classTerms(), []term{
	{review.Rule, aNote, "What the limit does after the edit."},
	{review.RemovedRule, aNote, "What the removed limit did."},
	{review.Calls, aNote, "What happens to the code that calls the limit."},
	{review.Deploy, aNote, "What happens to stored rows when the new version starts, and while old and new versions run side by side."},
	{"sql", aNote, "A statement to run by hand, and when to run it. The table is rate_limits unless you chose another name."},
	{"notice", aLevel, "With -format github: an edit that is neither loosened, breaking nor removed and does not touch stored state."},
	{"warning", aLevel, "With -format github: an edit that is loosened, breaking or removed, or touches stored state."},
	{"error", aLevel, "With -format github: an edit that -fail-on rejects, or an error in a file."},
}...)

func classTerms() (list []term) {
	for _, class := range review.Classes() {
		list = append(list, term{string(class), aClass, class.Meaning()})
	}
	return list
}

// termPage has the meaning of a word and, for a class, the ids of the changes with an example of that class.
func termPage(t term, program string) Page {
	p := Page{Title: t.word + ": " + t.category}
	p.add("meaning", t.meaning)
	if t.category != aClass {
		return p
	}
	examples := ""
	for _, k := range ids.Changes() {
		old, new := example("main:limits.yaml", k.Before), example("limits.yaml", k.After)
		both := append(classesOf(judge.Review(old, new), k.ID), classesOf(judge.Review(new, old), k.ID)...)
		if slices.Contains(both, t.word) {
			examples += program + " explain " + k.ID + "\n"
		}
	}
	// Each is a command to paste.
	p.file("examples", examples)
	return p
}
