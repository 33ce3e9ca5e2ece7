package fields

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// groupDraft is a group while it is read.
type groupDraft struct {
	spec.Group
	// parameters are those of its method, by name.
	parameters map[string]parameter
}

// groupReader reads the limits of a group. check is set for those that give no tokens up.
type groupReader struct {
	*parser
	of    *groupDraft
	check bool
}

// parameter is the first use of a parameter of a group.
type parameter struct {
	typ string
	at  diag.Span
}

// members reads a list or a map of limits.
func (r groupReader) members(members *[]spec.Member, e entry) bool {
	before := len(r.found)
	switch {
	case e.value.Kind == yaml.SequenceNode:
		r.listed(members, e)
	case e.value.Kind == yaml.MappingNode:
		entries, _ := r.entries(e.value, e.at, e.name, "")
		for _, e := range entries {
			// Errors of a limit that is given twice are reported as for the first one.
			if bound := r.member(e.name, e.named, e.value); !e.again {
				*members = append(*members, bound...)
			}
		}
	default:
		r.wrongType(e, "a list or a map of limits", "write "+e.name+": [sendMessage]")
		return false
	}
	if len(e.value.Content) == 0 {
		r.report(e.at, rules.EmptyGroup, "name a limit, or leave "+e.name+" out", "%s has no limits", e.name)
	}
	return len(r.found) == before
}

// listed reads a list of limits.
func (r groupReader) listed(members *[]spec.Member, e entry) {
	first := map[string]diag.Span{}
	for _, node := range e.value.Content {
		at := r.src.At(node)
		if !isString(node) {
			if !r.muted[node] {
				r.report(at, rules.WrongType, "write "+e.name+": [sendMessage]", "%s must list names of limits, not %s", e.name, describe(node))
			}
			continue
		}
		if r.twice(first, node.Value, at, "") {
			continue
		}
		*members = append(*members, r.member(node.Value, at, nil)...)
	}
}

// member reads a limit of a group with its parameters, which are nil in a list of limits, or those of each of several keys.
// It returns none if there is no such limit, or if the limit has a diagnostic: its key may be incomplete, and its numbers may
// be missing.
func (r groupReader) member(name string, at diag.Span, binding *yaml.Node) (members []spec.Member) {
	limit := r.limitNamed(name, at)
	if limit == nil {
		return nil
	}
	own := spec.Member{Limit: limit, At: at, Count: 1}
	switch {
	case binding == nil:
		for _, part := range limit.Key {
			own.Args = append(own.Args, part.Name)
			r.parameter(part.Name, part.GoType(), at)
		}
		members = append(members, own)
	case binding.Kind == yaml.SequenceNode && len(binding.Content) > 0:
		first := map[string]diag.Span{}
		for _, each := range binding.Content {
			m, at := own, r.src.At(each)
			m.At = at
			if bound := r.bind(&m, at, each); bound && !r.boundTwice(first, m.Args, at, limit) {
				members = append(members, m)
			}
		}
	default:
		if r.bind(&own, at, binding) {
			members = append(members, own)
		}
	}
	for i := range members {
		r.canPass(&members[i])
	}
	return members
}

// boundTwice reports a key that a list has before.
func (r groupReader) boundTwice(first map[string]diag.Span, args []string, at diag.Span, limit *spec.Limit) bool {
	key := strings.Join(args, "\x00")
	before, twice := first[key]
	if !twice {
		first[key] = at
		return false
	}
	r.report(at, rules.Duplicate, "name another parameter, or take more tokens by n", "%s is given twice for the same key", diag.Label(limit.Policy.Name))
	r.note(before, "first given here")
	return true
}

func (r groupReader) limitNamed(name string, at diag.Span) *spec.Limit {
	if d := r.drafts[name]; d != nil {
		return d.limit
	}
	r.report(at, rules.UnknownLimit, "name one of the limits of this file", "the file has no limit %s", diag.Quote(name))
	r.meant(r.nearest(name, func() []string { return slices.Sorted(maps.Keys(r.drafts)) }))
	return nil
}

// bind reads the parameters of a limit, and reports whether they are a map.
func (r groupReader) bind(m *spec.Member, at diag.Span, binding *yaml.Node) bool {
	if binding.Tag == "!!null" {
		binding = &yaml.Node{Kind: yaml.MappingNode}
	}
	entries, ok := r.entries(binding, r.src.At(binding), diag.Clip(m.Limit.Policy.Name), "write "+m.Example())
	if !ok {
		return false
	}
	args := map[string]entry{}
	for _, e := range entries {
		isPart := slices.ContainsFunc(m.Limit.Key, func(part spec.KeyPart) bool { return part.Name == e.name })
		switch {
		case e.name == spec.CountPart:
			r.count(m, e)
		case isPart && !e.again:
			args[e.name] = e
		case !isPart && spec.IsShared(m.Limit, e.name):
			r.report(e.named, rules.UnboundKeyPart, "leave "+e.name+" out",
				"%s is no key part of %s; the group has a parameter %s, and passes it on", diag.Quote(e.name), diag.Label(m.Limit.Policy.Name), e.name)
		case !isPart:
			r.report(e.named, rules.UnboundKeyPart, "write "+m.Example(), "%s has no key part %s", diag.Label(m.Limit.Policy.Name), diag.Quote(e.name))
			r.meant(r.nearest(e.name, func() []string { return spec.PartNames(m.Limit.Key) }))
		}
	}
	for _, part := range m.Limit.Key {
		e, given := args[part.Name]
		arg := ""
		if given {
			arg = e.value.Value
		}
		switch {
		case !given:
			if r.complete(binding) {
				r.report(at, rules.UnboundKeyPart, "write "+m.Example(), "the key part %s of %s has no parameter", part.Name, diag.Label(m.Limit.Policy.Name))
			}
		case !isString(e.value):
			r.report(e.at, rules.UnboundKeyPart, "write "+part.Name+": "+part.Name, "%s must be the name of a parameter, not %s", part.Name, describe(e.value))
		case r.partName(e.value.Value, e.at):
			r.parameter(e.value.Value, part.GoType(), e.at)
		}
		m.Args = append(m.Args, arg)
	}
	return true
}

// count reads the number of tokens: a number, or the name of a parameter.
func (r groupReader) count(m *spec.Member, e entry) {
	if !isString(e.value) {
		m.Count, _ = r.number(e, 1, runtime.MaxTokens, "")
		return
	}
	if !partForm.MatchString(e.value.Value) {
		r.report(e.at, rules.BadKeyPart, "write a number, or the name of a parameter such as tokens", "n must be a number of tokens or the name of a parameter, not %s", diag.Quote(e.value.Value))
		return
	}
	if r.partName(e.value.Value, e.at) {
		m.Count, m.CountArg = 0, e.value.Value
		r.parameter(m.CountArg, countType, e.at)
	}
}

// countType marks the parameters with numbers of tokens, which are of the methods and not of the key.
const countType = "a number of tokens"

// parameter reports a parameter that is used with two types.
func (r groupReader) parameter(name, typ string, at diag.Span) {
	was, known := r.of.parameters[name]
	if !known {
		if r.of.parameters == nil {
			r.of.parameters = map[string]parameter{}
		}
		r.of.parameters[name] = parameter{typ, at}
		return
	}
	if was.typ != typ {
		r.report(at, rules.ParameterType, "give one of them another name: {part: parameter}", "the parameter %s is %s here, and %s before", diag.Label(name), typ, was.typ)
		r.note(was.at, fmt.Sprintf("here it is %s", was.typ))
	}
}

// canPass reports a limit that denies every request of the group.
func (r groupReader) canPass(m *spec.Member) {
	name := diag.Label(m.Limit.Policy.Name)
	least, plan := m.MostTokens(r.check)
	switch {
	case r.check && m.Limit.Policy.Full() == 0:
		r.report(m.At, rules.CannotPass, "leave the check out", "%s has capacity 0, so that a check always denies", name)
	case m.Count > least:
		if plan != "" {
			name += " can ever have with the plan " + plan
		} else {
			name += " can ever have"
		}
		r.report(m.At, rules.CannotPass, "use at most "+words.Number(least), "%s are more than %s, %s",
			words.Count(m.Count, m.Unit()), name, words.Number(least))
	}
}

// takenAndChecked reports a key that a group takes from and checks.
func (r groupReader) takenAndChecked(given map[string]entry) {
	checks, ok := given["checks"]
	for _, m := range r.of.Takes {
		if ok && slices.ContainsFunc(r.of.Checks, func(c spec.Member) bool { return c.Limit == m.Limit && slices.Equal(c.Args, m.Args) }) {
			r.report(checks.at, rules.TakenAndChecked, "leave the check out: a take checks too", "%s is in takes and in checks", diag.Label(m.Limit.Policy.Name))
			r.note(given["takes"].at, "takes is given here")
		}
	}
}

// sameFields reports limits whose decisions or slots would have one field, or one that all groups have.
func (r groupReader) sameFields() {
	members, first := slices.Concat(r.of.Members(), r.of.Takes), map[string]spec.Member{}
	for i, field := range slices.Concat(r.of.Fields(), r.of.SlotFields()) {
		m := members[i]
		before, taken := first[field]
		switch same := before.Limit == m.Limit && slices.Equal(before.Args, m.Args); { // reported by itself
		case field == "": // of a limit that is not in flight
		case slices.Contains(spec.MemberNames, field):
			r.report(m.At, rules.ReservedName, "set goName on the limit, or name another parameter", "the decisions of a group have another field or method %s", field)
		case taken && !same:
			r.report(m.At, rules.SameGoName, "set goName on the limit, or name another parameter", "the decisions of the group have two fields %s", diag.Clip(field))
			r.note(before.At, "the other one is here")
		}
		first[field] = m
	}
}

// notShared reports parameters of a group that have the name of a shared one and are something else.
func (r groupReader) notShared() {
	for _, s := range r.of.Shared() {
		other, taken := r.of.parameters[s.Name]
		if !taken {
			continue
		}
		r.report(other.at, rules.ParameterType, "give it another name: {part: parameter}",
			"the parameter %s is %s here, but %s needs %s as a parameter of this name", s.Name, other.typ, s.Limits[0], s.What)
		r.note(diag.Spanning(r.drafts[s.Limits[0]].said.Pos, s.Limits[0]), "the limit is here")
	}
}

// groupFields are the fields of one group.
var groupFields = []field[groupDraft, spec.Group]{
	{
		name: "doc", synonyms: []string{"description", "comment"},
		about:     "What the group is for. It becomes the method's doc comment, after the method's name.",
		accepts:   "text, of one or more lines",
		example:   "is what one completion costs.",
		schema:    object{"type": "string"},
		read:      func(p *parser, g *groupDraft, e entry) bool { return p.docText(&g.Doc, e) },
		change:    spec.DocChanged,
		effective: func(g *spec.Group) string { return g.Doc },
	},
	{
		name: "takes", required: true, synonyms: []string{"limits", "take", "all"},
		about: "The limits that the group takes from. A map gives each part of a limit's key a parameter, and `n` the number of tokens; a list of such maps takes from several keys of one limit.",
		more: "Parameters of one name and type are one parameter of the group's method, in the order of their first use. Those for `n` follow the context: " +
			"`limit.Complete(team, model).Allow(ctx, tokens)`. In a list of limits, each part of a key has a parameter of its own name, and `n` is 1. " +
			"With several keys of a limit, as in `transfers: [{user: sender}, {user: receiver}]`, the decisions have the fields `TransfersSender` and `TransfersReceiver`, and if both are one key, their counts add up; numbers that callers give are the same for both. " +
			"If limits depend on the plan, the method has one plan for all of them as its last parameter.",
		accepts:   "a list of limits, or a map from limits to `{part: parameter, n: a number or a parameter}`, or to a list of them",
		example:   "{sendMessage: {n: messages}}",
		schema:    membersSchema,
		read:      func(p *parser, g *groupDraft, e entry) bool { return groupReader{p, g, false}.members(&g.Takes, e) },
		change:    spec.GroupTakesChanged,
		effective: func(g *spec.Group) string { return spec.EffectiveMembers(g.Takes) },
	},
	{
		name: "checks", synonyms: []string{"check", "requires"},
		about:     "The limits that must have `n` tokens, and give none up.",
		more:      "A check is decided by the tokens before the call.",
		accepts:   "as for takes",
		absent:    "nothing is checked",
		example:   "[suspended]",
		schema:    membersSchema,
		read:      func(p *parser, g *groupDraft, e entry) bool { return groupReader{p, g, true}.members(&g.Checks, e) },
		change:    spec.GroupChecksChanged,
		effective: func(g *spec.Group) string { return spec.EffectiveMembers(g.Checks) },
	},
	{
		name:      "goName",
		about:     "The name of the generated method, and the beginning of the names of its types.",
		accepts:   "as for a limit",
		absent:    "as for a limit",
		example:   "Complete",
		schema:    goNameSchema,
		read:      func(p *parser, g *groupDraft, e entry) bool { return p.exportedName(&g.GoName, e) },
		change:    spec.GroupGoNameChanged,
		effective: func(g *spec.Group) string { return g.GoName },
	},
}

// membersSchema is the schema of a list or a map of limits.
var membersSchema = object{
	"type":                 []string{"array", "object"},
	"items":                object{"type": "string", "pattern": spec.LimitNameForm.String()},
	"minItems":             1,
	"minProperties":        1,
	"propertyNames":        object{"pattern": spec.LimitNameForm.String()},
	"additionalProperties": bindingSchema([]string{"object", "array", "null"}, object{"minItems": 1, "items": bindingSchema([]string{"object", "null"}, nil)}),
}

// bindingSchema is the schema of the parameters of a limit in a group, of one of types.
func bindingSchema(types []string, more object) object {
	n := object{"type": []string{"integer", "string"}, "minimum": 1, "maximum": int64(runtime.MaxTokens), "pattern": partForm.String() + "|^[1-9][0-9]*(_[0-9]+)+$"}
	schema := object{
		"type": types, "propertyNames": object{"pattern": partForm.String()},
		"properties": object{spec.CountPart: n}, "additionalProperties": partSchema,
	}
	maps.Copy(schema, more)
	return schema
}

const groupHelp = "write a group as complete: {takes: [llmRequests, llmTokens]}"

// groups keeps the groups for [parser.settleGroups]: they may come before the limits that they name.
func (p *parser) groups(_ *spec.File, e entry) bool {
	p.groupsGiven = append(p.groupsGiven, e)
	return true
}

// settleGroups reads the groups, once the limits are known.
func (p *parser) settleGroups(file *spec.File) {
	for _, given := range p.groupsGiven {
		entries, ok := p.entries(given.value, given.at, "groups", groupHelp)
		if !ok {
			continue
		}
		for _, e := range entries {
			if g := p.oneGroup(e); !e.again {
				p.claimGroup(e, g)
				file.Groups = append(file.Groups, g)
			}
		}
	}
}

func (p *parser) oneGroup(e entry) *spec.Group {
	g := &groupDraft{Group: spec.Group{Name: e.name, GoName: spec.GoName(e.name), Pos: e.named.Pos, Given: map[string]diag.Pos{}}}
	if !e.again {
		p.limitName(e, "group")
	}
	defer p.enter(diag.Label(e.name))()
	entries, ok := p.entries(e.value, e.at, "a group", groupHelp)
	if !ok {
		return &g.Group
	}
	given := readFields(p, groupFields, g, entries, e.named, p.complete(e.value))
	for name, e := range given {
		g.Given[name] = e.at.Pos
	}
	if _, renamed := given["goName"]; !renamed && !e.again {
		p.reservedGoName(e.named, g.GoName)
	}
	r := groupReader{p, g, false}
	r.takenAndChecked(given)
	r.sameFields()
	r.notShared()
	return &g.Group
}

// claimGroup claims the name of a group, and the Go names of its method and its types.
func (p *parser) claimGroup(e entry, g *spec.Group) {
	own := owner{what: "the group " + diag.Quote(g.Name), at: e.named}
	if d := p.drafts[g.Name]; d != nil {
		p.report(e.named, rules.SameGoName, "choose another name", "%s has the name of a limit", own.what)
		p.note(diag.Spanning(d.said.Pos, g.Name), "the limit is here")
		return
	}
	names := []string{"method " + g.GoName}
	for _, name := range g.GoTypes() {
		names = append(names, "name "+name)
	}
	p.claim(own, names...)
}
