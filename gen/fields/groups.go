package fields

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var groupsField = fileField{
	name:    "groups",
	about:   "Groups of limits, by name: one call takes from all limits of a group or, if one denies, from none. A name becomes the name of a Go method.",
	accepts: "a map from names to groups",
	absent:  "no groups",
	example: "{post: {takes: [sendMessage]}}",
	schema:  namedSchema("group"),
	read:    (*parser).keepGroups,
}

// groupFields are the fields of one group.
var groupFields = []field[groupDraft, spec.Group]{
	{
		name: "doc", synonyms: []string{"description", "comment"},
		about:     "What the group is for, as for a limit.",
		accepts:   "text",
		example:   "is what one completion costs.",
		schema:    object{"type": "string"},
		read:      func(p *parser, g *groupDraft, e document.Entry) bool { return p.readDoc(&g.Doc, e) },
		change:    ids.DocChanged,
		effective: func(g *spec.Group) string { return g.Doc },
	},
	{
		name: "takes", required: true, synonyms: []string{"limits", "take", "all"},
		about: "The limits that the group takes from. A map gives each part of a limit's key a parameter, and `n` the number of tokens; a list of such maps takes from several keys of one limit.",
		more: "Parameters of one name and type are one parameter of the group's method. Those for `n` follow the context, and one plan comes last. " +
			"In a list of limits, each part of a key has a parameter of its own name, and `n` is 1. " +
			"Several keys of a limit, as in `transfers: [{user: sender}, {user: receiver}]`, have the decisions `TransfersSender` and `TransfersReceiver`. If both are one key, their tokens add up. Both have the same numbers from the caller. " +
			"With `prices`, one usage follows the context, and `n` is not allowed.",
		accepts: "a list of limits, or a map from limits to `{part: parameter, n: a number or a parameter}`, or to a list of them",
		example: "{sendMessage: {n: messages}}",
		schema:  membersSchema,
		read: func(p *parser, g *groupDraft, e document.Entry) bool {
			return membersReader{p, g, false}.members(&g.Takes, e)
		},
		change:    ids.GroupTakesChanged,
		effective: func(g *spec.Group) string { return spec.EffectiveMembers(g.Takes) },
	},
	{
		name: "checks", synonyms: []string{"check", "requires"},
		about:   "The limits that must have `n` tokens, and give none up.",
		accepts: "as for takes",
		absent:  "nothing is checked",
		example: "[suspended]",
		schema:  membersSchema,
		read: func(p *parser, g *groupDraft, e document.Entry) bool {
			return membersReader{p, g, true}.members(&g.Checks, e)
		},
		change:    ids.GroupChecksChanged,
		effective: func(g *spec.Group) string { return spec.EffectiveMembers(g.Checks) },
	},
	{
		name:      "goName",
		about:     "The name of the generated method, and the beginning of the names of its types.",
		accepts:   "as for a limit",
		absent:    "as for a limit",
		example:   "Complete",
		schema:    goNameSchema,
		read:      func(p *parser, g *groupDraft, e document.Entry) bool { return p.readGoName(&g.GoName, e) },
		change:    ids.GroupGoNameChanged,
		effective: func(g *spec.Group) string { return g.GoName },
	},
}

const groupHelp = "write a group as complete: {takes: [llmRequests, llmTokens]}"

// keepGroups keeps the groups for [parser.readGroups]: they may come before the limits that they name.
func (p *parser) keepGroups(_ *spec.File, e document.Entry) bool {
	p.groupsGiven = append(p.groupsGiven, e)
	return true
}

// readGroups reads the groups, once the limits are known.
func (p *parser) readGroups(file *spec.File) {
	for _, given := range p.groupsGiven {
		entries, ok := p.doc.Entries(given.Value, given.At, "groups", groupHelp)
		if !ok {
			continue
		}
		for _, e := range entries {
			if g := p.readGroup(e); !e.Again {
				p.claimGroup(e, g)
				file.Groups = append(file.Groups, g)
			}
		}
	}
}

func (p *parser) readGroup(e document.Entry) *spec.Group {
	g := &groupDraft{Group: spec.Group{Name: e.Name, GoName: spec.GoName(e.Name), Pos: e.Named.Pos,
		Places: map[string]diag.Pos{}}}
	if !e.Again {
		p.limitName(e, "group")
	}
	defer p.doc.Enter(diag.Label(e.Name))()
	entries, ok := p.doc.Entries(e.Value, e.At, "a group", groupHelp)
	if !ok {
		return &g.Group
	}
	given := readFields(p, groupFields, g, entries, e.Named, p.doc.Complete(e.Value))
	for name, e := range given {
		g.Places[name] = e.At.Pos
	}
	if _, renamed := given["goName"]; !renamed && !e.Again {
		p.reservedGoName(e.Named, g.GoName)
	}
	p.takenAndChecked(g, given)
	p.sameFields(g)
	p.notShared(g)
	return &g.Group
}

// claimGroup claims the name of a group, and the Go names of its method and its types.
func (p *parser) claimGroup(e document.Entry, g *spec.Group) {
	own := owner{what: "the group " + diag.Quote(g.Name), at: e.Named}
	if d := p.drafts[g.Name]; d != nil {
		p.doc.Report(e.Named, ids.SameGoName, "choose another name", "%s has the name of a limit", own.what)
		p.doc.Note(diag.Spanning(d.limit.Pos, g.Name), "the limit is here")
		return
	}
	names := []string{"method " + g.GoName}
	for _, name := range g.GoTypes() {
		names = append(names, "name "+name)
	}
	p.claim(own, names...)
}

// takenAndChecked reports a key that a group takes from and checks.
func (p *parser) takenAndChecked(g *groupDraft, given map[string]document.Entry) {
	checks, ok := given["checks"]
	for _, m := range g.Takes {
		if ok && slices.ContainsFunc(g.Checks, func(c spec.Member) bool { return c.Limit == m.Limit && slices.Equal(c.Args, m.Args) }) {
			p.doc.Report(checks.At, ids.TakenAndChecked, "leave the check out: a take checks too", "%s is in takes and in checks",
				diag.Label(m.Limit.Policy.Name))
			p.doc.Note(given["takes"].At, "takes is given here")
		}
	}
}

// sameFields reports limits whose decisions or slots would have one field, or one that all groups have.
func (p *parser) sameFields(g *groupDraft) {
	members, first := slices.Concat(g.Members(), g.Takes), map[string]spec.Member{}
	for i, field := range slices.Concat(g.Fields(), g.SlotFields()) {
		m := members[i]
		before, taken := first[field]
		switch same := before.Limit == m.Limit && slices.Equal(before.Args, m.Args); { // reported by itself
		case field == "": // the limit is not in flight
		case slices.Contains(spec.MemberNames, field):
			p.doc.Report(m.At, ids.ReservedName, "set goName on the limit, or name another parameter",
				"the decisions of a group have another field or method %s", field)
		case taken && !same:
			p.doc.Report(m.At, ids.SameGoName, "set goName on the limit, or name another parameter",
				"the decisions of the group have two fields %s", diag.Clip(field))
			p.doc.Note(before.At, "the other one is here")
		}
		first[field] = m
	}
}

// notShared reports parameters of a group that have the name of a shared one and are something else.
func (p *parser) notShared(g *groupDraft) {
	for _, s := range g.Shared() {
		other, taken := g.parameters[s.Name]
		if !taken {
			continue
		}
		p.doc.Report(other.at, ids.ParameterType, "give it another name: {part: parameter}",
			"the parameter %s is %s here, but %s needs %s as a parameter of this name", s.Name, other.typ, s.Limits[0], s.What)
		p.doc.Note(diag.Spanning(p.drafts[s.Limits[0]].limit.Pos, s.Limits[0]), "the limit is here")
	}
}
