package fields

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
)

// document is the text of one file, with the errors found in it.
type document struct {
	src   *diag.Source
	found diag.Diagnostics
	// inside begins all messages: it names the limit that is read, and the part of it, such as "sendMessage: lease".
	inside string
	// muted holds the nodes that have a diagnostic already and get no second one.
	muted map[*yaml.Node]bool
}

// report adds a diagnostic. The help may be empty. The message is one line without control characters, whatever the file
// contains.
func (d *document) report(at diag.Span, broken *rules.Rule, help, format string, args ...any) {
	if d.full() {
		// Only its number counts.
		d.found = append(d.found, diag.Diagnostic{ID: broken.ID, Note: diag.Note{Span: at}})
		return
	}
	message := fmt.Sprintf(format, args...)
	if d.inside != "" {
		message = d.inside + ": " + message
	}
	// Readers look for the end of a file at its last text, not on an empty line below.
	at = d.src.Clamp(at)
	d.found = append(d.found, diag.Diagnostic{ID: broken.ID, File: d.src.Name, Note: d.src.Note(at, diag.OneLine(message)), Help: diag.OneLine(help)})
}

// enter adds a limit, or a part of one, to what begins all messages, until leave is called.
func (d *document) enter(part string) (leave func()) {
	outer := d.inside
	if outer != "" {
		part = outer + ": " + part
	}
	d.inside = part
	return func() { d.inside = outer }
}

// full reports whether further diagnostics are only counted.
func (d *document) full() bool { return len(d.found) >= diag.MaxDiagnostics }

// nearest is [diag.Nearest] for the replacements of a diagnostic that was just reported, unless it is only counted: a file can
// have as many wrong names as right ones.
func (d *document) nearest(text string, words func() []string) string {
	if len(d.found) > diag.MaxDiagnostics {
		return ""
	}
	return diag.Nearest(text, words())
}

// meant offers replacements for the text of the last diagnostic, the likeliest first. Empty offers, and those that are
// too long to read, are dropped.
func (d *document) meant(offers ...string) {
	d.found[len(d.found)-1].Meant = slices.DeleteFunc(offers, func(text string) bool {
		return text == "" || diag.Clip(text) != text
	})
}

// note adds a second place to the last diagnostic.
func (d *document) note(at diag.Span, message string) {
	last := &d.found[len(d.found)-1]
	// The diagnostic may be only counted, and a field with an error has no place.
	if last.Message == "" || at.Pos == (diag.Pos{}) {
		return
	}
	last.Notes = append(last.Notes, d.src.Note(at, message))
}

// mute suppresses further diagnostics of a node.
func (d *document) mute(node *yaml.Node) { d.muted[node] = true }

// entry is one "name: value" of a map.
type entry struct {
	name  string
	value *yaml.Node
	// named is the place of the name; at is the place of the value, or of the name if the value is empty.
	named, at diag.Span
	// again is set if the map has the name above too. The first one counts.
	again bool
	// plans has the entries of a map of plans, each with the name of the field.
	plans map[string]entry
}

// entries returns the entries of a map in order, or reports that the node is not a map.
func (d *document) entries(node *yaml.Node, at diag.Span, what, help string) ([]entry, bool) {
	if d.muted[node] {
		return nil, false
	}
	if node.Kind != yaml.MappingNode {
		d.report(at, rules.WrongType, help, "%s must be a map, not %s", what, describe(node))
		return nil, false
	}
	var entries []entry
	first := map[string]diag.Span{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		e, ok := d.entry(node.Content[i], node.Content[i+1])
		if !ok {
			continue
		}
		// The second value is read too, so that its errors are reported in the same run.
		e.again = d.twice(first, e.name, e.named, "")
		entries = append(entries, e)
	}
	return entries, true
}

// twice reports a name that is in first already, and otherwise adds it.
func (d *document) twice(first map[string]diag.Span, name string, at diag.Span, what string) bool {
	before, twice := first[name]
	if twice {
		d.report(at, rules.Duplicate, "", "%s%s is given twice", what, diag.Quote(name))
		d.note(before, "first given here")
	} else {
		first[name] = at
	}
	return twice
}

// complete reports whether every name of a map could be read.
func (d *document) complete(node *yaml.Node) bool {
	for i := 0; i < len(node.Content); i += 2 {
		// The name in question may be that of a field which seems to be missing.
		if key := node.Content[i]; d.muted[key] || !isString(key) {
			return false
		}
	}
	return true
}

func (d *document) entry(key, value *yaml.Node) (entry, bool) {
	if d.muted[key] {
		return entry{}, false
	}
	e := entry{name: key.Value, value: value, named: d.src.At(key)}
	if !isString(key) {
		d.report(e.named, rules.NameNotText, "", "a name must be text, not %s", describe(key))
		return e, false
	}
	e.at = d.src.At(value)
	// An empty value has no text to mark.
	if e.at.Pos == e.at.End {
		e.at = e.named
	}
	return e, true
}

// part returns the field called name of the map in an entry. The map must contain it.
func (d *document) part(of entry, name string) entry {
	i := 0
	for of.value.Content[i].Value != name {
		i += 2
	}
	e, _ := d.entry(of.value.Content[i], of.value.Content[i+1])
	return e
}

// missingSpaceAfterColon reports a name that contains its value too, because no space follows the colon.
func (d *document) missingSpaceAfterColon(e entry, broken *rules.Rule) bool {
	place := missingSpaceForm.FindStringSubmatchIndex(e.name)
	if place == nil || e.value.Tag != "!!null" || e.value.Kind != yaml.ScalarNode {
		return false
	}
	d.report(e.named, broken, "write name: value", "a colon needs a space after it")
	d.meant(e.name[:place[3]] + " " + e.name[place[3]:])
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
		return "the number " + diag.Clip(n.Value)
	case n.Tag == "!!timestamp":
		return "the date " + diag.Clip(n.Value)
	case n.Tag == "!!bool":
		return n.Value
	}
	return diag.Quote(n.Value)
}

// text returns the value of a field that must be text, or reports another type.
func (d *document) text(e entry, want string) (string, bool) {
	if isString(e.value) {
		return e.value.Value, true
	}
	d.wrongType(e, want, "")
	return "", false
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
	return diag.Nearest(text, diag.Texts(known))
}

// named returns the known word that is text in lower case.
func named[T fmt.Stringer](known []T, text string) (word T, ok bool) {
	i := slices.IndexFunc(known, func(w T) bool { return strings.ToLower(w.String()) == text })
	if i < 0 {
		return word, false
	}
	return known[i], true
}

// wrongType reports a value of another type than the wanted one.
func (d *document) wrongType(e entry, want, help string) {
	d.report(e.at, rules.WrongType, help, "%s must be %s, not %s", e.name, want, describe(e.value))
}
