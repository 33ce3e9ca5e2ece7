package document

import (
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
)

// Entry is one "name: value" of a map.
type Entry struct {
	Name  string
	Value *yaml.Node
	// Named is the place of the name; At is the place of the value, or of the name if the value is empty.
	Named, At diag.Span
	// Again is set if the map has the name above too. The first one counts.
	Again bool
}

// Entries returns the entries of a map in order, or reports that the node is not a map.
func (d *Document) Entries(node *yaml.Node, at diag.Span, what, help string) ([]Entry, bool) {
	if d.Muted(node) {
		return nil, false
	}
	if node.Kind != yaml.MappingNode {
		d.Report(at, ids.WrongType, help, "%s must be a map, not %s", what, Describe(node))
		return nil, false
	}
	var entries []Entry
	first := map[string]diag.Span{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if i > 0 && d.commaInNumber(entries, node.Content[i-1], node.Content[i], node.Content[i+1]) {
			continue
		}
		e, ok := d.entry(node.Content[i], node.Content[i+1])
		if !ok {
			continue
		}
		// The second value is read too, so that its errors are reported in the same run.
		e.Again = d.Twice(first, e.Name, e.Named, "")
		entries = append(entries, e)
	}
	return entries, true
}

// thousandsForm is the rest of a number after a comma, which begins the name of a field in {rate: 10,000}.
var thousandsForm = regexp.MustCompile(`^[0-9]{3}$`)

// commaInNumber reports a number with a comma between its digits, which ends the value in a map with braces, and returns
// whether a name is the rest of it. The value belongs to the name, and before is the value of the name before it.
func (d *Document) commaInNumber(entries []Entry, before, name, value *yaml.Node) bool {
	rest := d.Source.From(diag.Pos{Line: before.Line, Column: before.Column})
	if value.Tag != "!!null" || value.Value != "" || !thousandsForm.MatchString(name.Value) || before.Line != name.Line {
		return false
	}
	if d.Muted(before) && before.Value == "" { // the number has more than one comma
		d.Mute(value)
		return true
	}
	number := writtenThousands.FindString(rest)
	if !strings.HasPrefix(number, before.Value+",") || before.Column+len(before.Value)+1 != name.Column {
		return false
	}
	what := "a number"
	if len(entries) > 0 && entries[len(entries)-1].Value == before {
		what = entries[len(entries)-1].Name
	}
	d.Report(diag.Spanning(diag.Pos{Line: before.Line, Column: before.Column}, number), ids.NotWhole, "",
		"%s must not have commas, which separate the fields of a map: %s", what, number)
	d.Offer(strings.ReplaceAll(number, ",", "_"))
	d.Mute(value)
	return true
}

// writtenThousands is a number with commas at the beginning of a text.
var writtenThousands = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+`)

// Twice reports a name that is in first already, and otherwise adds it.
func (d *Document) Twice(first map[string]diag.Span, name string, at diag.Span, what string) bool {
	before, twice := first[name]
	if twice {
		d.Report(at, ids.Duplicate, "", "%s%s is given twice", what, diag.Quote(name))
		d.Note(before, "first given here")
	} else {
		first[name] = at
	}
	return twice
}

// Complete reports whether every name of a map could be read.
func (d *Document) Complete(node *yaml.Node) bool {
	for i := 0; i < len(node.Content); i += 2 {
		// The name in question may be that of a field which seems to be missing.
		if key := node.Content[i]; d.Muted(key) || !IsString(key) {
			return false
		}
	}
	return true
}

func (d *Document) entry(key, value *yaml.Node) (Entry, bool) {
	if d.Muted(key) {
		return Entry{}, false
	}
	e := Entry{Name: key.Value, Value: value, Named: d.Source.At(key)}
	if !IsString(key) {
		d.Report(e.Named, ids.NameNotText, "", "a name must be text, not %s", Describe(key))
		return e, false
	}
	e.At = d.Source.At(value)
	// An empty value has no text to mark.
	if e.At.Pos == e.At.End {
		e.At = e.Named
	}
	return e, true
}

// Part returns the field called name of the map in an entry. The map must contain it.
func (d *Document) Part(of Entry, name string) Entry {
	i := 0
	for of.Value.Content[i].Value != name {
		i += 2
	}
	e, _ := d.entry(of.Value.Content[i], of.Value.Content[i+1])
	return e
}

// MissingSpaceAfterColon reports a name that contains its value too, because no space follows the colon.
func (d *Document) MissingSpaceAfterColon(e Entry, broken *ids.Meaning) bool {
	place := missingSpaceForm.FindStringSubmatchIndex(e.Name)
	if place == nil || e.Value.Tag != "!!null" || e.Value.Kind != yaml.ScalarNode {
		return false
	}
	d.Report(e.Named, broken, "write name: value", "a colon needs a space after it")
	d.Offer(e.Name[:place[3]] + " " + e.Name[place[3]:])
	return true
}

// missingSpaceForm is a name with a colon that is part of it in YAML, because no space follows.
var missingSpaceForm = regexp.MustCompile(`^[ \t]*(?:- )?[A-Za-z][A-Za-z0-9_-]*(:)[^\s/:]`)

// IsString reports whether a node is text.
func IsString(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!str" }

// IsWord reports whether a node is a word.
func IsWord(n *yaml.Node, word string) bool { return IsString(n) && n.Value == word }

// Describe names the value of a node in the words of YAML's users.
func Describe(n *yaml.Node) string {
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

// Text returns the value of a field that must be text, or reports another type.
func (d *Document) Text(e Entry, want string) (string, bool) {
	if IsString(e.Value) {
		return e.Value.Value, true
	}
	d.WrongType(e, want, "")
	return "", false
}

// WrongType reports a value of another type than the wanted one.
func (d *Document) WrongType(e Entry, want, help string) {
	d.Report(e.At, ids.WrongType, help, "%s must be %s, not %s", e.Name, want, Describe(e.Value))
}
