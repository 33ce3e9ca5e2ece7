package fields

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// groupDraft is a group while it is read.
type groupDraft struct {
	spec.Group
	// parameters are those of its method, by name.
	parameters map[string]parameter
}

// parameter is the first use of a parameter of a group.
type parameter struct {
	typ string
	at  diag.Span
}

// membersReader reads the limits of a group. check is set for those that give no tokens up.
type membersReader struct {
	p     *parser
	group *groupDraft
	check bool
}

// members reads a list or a map of limits.
func (r membersReader) members(members *[]spec.Member, e document.Entry) bool {
	before := len(r.p.doc.Found)
	switch {
	case e.Value.Kind == yaml.SequenceNode:
		r.listed(members, e)
	case e.Value.Kind == yaml.MappingNode:
		entries, _ := r.p.doc.Entries(e.Value, e.At, e.Name, "")
		for _, e := range entries {
			// Errors of a limit that is given twice are reported as for the first one.
			if bound := r.member(e.Name, e.Named, e.Value); !e.Again {
				*members = append(*members, bound...)
			}
		}
	default:
		r.p.doc.WrongType(e, "a list or a map of limits", "write "+e.Name+": [sendMessage]")
		return false
	}
	if len(e.Value.Content) == 0 {
		r.p.doc.Report(e.At, ids.EmptyGroup, "name a limit, or leave "+e.Name+" out", "%s has no limits", e.Name)
	}
	return len(r.p.doc.Found) == before
}

// listed reads a list of limits.
func (r membersReader) listed(members *[]spec.Member, e document.Entry) {
	first := map[string]diag.Span{}
	for _, node := range e.Value.Content {
		at := r.p.doc.Source.At(node)
		if !document.IsString(node) {
			if !r.p.doc.Muted(node) {
				r.p.doc.Report(at, ids.WrongType, "write "+e.Name+": [sendMessage]", "%s must list names of limits, not %s", e.Name,
					document.Describe(node))
			}
			continue
		}
		if r.p.doc.Twice(first, node.Value, at, "") {
			continue
		}
		*members = append(*members, r.member(node.Value, at, nil)...)
	}
}

// member reads a limit of a group with its parameters, which are nil in a list of limits, or those of each of several keys.
// It returns none if there is no such limit, or if the limit has a diagnostic: its key may be incomplete, and its numbers
// may be missing.
func (r membersReader) member(name string, at diag.Span, binding *yaml.Node) (members []spec.Member) {
	limit := r.limitNamed(name, at)
	if limit == nil {
		return nil
	}
	own := spec.Member{Limit: limit, At: at, Count: 1}
	if own.Priced() {
		own.Count = 0
	}
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
			m, at := own, r.p.doc.Source.At(each)
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
func (r membersReader) boundTwice(first map[string]diag.Span, args []string, at diag.Span, limit *spec.Limit) bool {
	key := strings.Join(args, "\x00")
	before, twice := first[key]
	if !twice {
		first[key] = at
		return false
	}
	r.p.doc.Report(at, ids.Duplicate, "name another parameter, or take more tokens by n", "%s is given twice for the same key",
		diag.Label(limit.Policy.Name))
	r.p.doc.Note(before, "first given here")
	return true
}

func (r membersReader) limitNamed(name string, at diag.Span) *spec.Limit {
	if d := r.p.drafts[name]; d != nil {
		return d.done
	}
	if len(r.p.drafts) == 0 { // the file has a diagnostic already
		return nil
	}
	r.p.doc.Report(at, ids.UnknownLimit, "name one of the limits of this file", "the file has no limit %s", diag.Quote(name))
	r.p.doc.Offer(r.p.doc.Nearest(name, func() []string { return slices.Sorted(maps.Keys(r.p.drafts)) }))
	return nil
}

// bind reads the parameters of a limit, and reports whether they are a map.
func (r membersReader) bind(m *spec.Member, at diag.Span, binding *yaml.Node) bool {
	if binding.Tag == "!!null" {
		binding = &yaml.Node{Kind: yaml.MappingNode}
	}
	entries, ok := r.p.doc.Entries(binding, r.p.doc.Source.At(binding), diag.Clip(m.Limit.Policy.Name), "write "+m.Example())
	if !ok {
		return false
	}
	args := map[string]document.Entry{}
	for _, e := range entries {
		isPart := slices.ContainsFunc(m.Limit.Key, func(part spec.KeyPart) bool { return part.Name == e.Name })
		switch {
		case e.Name == spec.CountPart && m.Priced():
			r.p.doc.Report(e.Named, ids.UnboundKeyPart, "leave n out: callers pass what they use to the methods of the group",
				"%s has prices: a group takes the cost of a usage from it, and not n tokens", diag.Label(m.Limit.Policy.Name))
		case e.Name == spec.CountPart:
			r.count(m, e)
		case isPart && !e.Again:
			args[e.Name] = e
		case !isPart && spec.IsShared(m.Limit, e.Name):
			r.p.doc.Report(e.Named, ids.UnboundKeyPart, "leave "+e.Name+" out",
				"%s is no key part of %s; the group has a parameter %s, and passes it on", diag.Quote(e.Name), diag.Label(m.Limit.Policy.Name), e.Name)
		case !isPart:
			r.p.doc.Report(e.Named, ids.UnboundKeyPart, "write "+m.Example(), "%s has no key part %s",
				diag.Label(m.Limit.Policy.Name), diag.Quote(e.Name))
			r.p.doc.Offer(r.p.doc.Nearest(e.Name, func() []string { return spec.PartNames(m.Limit.Key) }))
		}
	}
	for _, part := range m.Limit.Key {
		e, given := args[part.Name]
		arg := ""
		if given {
			arg = e.Value.Value
		}
		switch {
		case !given:
			if r.p.doc.Complete(binding) {
				r.p.doc.Report(at, ids.UnboundKeyPart, "write "+m.Example(), "the key part %s of %s has no parameter", part.Name,
					diag.Label(m.Limit.Policy.Name))
			}
		case !document.IsString(e.Value):
			r.p.doc.Report(e.At, ids.UnboundKeyPart, "write "+part.Name+": "+part.Name, "%s must be the name of a parameter, not %s",
				part.Name, document.Describe(e.Value))
		case r.p.partName(e.Value.Value, e.At):
			r.parameter(e.Value.Value, part.GoType(), e.At)
		}
		m.Args = append(m.Args, arg)
	}
	return true
}

// count reads the number of tokens: a number, or the name of a parameter.
func (r membersReader) count(m *spec.Member, e document.Entry) {
	if !document.IsString(e.Value) {
		m.Count, _ = r.p.readWhole(e, 1, runtime.MaxTokens, wholeHelp{})
		return
	}
	if !partForm.MatchString(e.Value.Value) {
		r.p.doc.Report(e.At, ids.BadKeyPart, "write a number, or the name of a parameter such as tokens",
			"n must be a number of tokens or the name of a parameter, not %s", diag.Quote(e.Value.Value))
		return
	}
	if r.p.partName(e.Value.Value, e.At) {
		m.Count, m.CountArg = 0, e.Value.Value
		r.parameter(m.CountArg, countType, e.At)
	}
}

// countType marks the parameters with numbers of tokens, which are of the methods and not of the key.
const countType = "a number of tokens"

// parameter reports a parameter that is used with two types.
func (r membersReader) parameter(name, typ string, at diag.Span) {
	was, known := r.group.parameters[name]
	if !known {
		if r.group.parameters == nil {
			r.group.parameters = map[string]parameter{}
		}
		r.group.parameters[name] = parameter{typ, at}
		return
	}
	if was.typ != typ {
		r.p.doc.Report(at, ids.ParameterType, "give one of them another name: {part: parameter}",
			"the parameter %s is %s here, and %s before", diag.Label(name), typ, was.typ)
		r.p.doc.Note(was.at, fmt.Sprintf("here it is %s", was.typ))
	}
}

// canPass reports a limit that denies every request of the group.
func (r membersReader) canPass(m *spec.Member) {
	name := diag.Label(m.Limit.Policy.Name)
	least, plan := m.MostTokens(r.check)
	switch {
	case r.check && m.Limit.Policy.Full() == 0:
		r.p.doc.Report(m.At, ids.CannotPass, "leave the check out", "%s has capacity 0, so that a check always denies", name)
	case m.Count > least:
		if plan != "" {
			name += " can ever have with the plan " + plan
		} else {
			name += " can ever have"
		}
		r.p.doc.Report(m.At, ids.CannotPass, "use at most "+words.Number(least), "%s are more than %s, %s",
			words.Count(m.Count, m.Unit()), name, words.Number(least))
	}
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
	n := object{"type": []string{"integer", "string"}, "minimum": 1, "maximum": int64(runtime.MaxTokens),
		"pattern": partForm.String() + "|^[1-9][0-9]*(_[0-9]+)+$"}
	schema := object{
		"type": types, "propertyNames": object{"pattern": partForm.String()},
		"properties": object{spec.CountPart: n}, "additionalProperties": partSchema,
	}
	maps.Copy(schema, more)
	return schema
}
