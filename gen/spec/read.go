package spec

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// readFields reads the entries of a map by the table of its fields into the value of the map. It returns
// those that were read without a fault. Owner is where a missing field is reported, if the entries are complete.
func readFields[T any](p *parser, fields []field[T], into T, entries []entry, owner span, complete bool) map[string]entry {
	read := map[string]entry{}
	seen := map[string]bool{}
	for _, e := range entries {
		i := slices.IndexFunc(fields, func(f field[T]) bool { return f.name == e.name })
		if i < 0 {
			seen[p.unknownField(e, names(fields))] = true
			continue
		}
		seen[e.name] = true
		if !p.settled[e.value] && fields[i].read(p, into, e) {
			read[e.name] = e
		}
	}
	for _, f := range fields {
		if f.required && complete && !seen[f.name] {
			p.report(owner, missingField, "add "+f.name+": "+f.example, "%s is missing", f.name)
		}
	}
	return read
}

// unknownField reports a field that no table has, and returns the field that is probably meant or "".
func (p *parser) unknownField(e entry, known []string) string {
	meant := Nearest(e.name, known)
	help := "the fields are " + list(known, "and")
	switch {
	case meant != "":
		help = didYouMean(meant)
	case p.limit == "" && looksLikeLimit(e.value):
		meant, help = "limits", "limits stand under limits:, indented"
	}
	p.report(e.named, unknownField, help, "unknown field %s", quote(e.name))
	return meant
}

// looksLikeLimit reports whether a node has a field of a limit.
func looksLikeLimit(node *yaml.Node) bool {
	known := names(limitFields)
	return node.Kind == yaml.MappingNode && slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return slices.Contains(known, n.Value) })
}
