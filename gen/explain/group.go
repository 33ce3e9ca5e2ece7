package explain

import (
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// WriteGroup prints the page of a group: the tokens taken from each limit, the rules of the limits, and how to call it.
// It returns the error of w.
func WriteGroup(w io.Writer, file string, g *spec.Group, color bool) error {
	p := newPage(color)
	p.title("%s:%d:%d: %s, a group", printable.Line(file), g.Pos.Line, g.Pos.Column, g.Name)
	if g.Doc != "" {
		p.paragraph("doc", g.Doc)
	}
	p.paragraph("rule", "All limits must allow a request: if one denies it, no token is taken from any of them.")
	for i, sentence := range g.SharedWords() {
		p.paragraph(g.Shared()[i].Name, sentence)
	}
	sentences := g.Words()
	for i, m := range g.Members() {
		p.member(m.Limit, sentences[i])
	}
	if g.Reserves() {
		p.paragraph("reserving", reservingTogether(g))
	}
	p.groupCall(g)
	return p.writeTo(w)
}

// member prints what a group takes from a limit, and the limit's rule, by plan if it depends on the plan.
func (p *page) member(l *spec.Limit, takes string) {
	name, d := l.Policy.Name, fields.Describe(l)
	rule := d.Sentences
	if len(d.Plans) == 0 {
		rule = d.Lines()
	}
	p.paragraph(name, strings.Join(append([]string{takes}, rule...), " "))
	p.planRules(name+", plan ", d)
}

// reservingTogether says which limits Reserve takes from ahead of time.
func reservingTogether(g *spec.Group) string {
	var ahead, now []string
	for _, m := range g.Takes {
		if m.Limit.Policy.Reserves() {
			ahead = append(ahead, m.Limit.Policy.Name)
		} else {
			now = append(now, m.Limit.Policy.Name)
		}
	}
	text := "Reserve takes tokens of " + words.List(ahead, "and") + " ahead of their time, and its Delay is the largest."
	if len(now) > 0 {
		text += " Those of " + words.List(now, "and") + " cannot be reserved: without enough of them now, it is denied."
	}
	return text
}

// groupCall shows a call in Go, and lists the methods.
func (p *page) groupCall(g *spec.Group) {
	verbs := g.Verbs()
	arguments := append([]string{"ctx"}, g.Counts()...)
	p.paragraph("call", fmt.Sprintf("limit.%s(%s).%s(%s)", g.GoName, strings.Join(g.Parameters(), ", "), verbs[0], strings.Join(arguments, ", ")))
	p.paragraph("methods", words.List(verbs, "and")+".")
}

// groups prints a table of groups.
func (p *page) groups(groups []*spec.Group) {
	if len(groups) == 0 {
		return
	}
	rows := [][]string{{"group", "takes", "checks"}}
	for _, g := range groups {
		rows = append(rows, []string{g.Name, memberNames(g.Takes), memberNames(g.Checks)})
	}
	head, list, _ := strings.Cut(cells.Table(rows, "lll", "", 2, 1, 0), "\n")
	fmt.Fprintf(p, "\n%s%s%s\n%s", p.ink.Bold, head, p.ink.Off, list)
}

func memberNames(members []spec.Member) string {
	var names []string
	for _, m := range members {
		names = append(names, m.Limit.Policy.Name)
	}
	return strings.Join(names, ", ")
}
