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

// example is the member with each part of its key bound to a parameter of its own name.
func (m *Member) example() string {
	own := Member{Limit: m.Limit, Args: partNames(m.Limit)}
	return own.String()
}

func partNames(l *Limit) (names []string) {
	for _, part := range l.Key {
		names = append(names, part.Name)
	}
	return names
}

// count reads the number of tokens: a number, or the name of a parameter.
func (p *parser) count(m *Member, e entry) {
	if !isString(e.value) {
		m.Count, _ = p.number(e, 1, runtime.MaxTokens)
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

// parameter is the first use of a parameter of a group.
type parameter struct {
	typ string
	at  span
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
func (p *parser) canPass(m *Member, at span, takes bool) {
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

// mostTokens returns the largest number of tokens that can pass, with the plan that has the least; "" if it is the same
// for all plans.
func (m *Member) mostTokens() (least int64, plan string) {
	least = runtime.Unbounded
	for _, of := range m.Limit.Each() {
		policy := &of.Policy
		if most := policy.Capacity + min(policy.MaxReserved, runtime.Unbounded-policy.Capacity); !of.Unlimited() && most < least {
			least, plan = most, of.Plan
		}
	}
	return least, plan
}

// memberNames are the fields and methods that the decisions and the reservations of every group have.
var memberNames = []string{
	"Allowed", "RetryAfter", "Each", "DeniedBy", "String", "Err", "Decisions", "Delay", "At", "Cancel", "Reservations",
}

// takenAndChecked reports a limit that a group takes from and checks.
func (p *parser) takenAndChecked(g *Group, given map[string]entry) {
	checks, ok := given["checks"]
	for _, m := range g.Takes {
		if ok && slices.ContainsFunc(g.Checks, func(c Member) bool { return c.Limit == m.Limit }) {
			p.report(checks.at, takenAndChecked, "leave the check out: a take checks too", "%s is in takes and in checks", label(m.Limit.Policy.Name))
			p.note(given["takes"].at, "takes is given here")
		}
	}
}

// SharedParameter is a parameter that the methods of some limits have after those for the parts of the key. The method of
// a group has it once, and passes it to each of these limits.
type SharedParameter struct {
	// Name is the name of the parameter, and Type its Go type, in which Plan is the generated one.
	Name, Type string
	// What names the argument: "the plan".
	What string
	// Limits are the names of the limits that need it.
	Limits []string
}

// The names of the shared parameters.
const (
	AnniversaryParameter = "anniversary"
	ZoneParameter        = "zone"
	PlanParameter        = "plan"
)

// sharedParameters are in the order of the parameters.
var sharedParameters = []struct {
	SharedParameter
	needed func(l *Limit) bool
}{
	{SharedParameter{Name: AnniversaryParameter, Type: "time.Time", What: "the anniversary"}, func(l *Limit) bool { return l.Policy.Calendar.Anniversary }},
	{SharedParameter{Name: ZoneParameter, Type: "*time.Location", What: "the time zone"}, func(l *Limit) bool { return l.Policy.Calendar.ZonePerKey }},
	{SharedParameter{Name: PlanParameter, Type: "Plan", What: "the plan"}, func(l *Limit) bool { return len(l.Plans) > 0 }},
}

// Shared returns the parameters that the method of a limit has after those for the parts of the key, in their order.
func (l *Limit) Shared() []SharedParameter { return sharedBy([]*Limit{l}) }

// Shared returns the parameters that the method of the group has after those for parts of keys, in their order.
func (g *Group) Shared() []SharedParameter {
	var limits []*Limit
	for _, m := range g.Members() {
		limits = append(limits, m.Limit)
	}
	return sharedBy(limits)
}

func sharedBy(limits []*Limit) (list []SharedParameter) {
	for _, s := range sharedParameters {
		for _, l := range limits {
			if s.needed(l) && !slices.Contains(s.Limits, l.Policy.Name) {
				s.Limits = append(s.Limits, l.Policy.Name)
			}
		}
		if len(s.Limits) > 0 {
			list = append(list, s.SharedParameter)
		}
	}
	return list
}

// Plans returns the names of the plans if a limit of the group depends on the plan, and otherwise none.
func (g *Group) Plans() []string {
	for _, m := range g.Members() {
		if len(m.Limit.Plans) > 0 {
			return m.Limit.PlanNames()
		}
	}
	return nil
}

// Parameters returns the names of all parameters of the group's method, in their order.
func (g *Group) Parameters() (names []string) {
	for _, key := range g.Keys() {
		names = append(names, key.Name)
	}
	return append(names, sharedNames(g)...)
}

func sharedNames(g *Group) (names []string) {
	for _, s := range g.Shared() {
		names = append(names, s.Name)
	}
	return names
}

// SharedWords returns a sentence on each shared parameter: "The plan is that of llmRequests and llmTokens."
func (g *Group) SharedWords() (sentences []string) {
	for _, s := range g.Shared() {
		sentences = append(sentences, "T"+s.What[1:]+" is that of "+words.List(s.Limits, "and")+".")
	}
	return sentences
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

// isShared reports whether the method of a limit has a shared parameter with a name.
func isShared(l *Limit, name string) bool {
	return slices.ContainsFunc(l.Shared(), func(s SharedParameter) bool { return s.Name == name })
}
