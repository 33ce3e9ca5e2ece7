package spec

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// groupFields are the fields of one group.
var groupFields = []field[Group, Group]{
	{
		name: "doc", synonyms: []string{"description", "comment"},
		about:     "What the group is for. It becomes the method's doc comment, after the method's name.",
		accepts:   "text, of one or more lines",
		example:   "is what one completion costs.",
		schema:    object{"type": "string"},
		read:      func(p *parser, g *Group, e entry) (ok bool) { g.Doc, ok = p.docText(e); return ok },
		change:    docChanged,
		effective: func(g *Group) string { return g.Doc },
	},
	{
		name: "takes", required: true, synonyms: []string{"limits", "take", "all"},
		about: "The limits that the group takes from. A map gives each part of a limit's key a parameter, and `n` the number of tokens.",
		more: "Parameters of one name and type are one parameter of the group's method, in the order of their first use. Those for `n` follow the context: " +
			"`limit.Complete(team, model).Allow(ctx, tokens)`. In a list, each part of a key has a parameter of its own name, and `n` is 1. " +
			"If limits depend on the plan, the method has one plan for all of them as its last parameter.",
		accepts:   "a list of limits, or a map from limits to `{part: parameter, n: a number or a parameter}`",
		example:   "{sendMessage: {n: messages}}",
		schema:    membersSchema(object{"type": []string{"integer", "string"}, "minimum": 1, "maximum": int64(runtime.MaxTokens), "pattern": partPattern + "|^[1-9][0-9]*(_[0-9]+)+$"}),
		read:      (*parser).takes,
		change:    groupTakesChanged,
		effective: func(g *Group) string { return effectiveMembers(g.Takes) },
	},
	{
		name: "checks", synonyms: []string{"check", "requires"},
		about:     "The limits that must have a token, and give none up.",
		more:      "A check is decided by the tokens before the call.",
		accepts:   "a list of limits, or a map from limits to `{part: parameter}`",
		absent:    "nothing is checked",
		example:   "[suspended]",
		schema:    membersSchema(false),
		read:      (*parser).checks,
		change:    groupChecksChanged,
		effective: func(g *Group) string { return effectiveMembers(g.Checks) },
	},
	{
		name:      "goName",
		about:     "The name of the generated method, and the beginning of the names of its types.",
		accepts:   "as for a limit",
		absent:    "as for a limit",
		example:   "Complete",
		schema:    object{"type": "string", "pattern": exportedPattern, "not": object{"enum": reservedGoNames}},
		read:      (*parser).groupGoName,
		change:    groupGoNameChanged,
		effective: func(g *Group) string { return g.GoName },
	},
}

// membersSchema is the schema of a list or a map of limits; n is the schema of a number of tokens, or false.
func membersSchema(n any) object {
	binding := object{
		"type": []string{"object", "null"}, "propertyNames": object{"pattern": partPattern},
		"properties": object{countPart: n}, "additionalProperties": partSchema,
	}
	return object{
		"type":                 []string{"array", "object"},
		"items":                object{"type": "string", "pattern": limitNamePattern},
		"minItems":             1,
		"minProperties":        1,
		"propertyNames":        object{"pattern": limitNamePattern},
		"additionalProperties": binding,
	}
}

var groupsSchema = object{
	"type":                 "object",
	"propertyNames":        object{"pattern": limitNamePattern, "maxLength": runtime.MaxKey},
	"additionalProperties": object{"$ref": "#/definitions/group"},
}

const groupHelp = "write a group as complete: {takes: [llmRequests, llmTokens]}"

// groups keeps the groups for [parser.settleGroups]: they may come before the limits that they name.
func (p *parser) groups(_ *File, e entry) bool {
	p.groupsGiven = append(p.groupsGiven, e)
	return true
}

// settleGroups reads the groups, once the limits are known.
func (p *parser) settleGroups(file *File) {
	p.file = file
	for _, limit := range file.Limits {
		p.owners.add(owner{what: "limit", name: limit.Policy.Name, method: limit.GoName, at: limit.Pos})
	}
	for _, limit := range file.Limits {
		for _, method := range limit.OverridesMethods() {
			p.owners.add(owner{name: limit.Policy.Name, method: method, overrides: true})
		}
	}
	for _, given := range p.groupsGiven {
		entries, ok := p.entries(given.value, given.at, "groups", groupHelp)
		if !ok {
			continue
		}
		for _, e := range entries {
			if g := p.oneGroup(e); !e.again {
				p.sameGroupName(e, g)
				file.Groups = append(file.Groups, g)
			}
		}
	}
}

func (p *parser) oneGroup(e entry) *Group {
	g := &Group{Name: e.name, GoName: goName(e.name), Pos: e.named.pos, Given: map[string]Pos{}}
	if !e.again {
		p.limitName(e, "group")
	}
	p.limit = label(e.name)
	defer func() { p.limit = "" }()
	entries, ok := p.entries(e.value, e.at, "a group", groupHelp)
	if !ok {
		return g
	}
	p.parameters = map[string]parameter{}
	given := readFields(p, groupFields, g, entries, e.named, p.complete(e.value))
	for name, e := range given {
		g.Given[name] = e.at.pos
	}
	if _, renamed := given["goName"]; !renamed && !e.again {
		p.reservedGoName(e.named, g.GoName)
	}
	p.takenAndChecked(g, given)
	p.notShared(g)
	return g
}

// sameGroupName reports a group with the name or the Go method of a limit or of a group before it.
func (p *parser) sameGroupName(e entry, g *Group) {
	own := owner{what: "group", name: g.Name, method: g.GoName, at: g.Pos}
	for _, other := range p.owners.alike(own) {
		if other.overrides {
			p.report(e.named, sameGoName, "set goName on one of them",
				"the group %s has the Go method %s, which the overrides of %s need", quote(g.Name), clip(g.GoName), quote(other.name))
			continue
		}
		p.report(e.named, sameGoName, "choose another name, or set goName on one of them",
			"the group %s and the %s %s both have the Go method %s", quote(g.Name), other.what, quote(other.name), clip(other.method))
		p.note(span{other.at, Pos{other.at.Line, other.at.Column + len(other.name)}}, "the "+other.what+" is here")
	}
	p.owners.add(own)
	for _, plan := range p.file.Plans {
		if slices.Contains(g.goTypes(), plan.GoName) {
			p.report(e.named, sameGoName, "set goName on the group, or rename the plan",
				"the Go type %s of the group %s is also the constant of the plan %s", plan.GoName, quote(g.Name), quote(plan.Name))
			p.note(span{plan.Pos, Pos{plan.Pos.Line, plan.Pos.Column + len(plan.Name)}}, "the plan is here")
		}
	}
}

func (p *checker) groupGoName(g *Group, e entry) bool {
	name, ok := p.exportedName(e)
	if ok {
		g.GoName = name
	}
	return ok
}
