package spec

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// entries returns the entries of a map in order, or reports that the node is not a map.
func (p *document) entries(node *yaml.Node, at span, what, help string) ([]entry, bool) {
	if p.muted[node] {
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
			// The second value is read too, so that its errors are reported in the same run.
			e.again = true
		} else {
			first[e.name] = e
		}
		entries = append(entries, e)
	}
	return entries, true
}

// complete reports whether every name of a map could be read.
func (p *document) complete(node *yaml.Node) bool {
	for i := 0; i < len(node.Content); i += 2 {
		// The name in question may be that of a field which seems to be missing.
		if key := node.Content[i]; p.muted[key] || !isString(key) {
			return false
		}
	}
	return true
}

func (p *document) entry(key, value *yaml.Node) (entry, bool) {
	if p.muted[key] {
		return entry{}, false
	}
	e := entry{name: key.Value, value: value, named: p.src.at(key)}
	if !isString(key) {
		p.report(e.named, nameNotText, "", "a name must be text, not %s", describe(key))
		return e, false
	}
	e.at = p.src.at(value)
	// An empty value has no text to mark.
	if e.at.pos == e.at.end {
		e.at = e.named
	}
	return e, true
}

// part returns the field called name of the map in an entry. The map must contain it.
func (p *document) part(of entry, name string) entry {
	i := 0
	for of.value.Content[i].Value != name {
		i += 2
	}
	e, _ := p.entry(of.value.Content[i], of.value.Content[i+1])
	return e
}

// readFields reads the entries of a map into a value, by the table of its fields. It returns the entries without errors.
// Missing fields are reported at owner, but only if the entries are complete.
func readFields[D, T any](p *parser, fields []field[D, T], into *D, entries []entry, owner span, complete bool) map[string]entry {
	read := map[string]entry{}
	seen := map[string]bool{}
	for _, e := range entries {
		i := slices.IndexFunc(fields, func(f field[D, T]) bool { return f.name == e.name })
		if i < 0 {
			if !e.again {
				// A misspelled field counts as given: otherwise it would be reported as missing too.
				seen[reportUnknown(p, e, fields)] = true
			}
			continue
		}
		seen[e.name] = true
		before, target := len(p.found), into
		if e.again {
			// The value must not replace the first one.
			other := *into
			target = &other
		}
		switch {
		// The value has a diagnostic already.
		case p.muted[e.value]:
		case fields[i].read(p, target, e):
			if !e.again {
				read[e.name] = e
			}
		default:
			dropRefused(p.found[before:], e, fields[i])
		}
	}
	for _, f := range fields {
		if f.required && complete && !seen[f.name] && (f.implied == nil || !f.implied(into)) {
			p.report(owner, missingField, "add "+f.name+": "+f.example, "%s is missing", f.name)
		}
	}
	return read
}

// readMap reads a field of a limit that is a map with fields of its own. It returns false if one of them is wrong.
func readMap[D, T any](p *parser, fields []field[D, T], into *D, e entry, help string) bool {
	entries, ok := p.entries(e.value, e.at, e.name, help)
	if !ok {
		return false
	}
	before := len(p.found)
	defer func(limit string) { p.limit = limit }(p.limit)
	// Messages begin with the limit and the field: "sendMessage: lease: for is missing".
	p.limit += ": " + e.name
	readFields(p, fields, into, entries, e.named, p.complete(e.value))
	return len(p.found) == before
}

// dropRefused drops the offers that the field would not accept either.
func dropRefused[D, T any](found Diagnostics, e entry, f field[D, T]) {
	for i, d := range found {
		if (span{d.Pos, d.End}) == e.at {
			found[i].meant = slices.DeleteFunc(d.meant, func(text string) bool { return !f.takes(text) })
		}
	}
}

// takes reports whether a text is a valid value of the field, by parsing a file with it.
func (f field[D, T]) takes(text string) bool {
	// A real parse is slow, but it runs for offers of wrong values only, and cannot disagree with the field.
	p := newParser(newSource("", f.name+": "+text))
	root := p.root()
	if root == nil {
		return false
	}
	entries, _ := p.entries(root, p.src.at(root), "", "")
	return len(entries) == 1 && f.read(p, new(D), entries[0])
}

// reportUnknown reports a field that the table lacks, and returns the field that was probably meant, or "".
func reportUnknown[D, T any](p *parser, e entry, fields []field[D, T]) string {
	if p.missingSpaceAfterColon(e, unknownField) {
		name, _, _ := strings.Cut(e.name, ":")
		return name
	}
	meant := meantField(e.name, fields)
	// A limit at the top of the file is a common mistake, and a list of fields would not help there.
	if meant == "" && p.limit == "" && p.looksLikeLimit(e.value) {
		p.report(e.named, unknownField, "indent the limit below limits:", "unknown field %s", quote(e.name))
		return "limits"
	}
	p.report(e.named, unknownField, "the fields are "+words.List(names(fields), "and"), "unknown field %s", quote(e.name))
	p.meant(meant)
	return meant
}

// meantField returns the field that a name probably means: one with that synonym, or with a similar name.
func meantField[D, T any](name string, fields []field[D, T]) string {
	for _, f := range fields {
		if slices.Contains(f.synonyms, strings.ToLower(name)) {
			return f.name
		}
	}
	return Nearest(name, names(fields))
}

// looksLikeLimit reports whether a node is a map with a field of a limit.
func (p *parser) looksLikeLimit(node *yaml.Node) bool {
	return node.Kind == yaml.MappingNode &&
		slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return slices.Contains(p.limitFields, n.Value) })
}

// missingSpaceAfterColon reports a name that contains its value too, because no space follows the colon.
func (p *document) missingSpaceAfterColon(e entry, broken *Rule) bool {
	place := missingSpaceForm.FindStringSubmatchIndex(e.name)
	if place == nil || e.value.Tag != "!!null" || e.value.Kind != yaml.ScalarNode {
		return false
	}
	p.report(e.named, broken, "write name: value", "a colon needs a space after it")
	p.meant(e.name[:place[3]] + " " + e.name[place[3]:])
	return true
}

func isString(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!str" }

// describe names the value of a node in the words of YAML's users.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "null"
	case n.Tag == "!!int", n.Tag == "!!float":
		return "the number " + clip(n.Value)
	case n.Tag == "!!timestamp":
		return "the date " + clip(n.Value)
	case n.Tag == "!!bool":
		return n.Value
	}
	return quote(n.Value)
}

// text returns the value of a field that must be text, or reports another type.
func (p *document) text(e entry, want string) (string, bool) {
	if isString(e.value) {
		return e.value.Value, true
	}
	p.wrongType(e, want, "")
	return "", false
}

// readWord returns a reader of a field that takes one of the known words. The synonyms are used for suggestions only.
func readWord[T any, W fmt.Stringer](broken *Rule, known []W, synonyms map[string]W, at func(*T) *W) func(*parser, *T, entry) bool {
	return func(p *parser, into *T, e entry) (ok bool) {
		if *at(into), ok = oneOf(e, known); !ok {
			p.report(e.at, broken, "", "%s must be %s, not %s", e.name, words.List(texts(known), "or"), describe(e.value))
			p.meant(meantWord(e.value.Value, known, synonyms))
		}
		return ok
	}
}

// meantWord returns the word that text probably means: one that it contains, one with that synonym, or a similar one; ""
// if no word is similar.
func meantWord[W fmt.Stringer](text string, known []W, synonyms map[string]W) string {
	text = strings.ToLower(text)
	for _, w := range known {
		if strings.Contains(text, w.String()) {
			return w.String()
		}
	}
	if w, ok := synonyms[text]; ok {
		return w.String()
	}
	return Nearest(text, texts(known))
}

// oneOf returns the known word that a value is.
func oneOf[T fmt.Stringer](e entry, known []T) (word T, ok bool) {
	i := slices.IndexFunc(known, func(w T) bool { return isString(e.value) && e.value.Value == w.String() })
	if i < 0 {
		return word, false
	}
	return known[i], true
}

// readBool returns a reader of true or false.
func readBool[T any](broken *Rule, at func(*T) *bool) func(*parser, *T, entry) bool {
	return func(p *parser, into *T, e entry) bool {
		// YAML 1.1 has more words for them, which people and YAML 1.2 read as text.
		if e.value.Tag == "!!bool" && slices.Contains(booleans, e.value.Value) {
			*at(into) = e.value.Value == "true"
			return true
		}
		p.report(e.at, broken, "", "%s must be true or false, not %s", e.name, describe(e.value))
		p.meant(meantBoolean[e.value.Value])
		return false
	}
}

var booleans = []string{"true", "false"}

// meantBoolean are the other words for true and false in YAML 1.1 and elsewhere.
var meantBoolean = map[string]string{
	"true": "true", "false": "false", // in quotes
	"True": "true", "TRUE": "true", "yes": "true", "Yes": "true", "on": "true", "On": "true", "1": "true",
	"False": "false", "FALSE": "false", "no": "false", "No": "false", "off": "false", "Off": "false", "0": "false",
}

// wrongType reports a value of another type than the wanted one.
func (p *document) wrongType(e entry, want, help string) {
	p.report(e.at, wrongType, help, "%s must be %s, not %s", e.name, want, describe(e.value))
}
