package spec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Group is several limits that one call takes from: from all of them or, if one denies, from none.
type Group struct {
	// Name is the name in the file. It is not stored.
	Name string
	// GoName is the name of the generated method: "Complete" for complete.
	GoName string
	// Doc is the author's text, as for a [Limit].
	Doc string
	// Takes are the limits that the group takes from, and Checks those that must have a token and give none up.
	Takes, Checks []Member
	// Pos is the place of the group's name.
	Pos Pos
	// Given has the places of the given values, by the name of the field.
	Given map[string]Pos
}

// Member is a limit of a [Group].
type Member struct {
	Limit *Limit
	// Args has the name of the parameter for each part of the limit's key.
	Args []string
	// Count is the number of tokens, unless CountArg is the name of the parameter that has it.
	Count    int64
	CountArg string
}

// Members returns the limits that the group takes from, and then those that it checks. Decisions are in this order.
func (g *Group) Members() []Member { return slices.Concat(g.Takes, g.Checks) }

// Keys returns the parameters of the group's method for parts of keys: one for each name, in the order of their first use
// by [Group.Members]. The method has those of [Group.Shared] after them.
func (g *Group) Keys() (keys []KeyPart) {
	for _, m := range g.Members() {
		for i, name := range m.Args {
			// A parameter can be a part of two types with one Go type, such as hashed string and string.
			if key := (KeyPart{name, m.Limit.Key[i].Type}); !slices.ContainsFunc(keys, func(k KeyPart) bool { return k.Name == name }) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Verbs returns the methods of the group's handle.
func (g *Group) Verbs() (verbs []string) {
	if g.Allows() {
		verbs = append(verbs, "Allow", "Check", "Require")
	}
	if g.Reserves() {
		verbs = append(verbs, "Reserve")
	}
	return append(verbs, "Wait")
}

// Counts returns the names of the parameters with numbers of tokens, which the methods of the group have, in the order
// of their first use.
func (g *Group) Counts() (names []string) {
	for _, m := range g.Takes {
		if m.CountArg != "" && !slices.Contains(names, m.CountArg) {
			names = append(names, m.CountArg)
		}
	}
	return names
}

// Allows reports whether the tokens of the group can be taken without reserving: no limit has capacity 0.
func (g *Group) Allows() bool {
	return !slices.ContainsFunc(g.Takes, func(m Member) bool { return m.Limit.Policy.Capacity == 0 })
}

// Reserves reports whether tokens of a limit of the group can be reserved. The other limits are then taken from at once.
func (g *Group) Reserves() bool {
	return slices.ContainsFunc(g.Takes, func(m Member) bool { return m.Limit.Policy.Reserves() })
}

// Words returns a sentence on each limit of [Group.Members]: "It takes 1 token of llmRequests per team and model."
func (g *Group) Words() (sentences []string) {
	for _, m := range g.Takes {
		if m.CountArg != "" {
			sentences = append(sentences, "It takes as many tokens of "+m.inWords()+" as the argument "+m.CountArg+".")
		} else {
			sentences = append(sentences, "It takes "+words.Count(m.Count, "token")+" of "+m.inWords()+".")
		}
	}
	for _, m := range g.Checks {
		sentences = append(sentences, "It checks "+m.inWords()+", which must have a token and gives none up.")
	}
	return sentences
}

func (m Member) inWords() string {
	if len(m.Args) == 0 {
		return m.Limit.Policy.Name
	}
	return m.Limit.Policy.Name + " per " + words.List(m.Args, "and")
}

// String is the member in the syntax of limits.yaml: "llmTokens: {team: team, model: model, n: tokens}". A check has no n.
func (m Member) String() string {
	parts := make([]string, 0, len(m.Args)+1)
	for i, arg := range m.Args {
		parts = append(parts, m.Limit.Key[i].Name+": "+arg)
	}
	switch {
	case m.CountArg != "":
		parts = append(parts, countPart+": "+m.CountArg)
	case m.Count > 0:
		parts = append(parts, countPart+": "+strconv.FormatInt(m.Count, 10))
	}
	return m.Limit.Policy.Name + ": {" + strings.Join(parts, ", ") + "}"
}

// countPart is the name of the number of tokens, beside the parts of a key.
const countPart = "n"

// effectiveMembers is a map, whether the file has a map or a list.
func effectiveMembers(members []Member) string {
	if len(members) == 0 {
		return ""
	}
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = m.String()
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

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

// owner is a limit or a group with its method, or the method that the overrides of a limit need.
type owner struct {
	what, name, method string
	overrides          bool
	at                 Pos
}

// owners are those of a file by name and by method.
type owners struct{ byName, byMethod map[string][]owner }

func (o *owners) add(one owner) {
	if o.byName == nil {
		o.byName, o.byMethod = map[string][]owner{}, map[string][]owner{}
	}
	if !one.overrides {
		o.byName[one.name] = append(o.byName[one.name], one)
	}
	o.byMethod[one.method] = append(o.byMethod[one.method], one)
}

// alike returns the first of those with the name of another, and the first with its method.
func (o *owners) alike(other owner) (list []owner) {
	for _, some := range [][]owner{o.byName[other.name], o.byMethod[other.method]} {
		if len(some) > 0 && !slices.Contains(list, some[0]) {
			list = append(list, some[0])
		}
	}
	return list
}

// goTypes returns the names of the types that can be generated for a group.
func (g *Group) goTypes() []string {
	return []string{g.GoName + "Group", g.GoName + "Decisions", g.GoName + "Reservations"}
}

func (p *parser) groupGoName(g *Group, e entry) bool {
	name, ok := p.exportedName(e)
	if ok {
		g.GoName = name
	}
	return ok
}

// diffGroups returns the changes of the groups, in the order of the new file, and then the removed ones. A group stores
// nothing, so that a renamed one is removed and added.
func diffGroups(old, new *File) (changes []Change) {
	named := func(file *File) map[string]*Group {
		groups := map[string]*Group{}
		for _, g := range file.Groups {
			groups[g.Name] = g
		}
		return groups
	}
	before, after := named(old), named(new)
	for _, g := range new.Groups {
		was := before[g.Name]
		if was == nil {
			changes = append(changes, Change{ID: groupAdded.ID, Group: g.Name, New: wholeGroup(g)})
			continue
		}
		fields := diffFields(groupFields, "", was, g, wholeGroup(was), wholeGroup(g), givenInGroup)
		fields = append(fields, diffMethod(was, g)...)
		for i := range fields {
			fields[i].Group = g.Name
		}
		changes = append(changes, fields...)
	}
	for _, g := range old.Groups {
		if after[g.Name] == nil {
			changes = append(changes, Change{ID: groupRemoved.ID, Group: g.Name, Old: wholeGroup(g)})
		}
	}
	return changes
}

// diffMethod returns the change of what callers of a group pass and may call, unless the members show it: it follows from
// the limits, which may have changed while the group has not.
func diffMethod(old, new *Group) []Change {
	was, is := wholeGroup(old), wholeGroup(new)
	was.Value, is.Value = old.method(), new.method()
	same := effectiveMembers(old.Members()) == effectiveMembers(new.Members())
	if was.Value == is.Value || !same && slices.Equal(sharedNames(old), sharedNames(new)) && slices.Equal(old.Verbs(), new.Verbs()) {
		return nil
	}
	was.Given, is.Given = false, false
	return []Change{{ID: groupMethodChanged.ID, Field: "method", Old: was, New: is}}
}

// method is the signature of the group's method, and the verbs: "(team string, plan Plan): Allow, Check".
func (g *Group) method() string {
	var parameters []string
	for _, key := range g.Keys() {
		parameters = append(parameters, key.Name+" "+key.GoType())
	}
	for _, shared := range g.Shared() {
		parameters = append(parameters, shared.Name+" "+shared.Type)
	}
	return "(" + strings.Join(parameters, ", ") + "): " + strings.Join(g.Verbs(), ", ")
}

func wholeGroup(g *Group) Side { return Side{Group: g, Value: g.Name, Given: true, Pos: g.Pos} }

func givenInGroup(g *Group, field string) (Pos, bool) {
	at, given := g.Given[field]
	return at, given
}
