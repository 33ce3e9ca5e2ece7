package fields

import (
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

// parser reads the fields of a file. Its parts all report to one document.
type parser struct {
	*document
	syntax
	values
	goNames
	// plans are those of the file. With plansUnknown, some of them have errors, and the plans of limits are not checked.
	plans        []spec.Plan
	plansUnknown bool
	// limitFields are the names of the fields of a limit. The functions that a table of fields contains cannot refer to
	// that table: Go would report an initialization cycle.
	limitFields []string
	// groupsGiven holds the entries groups:, which are read after the limits of the file.
	groupsGiven []entry
	// drafts are the limits of the file by name, with those that have diagnostics.
	drafts map[string]*draft
}

func newParser(src *diag.Source) *parser {
	d := &document{src: src, muted: map[*yaml.Node]bool{}}
	return &parser{document: d, syntax: syntax{d}, values: values{d}, goNames: goNames{d, map[string]owner{}}}
}

// goNames checks the names and types of a file, which become those of the generated Go package, and records the owner of each name.
type goNames struct {
	*document
	owners map[string]owner
}

// owner is a limit, its overrides or its numbers, a group, or a plan, each of which has Go names.
type owner struct {
	what string
	at   diag.Span
	// plan is set for a plan, which has no goName.
	plan bool
}

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
	// written has the texts of other fields, for help that fits them: the values may not have been read yet.
	written writtenFields
	// impliesPeriod is set if the rate is "10 per minute" or the like: its diagnostic covers the missing period.
	impliesPeriod bool

	// said is what the file says of the limit, without a policy.
	said spec.Limit
}

// writtenFields are the texts of some fields of a limit, "" without one.
type writtenFields struct{ kind, period string }

// writtenIn returns the texts among the entries of a limit.
func writtenIn(entries []entry) (written writtenFields) {
	for _, e := range entries {
		switch {
		case e.value.Kind != yaml.ScalarNode || e.again:
		case e.name == "kind":
			written.kind = e.value.Value
		case e.name == "period":
			written.period = e.value.Value
		}
	}
	return written
}

// is reports whether the kind is one of some.
func (w writtenFields) is(kinds ...runtime.Kind) bool {
	return slices.ContainsFunc(kinds, func(k runtime.Kind) bool { return k.String() == w.kind })
}

// slides reports whether the kind has windows that cannot start at the first use.
func (w writtenFields) slides() bool {
	return slices.ContainsFunc(runtime.Kinds(), func(k runtime.Kind) bool { return w.is(k) && k.Windowed() && k != runtime.FixedWindow })
}

// calendar returns the calendar of the period, or false if it is in no calendar units.
func (w writtenFields) calendar() (runtime.Calendar, bool) {
	if !w.is(runtime.FixedWindow) {
		return runtime.Calendar{}, false
	}
	return parseCalendar(w.period)
}

// unchecked is a policy whose numbers may be missing. It lacks the methods of [runtime.Policy], such as Rule, which are
// for valid policies only.
type unchecked runtime.Policy

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

// unlimited is [spec.Limit.Unlimited].
func (d *draft) unlimited() bool { return d.policy.Mode == runtime.ModeUnlimited }

// each is [spec.Limit.Each].
func (d *draft) each() []*draft {
	if len(d.plans) == 0 {
		return []*draft{d}
	}
	return d.plans
}

// keepMap keeps the entries of a field with a map of plans.
func (d *draft) keepMap(e entry, entries []entry) {
	e.plans, e.meant = map[string]entry{}, map[string]bool{}
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
	read    reader[D]
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

// object is a part of a JSON Schema.
type object = map[string]any

// reader stores the value of an entry and returns true, or reports its errors.
type reader[D any] func(p *parser, into *D, e entry) bool

// names lists the names of the fields of a table.
func names[D, T any](fields []field[D, T]) []string {
	return words.Of(fields, func(f field[D, T]) string { return f.name })
}

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
				complete = complete && p.described() // otherwise it may be any of the fields
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
	defer p.enter(e.name)()
	readFields(p, fields, into, entries, e.named, p.complete(e.value))
	return len(p.found) == before
}

// readDuration returns a reader of a positive duration.
func readDuration[D any](at func(*D) *time.Duration) reader[D] {
	return func(p *parser, into *D, e entry) (ok bool) {
		*at(into), ok = p.length(e)
		return ok
	}
}

// readNumber returns a reader of a whole number.
func readNumber[D any, N int | int64](least, most int64, at func(*D) *N) reader[D] {
	return func(p *parser, into *D, e entry) bool {
		n, ok := p.number(e, least, most, "")
		*at(into) = N(n)
		return ok
	}
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
	p.report(e.named, rules.UnknownField, "", "unknown field %s", diag.Quote(e.name))
	if !p.described() {
		return ""
	}
	meant := meantField(p, e.name, fields)
	// A limit at the top of the file is a common mistake, and a list of fields would not help there.
	if meant == "" && p.inside == "" && p.looksLikeLimit(e.value) {
		p.help("indent the limit below limits:")
		return "limits"
	}
	p.help("the fields are " + words.List(names(fields), "and"))
	p.meant(meant)
	return meant
}

// meantField returns the field that a name probably means: one with that synonym, or with a similar name.
func meantField[D, T any](p *parser, name string, fields []field[D, T]) string {
	for _, f := range fields {
		if slices.Contains(f.synonyms, strings.ToLower(name)) {
			return f.name
		}
	}
	return p.nearest(name, func() []string { return names(fields) })
}

// looksLikeLimit reports whether a node is a map with a field of a limit.
func (p *parser) looksLikeLimit(node *yaml.Node) bool {
	return node.Kind == yaml.MappingNode &&
		slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return slices.Contains(p.limitFields, n.Value) })
}
