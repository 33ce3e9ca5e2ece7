package spec

import "gopkg.in/yaml.v3"

// entry is one "name: value" of a map.
type entry struct {
	name  string
	value *yaml.Node
	// named is where the name stands; at is where the value stands, or the name if the value is empty.
	named, at span
	// again says that the name stands above too. Only that one counts.
	again bool
}

// entries returns what a map holds, in order. It is false if the node is not a map.
func (p *parser) entries(node *yaml.Node, at span, what, help string) ([]entry, bool) {
	if p.settled[node] {
		return nil, false
	}
	if node.Kind != yaml.MappingNode {
		p.report(at, wrongType, help, "%s must be a map, not %s", what, describe(node))
		return nil, false
	}
	var entries []entry
	first := map[string]entry{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		e, ok := p.entry(node.Content[i], node.Content[i+1])
		if !ok {
			continue
		}
		if before, twice := first[e.name]; twice {
			p.report(e.named, duplicate, "", "%s is given twice", quote(e.name))
			p.note(before.named, "first given here")
			e.again = true
		} else {
			first[e.name] = e
		}
		entries = append(entries, e)
	}
	return entries, true
}

// complete reports whether every name of a map could be read. If one could not, nothing is missed.
func (p *parser) complete(node *yaml.Node) bool {
	for i := 0; i < len(node.Content); i += 2 {
		if key := node.Content[i]; p.settled[key] || !isString(key) {
			return false
		}
	}
	return true
}

func (p *parser) entry(key, value *yaml.Node) (entry, bool) {
	if p.settled[key] {
		return entry{}, false
	}
	e := entry{name: key.Value, value: value, named: p.src.at(key)}
	if !isString(key) {
		p.report(e.named, nameNotText, "", "a name must be text, not %s", describe(key))
		return e, false
	}
	e.at = p.src.at(value)
	if e.at.pos == e.at.end {
		e.at = e.named
	}
	return e, true
}
