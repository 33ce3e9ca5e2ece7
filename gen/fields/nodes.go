package fields

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// draft is a limit while it is read: values may be missing, or contradict each other. [settler.check] makes the Limit.
type draft struct {
	policy unchecked
	plans  []*draft
	// maps are the fields with a map of plans.
	maps map[string]entry
	// limit is the result; nil until the draft is checked, and if it has a diagnostic.
	limit *spec.Limit

	// calendarStart is the start in the words of a calendar, and gaveZone and gaveHold are set if the limit has a zone or a hold,
	// valid or not.
	calendarStart      calendarStart
	gaveZone, gaveHold bool
	// writtenPeriod is the text of the period, or "". impliesPeriod is set if the rate is "10 per minute" or the like: its
	// diagnostic covers the missing period.
	writtenPeriod string
	impliesPeriod bool

	// said is what the file says of the limit, without a policy.
	said spec.Limit
}

// unchecked is a policy whose numbers may be missing. It lacks the methods of [runtime.Policy], such as Rule, which are
// for valid policies only.
type unchecked runtime.Policy

// unlimited is [spec.Limit.Unlimited].
func (d *draft) unlimited() bool { return d.policy.Mode == runtime.ModeUnlimited }

// each is [spec.Limit.Each].
func (d *draft) each() []*draft {
	if len(d.plans) == 0 {
		return []*draft{d}
	}
	return d.plans
}

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

// keepMap keeps the entries of a field with a map of plans.
func (d *draft) keepMap(e entry, entries []entry) {
	e.plans = map[string]entry{}
	for _, of := range entries {
		if plan := of.name; !of.again {
			of.name = e.name
			e.plans[plan] = of
		}
	}
	if d.maps == nil {
		d.maps = map[string]entry{}
	}
	d.maps[e.name] = e
}

// calendarStart is a start in the words of a calendar.
type calendarStart struct {
	// words are the sorts of words that are given.
	words startWord
	// from has what is given of the first day, and for a weekday such a day.
	from runtime.Date
	at   time.Duration
}

// startWord is a set of sorts of words. A start has at most one word of each.
type startWord int

const (
	anniversaryWord startWord = 1 << iota
	dateWord
	weekdayWord
	monthWord
	dayWord
	timeWord
)

// owner is a limit, its overrides or its numbers, a group, or a plan, each of which has Go names.
type owner struct {
	what string
	at   diag.Span
}

// parser reads the fields of a file, and checks what must hold between them.
type parser struct {
	document
	// plans are those of the file. With plansUnknown, some of them have errors, and the plans of limits are not checked.
	plans        []spec.Plan
	plansUnknown bool
	// limitFields are the names of the fields of a limit. The functions that a table of fields contains cannot refer to
	// that table: Go would report an initialization cycle.
	limitFields []string
	// groupsGiven holds the entries groups:, which are read after the limits of the file.
	groupsGiven []entry
	// owners have the Go names of the generated package, by [parser.claim].
	owners map[string]owner
	// drafts are the limits of the file by name, with those that have diagnostics.
	drafts map[string]*draft
}

func newParser(src *diag.Source) *parser {
	return &parser{document: document{src: src}, owners: map[string]owner{}}
}

// settler completes a limit, and checks what must hold between its fields. It skips invalid fields: given has only the valid
// ones, and clean means that all are.
type settler struct {
	*parser
	of    *draft
	given map[string]entry
	clean bool
}

// field is one name that a map of the file may contain. A table of fields is the only place that lists the fields of a
// map: it drives the parser, the suggestions, the JSON Schema, the reference, the diff and the words. A new field needs
// an entry here, a judgement of its change in gen/review, and its effect in package runtime.
type field[D, T any] struct {
	name string
	// synonyms are the names of the field in other limiters, in lower case.
	synonyms []string
	required bool
	// implied reports whether a diagnostic of another field covers that a required one is missing. It may be nil.
	implied func(into *D) bool
	// requiredBy reports whether the other fields require this one. It may be nil.
	requiredBy func(into *D) bool
	// about explains the field in one cell of the reference, more is what does not fit there. Both are Markdown.
	about, more string
	// accepts describes the valid values, and absent what holds without the field. Both are Markdown.
	accepts, absent string
	// example is a valid value.
	example string
	schema  object
	// read stores the value and returns true, or reports its errors.
	read func(p *parser, into *D, e entry) bool
	// change is the kind of change that a diff reports for the field. It is nil for fields that cannot change by
	// themselves: version, limits and those of a lease.
	change *spec.ChangeKind
	// byPlan is set if the value may be a map with a value for each plan.
	byPlan bool
	// effective returns the value that applies, given or not, as limits.yaml writes it. Equal values are written alike.
	effective func(of *T) string
	// words describes the value in sentences of generated doc comments. Fields may share one.
	words func(of *T) []string
}

// names lists the names of the fields of a table.
func names[D, T any](fields []field[D, T]) []string {
	return words.Of(fields, func(f field[D, T]) string { return f.name })
}

// object is a part of a JSON Schema.
type object = map[string]any

// withoutMarks returns our own Markdown, which has only code spans, as plain text.
func withoutMarks(markdown string) string { return strings.ReplaceAll(markdown, "`", "") }

// description is the Markdown that an editor shows for a field.
func (f field[D, T]) description() string {
	text := f.meaning() + " Write " + f.accepts + "."
	if f.absent != "" {
		text += " Default: " + f.absent + "."
	}
	return text
}

// meaning is the full explanation of a field, in Markdown.
func (f field[D, T]) meaning() string { return strings.TrimSpace(f.about + " " + f.more) }

// Field describes a field of limits.yaml in plain text.
type Field struct {
	Name string
	// Of is the owner of the field: "the file", "a limit", "a lease", "overrides" or "a group".
	Of string
	// Meaning explains the field, Accepts describes its valid values, and Absent is the default, or "".
	Meaning, Accepts, Absent string
	Required                 bool
	// Example is the field with a valid value.
	Example string
}

// entries returns the entries of a map in order, or reports that the node is not a map.
func (p *document) entries(node *yaml.Node, at diag.Span, what, help string) ([]entry, bool) {
	if p.muted[node] {
		return nil, false
	}
	if node.Kind != yaml.MappingNode {
		p.report(at, rules.WrongType, help, "%s must be a map, not %s", what, describe(node))
		return nil, false
	}
	var entries []entry
	first := map[string]diag.Span{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		e, ok := p.entry(node.Content[i], node.Content[i+1])
		if !ok {
			continue
		}
		// The second value is read too, so that its errors are reported in the same run.
		e.again = p.twice(first, e.name, e.named, "")
		entries = append(entries, e)
	}
	return entries, true
}

// twice reports a name that is in first already, and otherwise adds it.
func (p *document) twice(first map[string]diag.Span, name string, at diag.Span, what string) bool {
	before, twice := first[name]
	if twice {
		p.report(at, rules.Duplicate, "", "%s%s is given twice", what, diag.Quote(name))
		p.note(before, "first given here")
	} else {
		first[name] = at
	}
	return twice
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
	e := entry{name: key.Value, value: value, named: p.src.At(key)}
	if !isString(key) {
		p.report(e.named, rules.NameNotText, "", "a name must be text, not %s", describe(key))
		return e, false
	}
	e.at = p.src.At(value)
	// An empty value has no text to mark.
	if e.at.Pos == e.at.End {
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
func readFields[D, T any](p *parser, fields []field[D, T], into *D, entries []entry, owner diag.Span, complete bool) map[string]entry {
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
		required := f.required || f.requiredBy != nil && f.requiredBy(into)
		if required && complete && !seen[f.name] && (f.implied == nil || !f.implied(into)) {
			p.report(owner, rules.MissingField, "add "+f.name+": "+f.example, "%s is missing", f.name)
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
func dropRefused[D, T any](found diag.Diagnostics, e entry, f field[D, T]) {
	for i, d := range found {
		if d.Span == e.at {
			found[i].Meant = slices.DeleteFunc(d.Meant, func(text string) bool { return !f.takes(text) })
		}
	}
}

// takes reports whether a text is a valid value of the field, by parsing a file with it.
func (f field[D, T]) takes(text string) bool {
	// A real parse is slow, but it runs for offers of wrong values only, and cannot disagree with the field.
	p := newParser(diag.NewSource("", f.name+": "+text))
	root := p.root()
	if root == nil {
		return false
	}
	entries, _ := p.entries(root, p.src.At(root), "", "")
	return len(entries) == 1 && f.read(p, new(D), entries[0])
}

// reportUnknown reports a field that the table lacks, and returns the field that was probably meant, or "".
func reportUnknown[D, T any](p *parser, e entry, fields []field[D, T]) string {
	if p.missingSpaceAfterColon(e, rules.UnknownField) {
		name, _, _ := strings.Cut(e.name, ":")
		return name
	}
	meant := meantField(e.name, fields)
	// A limit at the top of the file is a common mistake, and a list of fields would not help there.
	if meant == "" && p.limit == "" && p.looksLikeLimit(e.value) {
		p.report(e.named, rules.UnknownField, "indent the limit below limits:", "unknown field %s", diag.Quote(e.name))
		return "limits"
	}
	p.report(e.named, rules.UnknownField, "the fields are "+words.List(names(fields), "and"), "unknown field %s", diag.Quote(e.name))
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
	return diag.Nearest(name, names(fields))
}

// looksLikeLimit reports whether a node is a map with a field of a limit.
func (p *parser) looksLikeLimit(node *yaml.Node) bool {
	return node.Kind == yaml.MappingNode &&
		slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return slices.Contains(p.limitFields, n.Value) })
}

// missingSpaceAfterColon reports a name that contains its value too, because no space follows the colon.
func (p *document) missingSpaceAfterColon(e entry, broken *rules.Rule) bool {
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
		return "the number " + diag.Clip(n.Value)
	case n.Tag == "!!timestamp":
		return "the date " + diag.Clip(n.Value)
	case n.Tag == "!!bool":
		return n.Value
	}
	return diag.Quote(n.Value)
}

// text returns the value of a field that must be text, or reports another type.
func (p *document) text(e entry, want string) (string, bool) {
	if isString(e.value) {
		return e.value.Value, true
	}
	p.wrongType(e, want, "")
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

// precise reads true or false.
func (p *parser) precise(limit *draft, e entry) bool {
	// YAML 1.1 has more words for them, which people and YAML 1.2 read as text.
	if text := e.value.Value; e.value.Tag == "!!bool" && (text == "true" || text == "false") {
		limit.policy.Precise = text == "true"
		return true
	}
	p.report(e.at, rules.BadPrecise, "", "%s must be true or false, not %s", e.name, describe(e.value))
	p.meant(meantBoolean[e.value.Value])
	return false
}

// meantBoolean are the other words for true and false in YAML 1.1 and elsewhere.
var meantBoolean = map[string]string{
	"true": "true", "false": "false", // in quotes
	"True": "true", "TRUE": "true", "yes": "true", "Yes": "true", "on": "true", "On": "true", "1": "true",
	"False": "false", "FALSE": "false", "no": "false", "No": "false", "off": "false", "Off": "false", "0": "false",
}

// wrongType reports a value of another type than the wanted one.
func (p *document) wrongType(e entry, want, help string) {
	p.report(e.at, rules.WrongType, help, "%s must be %s, not %s", e.name, want, describe(e.value))
}
