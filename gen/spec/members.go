package spec

import (
	"fmt"
	"maps"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func (p *parser) takes(g *Group, e entry) (ok bool) {
	g.Takes, ok = p.members(e, true)
	return ok
}

func (p *parser) checks(g *Group, e entry) (ok bool) {
	g.Checks, ok = p.members(e, false)
	return ok
}

// members reads a list or a map of limits.
func (p *parser) members(e entry, counts bool) (members []Member, ok bool) {
	before := len(p.found)
	switch {
	case e.value.Kind == yaml.SequenceNode:
		p.listed(&members, e, counts)
	case e.value.Kind == yaml.MappingNode:
		entries, _ := p.entries(e.value, e.at, e.name, "")
		for _, e := range entries {
			// Errors of a limit that is given twice are reported as for the first one.
			if m := p.member(e.name, e.named, e.value, counts); m != nil && !e.again {
				members = append(members, *m)
			}
		}
	default:
		p.wrongType(e, "a list or a map of limits", "write "+e.name+": [sendMessage]")
		return nil, false
	}
	if len(e.value.Content) == 0 {
		p.report(e.at, emptyGroup, "name a limit, or leave "+e.name+" out", "%s has no limits", e.name)
	}
	return members, len(p.found) == before
}

// listed reads a list of limits.
func (p *parser) listed(members *[]Member, e entry, counts bool) {
	first := map[string]span{}
	for _, node := range e.value.Content {
		at := p.src.at(node)
		if !isString(node) {
			if !p.muted[node] {
				p.report(at, wrongType, "write "+e.name+": [sendMessage]", "%s must list names of limits, not %s", e.name, describe(node))
			}
			continue
		}
		if was, twice := first[node.Value]; twice {
			p.report(at, duplicate, "", "%s is given twice", quote(node.Value))
			p.note(was, "first given here")
			continue
		}
		first[node.Value] = at
		if m := p.member(node.Value, at, nil, counts); m != nil {
			*members = append(*members, *m)
		}
	}
}

// member reads a limit of a group with its parameters, or nil in a list. It returns nil if there is no such limit, or if
// the limit has a diagnostic: its key may be incomplete, and its numbers may be missing.
func (p *parser) member(name string, at span, binding *yaml.Node, counts bool) *Member {
	limit := p.limitNamed(name, at)
	if limit == nil {
		return nil
	}
	m := &Member{Limit: limit}
	if counts {
		m.Count = 1
	}
	if binding == nil {
		for _, part := range limit.Key {
			m.Args = append(m.Args, part.Name)
			p.parameter(part.Name, part.GoType(), at)
		}
	} else {
		p.bind(m, at, binding, counts)
	}
	p.canPass(m, at, counts)
	return m
}

func (p *parser) limitNamed(name string, at span) *Limit {
	if d := p.drafts[name]; d != nil {
		return d.limit
	}
	p.report(at, unknownLimit, "name one of the limits of this file", "the file has no limit %s", quote(name))
	p.meant(p.nearest(name, func() []string { return slices.Sorted(maps.Keys(p.drafts)) }))
	return nil
}

// bind reads the parameters of a limit.
func (p *parser) bind(m *Member, at span, binding *yaml.Node, counts bool) {
	if binding.Tag == "!!null" {
		binding = &yaml.Node{Kind: yaml.MappingNode}
	}
	entries, ok := p.entries(binding, p.src.at(binding), clip(m.Limit.Policy.Name), "write "+m.example())
	if !ok {
		return
	}
	args := map[string]entry{}
	for _, e := range entries {
		isPart := slices.ContainsFunc(m.Limit.Key, func(part KeyPart) bool { return part.Name == e.name })
		switch {
		case e.name == countPart && !counts:
			p.report(e.named, countInCheck, "leave n out, or move the limit to takes", "a check takes no tokens, so it has no n")
		case e.name == countPart:
			p.count(m, e)
		case isPart && !e.again:
			args[e.name] = e
		case !isPart && isShared(m.Limit, e.name):
			p.report(e.named, unboundKeyPart, "leave "+e.name+" out",
				"%s is no key part of %s; the group has a parameter %s, and passes it on", quote(e.name), label(m.Limit.Policy.Name), e.name)
		case !isPart:
			p.report(e.named, unboundKeyPart, "write "+m.example(), "%s has no key part %s", label(m.Limit.Policy.Name), quote(e.name))
			p.meant(Nearest(e.name, partNames(m.Limit)))
		}
	}
	for _, part := range m.Limit.Key {
		e, given := args[part.Name]
		switch {
		case !given:
			if p.complete(binding) {
				p.report(at, unboundKeyPart, "write "+m.example(), "the key part %s of %s has no parameter", part.Name, label(m.Limit.Policy.Name))
			}
		case !isString(e.value):
			p.report(e.at, unboundKeyPart, "write "+part.Name+": "+part.Name, "%s must be the name of a parameter, not %s", part.Name, describe(e.value))
		case p.partName(e.value.Value, e.at):
			p.parameter(e.value.Value, part.GoType(), e.at)
		}
		m.Args = append(m.Args, e.valueText())
	}
}

func (e entry) valueText() string {
	if e.value == nil {
		return ""
	}
	return e.value.Value
}

// count reads the number of tokens: a number, or the name of a parameter.
func (p *parser) count(m *Member, e entry) {
	if !isString(e.value) {
		m.Count, _ = p.number(e, 1, runtime.MaxTokens, "")
		return
	}
	if !partForm.MatchString(e.value.Value) {
		p.report(e.at, badKeyPart, "write a number, or the name of a parameter such as tokens", "n must be a number of tokens or the name of a parameter, not %s", quote(e.value.Value))
		return
	}
	if p.partName(e.value.Value, e.at) {
		m.Count, m.CountArg = 0, e.value.Value
		p.parameter(m.CountArg, countType, e.at)
	}
}

// countType marks the parameters with numbers of tokens, which are of the methods and not of the key.
const countType = "a number of tokens"

// parameter reports a parameter that is used with two types.
func (p *parser) parameter(name, typ string, at span) {
	was, known := p.parameters[name]
	if !known {
		if p.parameters != nil {
			p.parameters[name] = parameter{typ, at}
		}
		return
	}
	if was.typ != typ {
		p.report(at, parameterType, "give one of them another name: {part: parameter}", "the parameter %s is %s here, and %s before", label(name), typ, was.typ)
		p.note(was.at, fmt.Sprintf("here it is %s", was.typ))
	}
}

// canPass reports a limit that denies every request of the group.
func (p *checker) canPass(m *Member, at span, takes bool) {
	name := label(m.Limit.Policy.Name)
	least, plan := m.mostTokens()
	switch {
	case !takes && m.Limit.Policy.Capacity == 0:
		p.report(at, cannotPass, "leave the check out", "%s has capacity 0, so that a check always denies", name)
	case takes && m.Count > least:
		if plan != "" {
			name += " can ever have with the plan " + plan
		} else {
			name += " can ever have"
		}
		p.report(at, cannotPass, "use at most "+words.Number(least), "%s tokens are more than %s, %s",
			words.Number(m.Count), name, words.Number(least))
	case slices.Contains(memberNames, m.Limit.GoName):
		p.report(at, reservedName, "set goName on the limit", "the decisions of a group have another field or method %s", m.Limit.GoName)
	}
}

// takenAndChecked reports a limit that a group takes from and checks.
func (p *checker) takenAndChecked(g *Group, given map[string]entry) {
	checks, ok := given["checks"]
	for _, m := range g.Takes {
		if ok && slices.ContainsFunc(g.Checks, func(c Member) bool { return c.Limit == m.Limit }) {
			p.report(checks.at, takenAndChecked, "leave the check out: a take checks too", "%s is in takes and in checks", label(m.Limit.Policy.Name))
			p.note(given["takes"].at, "takes is given here")
		}
	}
}

// notShared reports parameters of a group that have the name of a shared one and are something else.
func (p *parser) notShared(g *Group) {
	for _, s := range g.Shared() {
		other, taken := p.parameters[s.Name]
		if !taken {
			continue
		}
		p.report(other.at, parameterType, "give it another name: {part: parameter}",
			"the parameter %s is %s here, but %s needs %s as a parameter of this name", s.Name, other.typ, s.Limits[0], s.What)
		name := s.Limits[0]
		at := p.drafts[name].pos
		p.note(span{at, Pos{at.Line, at.Column + len(name)}}, "the limit is here")
	}
}
