package spec

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"gopkg.in/yaml.v3"
)

// readFields reads the entries of a map by the table of its fields into the value of the map. It returns
// those that were read without a fault. Owner is where a missing field is reported, if the entries are complete.
func readFields[T any](p *parser, fields []field[T], into *T, entries []entry, owner span, complete bool) map[string]entry {
	read := map[string]entry{}
	seen := map[string]bool{}
	for _, e := range entries {
		i := slices.IndexFunc(fields, func(f field[T]) bool { return f.name == e.name })
		if i < 0 {
			if !e.again {
				seen[reportUnknown(p, e, fields)] = true
			}
			continue
		}
		seen[e.name] = true
		before, target := len(p.found), into
		if e.again {
			target = new(T) // to say what is wrong with it too
		}
		switch {
		case p.settled[e.value]:
		case fields[i].read(p, target, e):
			if !e.again {
				read[e.name] = e
			}
		default:
			dropRefused(p.found[before:], e, fields[i])
		}
	}
	for _, f := range fields {
		if f.required && complete && !seen[f.name] && !(f.name == "period" && p.impliesPeriod) {
			p.report(owner, missingField, "add "+f.name+": "+f.example, "%s is missing", f.name)
		}
	}
	return read
}

// dropRefused keeps only those values to write instead that the field would not refuse in turn.
func dropRefused[T any](found Diagnostics, e entry, f field[T]) {
	for i, d := range found {
		if (span{d.Pos, d.End}) == e.at {
			found[i].meant = slices.DeleteFunc(d.meant, func(text string) bool { return !f.takes(text) })
		}
	}
}

// takes reports whether a text is a valid value of the field.
func (f field[T]) takes(text string) bool {
	p := &parser{src: newSource("", f.name+": "+text)}
	root := p.document()
	if root == nil {
		return false
	}
	entries, _ := p.entries(root, p.src.at(root), "", "")
	return len(entries) == 1 && f.read(p, new(T), entries[0])
}

// reportUnknown reports a field that the table does not have, and returns the field that is probably meant
// or "".
func reportUnknown[T any](p *parser, e entry, fields []field[T]) string {
	if p.tightColon(e, unknownField) {
		name, _, _ := strings.Cut(e.name, ":")
		return name
	}
	meant := meantField(e.name, fields)
	if meant == "" && p.limit == "" && p.looksLikeLimit(e.value) {
		p.report(e.named, unknownField, "limits stand under limits:, indented", "unknown field %s", quote(e.name))
		return "limits"
	}
	p.report(e.named, unknownField, "the fields are "+words.List(names(fields), "and"), "unknown field %s", quote(e.name))
	p.meant(meant)
	return meant
}

// meantField returns the field that was probably meant by a name: a near one, or the one that others call so.
func meantField[T any](name string, fields []field[T]) string {
	for _, f := range fields {
		if slices.Contains(f.synonyms, strings.ToLower(name)) {
			return f.name
		}
	}
	return Nearest(name, names(fields))
}

// looksLikeLimit reports whether a node has a field of a limit.
func (p *parser) looksLikeLimit(node *yaml.Node) bool {
	return node.Kind == yaml.MappingNode &&
		slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return slices.Contains(p.limitFields, n.Value) })
}
