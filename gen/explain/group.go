package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Group returns the page of a group: the tokens taken from each limit, the rules of the limits, and how to call it.
func Group(file string, g *spec.Group) Page {
	p := Page{Title: fmt.Sprintf("%s:%d:%d: %s, a group", file, g.Pos.Line, g.Pos.Column, g.Name)}
	p.add("doc", g.Doc)
	p.add("rule", "All limits must allow a request: if one denies it, no token is taken from any of them.")
	for i, sentence := range g.SharedWords() {
		p.add(g.Shared()[i].Name, sentence)
	}
	sentences := g.Words()
	var described []*spec.Limit
	for i, m := range g.Members() {
		if slices.Contains(described, m.Limit) {
			p.add(m.Limit.Policy.Name, sentences[i])
			continue
		}
		described = append(described, m.Limit)
		p.member(m.Limit, sentences[i])
	}
	if g.Reserves() {
		p.add("reserving", reservingTogether(g))
	}
	p.add("call", "limit."+g.Call())
	p.add("methods", words.List(g.Verbs(), "and")+".")
	return p
}

// member adds what a group takes from a limit, and the limit's rule, by plan if it depends on the plan.
func (p *Page) member(l *spec.Limit, takes string) {
	name, d := l.Policy.Name, describe.Limit(l)
	rule := d.Sentences
	if len(d.Plans) == 0 {
		rule = d.Lines()
	}
	p.add(name, strings.Join(append([]string{takes}, rule...), " "))
	p.planRules(name+", plan ", d)
}

// reservingTogether says which limits Reserve takes from ahead of time.
func reservingTogether(g *spec.Group) string {
	var ahead, now []spec.Member
	for _, m := range g.Takes {
		if m.Limit.Policy.Reserves() {
			ahead = append(ahead, m)
		} else {
			now = append(now, m)
		}
	}
	if len(ahead) == 0 { // limits with prices
		return "Reserve takes the tokens if all are available now, to be settled when the usage is known."
	}
	text := "Reserve takes tokens of " + words.List(spec.LimitNames(ahead), "and") +
		" ahead of their time, and its Delay is the largest."
	if len(now) > 0 {
		text += " Those of " + words.List(spec.LimitNames(now), "and") +
			" cannot be reserved: without enough of them now, it is denied."
	}
	return text
}

// groups adds a table of groups.
func (p *Page) groups(groups []*spec.Group) {
	if len(groups) == 0 {
		return
	}
	t := Table{Head: []string{"group", "takes", "checks"}, align: "lll", cut: []int{2, 1, 0}}
	for _, g := range groups {
		t.Rows = append(t.Rows, []string{g.Name, limitNames(g.Takes), limitNames(g.Checks)})
	}
	p.table("", "", t)
}

func limitNames(members []spec.Member) string { return strings.Join(spec.LimitNames(members), ", ") }
