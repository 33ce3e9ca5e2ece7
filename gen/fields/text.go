package fields

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

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
	// first are the diagnostics that are described; the others are only counted. Nil for the first that are found.
	first *firstPlaces
	// compared is with how many words wrong ones were compared to find their meaning, which is most of the work of a diagnostic.
	compared int
}

// firstPlaces are the places of the first [diag.MaxDiagnostics] errors of a file: those before last, and some at last.
type firstPlaces struct {
	last diag.Pos
	// atLast is how many at last are left to be described.
	atLast int
}

// firstOf returns the places of the first of more diagnostics, which must be sorted.
func firstOf(found diag.Diagnostics) *firstPlaces {
	first := &firstPlaces{last: found[diag.MaxDiagnostics-1].Pos}
	for i := diag.MaxDiagnostics - 1; i >= 0 && found[i].Pos == first.last; i-- {
		first.atLast++
	}
	return first
}

// describes reports whether the next diagnostic is described if it is at a place.
func (d *document) describes(at diag.Pos) bool {
	if d.first == nil {
		return len(d.found) < diag.MaxDiagnostics
	}
	order := at.Compare(d.first.last)
	if order == 0 {
		d.first.atLast--
	}
	return order < 0 || order == 0 && d.first.atLast >= 0
}

// report adds a diagnostic. The help may be empty. The message is one line without control characters, whatever the file
// contains.
func (d *document) report(at diag.Span, broken *rules.Rule, help, format string, args ...any) {
	// Readers look for the end of a file at its last text, not on an empty line below.
	at = d.src.Clamp(at)
	if !d.describes(at.Pos) {
		d.found = append(d.found, diag.Diagnostic{ID: broken.ID, Note: diag.Note{Span: at}})
		return
	}
	message := fmt.Sprintf(format, args...)
	if d.inside != "" {
		message = d.inside + ": " + message
	}
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

// described reports whether the last diagnostic is described. Otherwise it is only counted.
func (d *document) described() bool { return d.found[len(d.found)-1].Message != "" }

// nearest is [diag.Nearest] for the replacements of the last diagnostic, unless that is only counted or too many words were
// compared: a file can have as many wrong names as right ones.
func (d *document) nearest(text string, known func() []string) string {
	if !d.described() {
		return ""
	}
	list := known()
	if d.compared+len(list) > mostCompared {
		return ""
	}
	d.compared += len(list)
	return diag.Nearest(text, list)
}

// mostCompared bounds the words that are compared for one file, so that the last of 100 wrong names in a file with 2,000 limits
// still has a suggestion.
const mostCompared = 250_000

// meant offers replacements for the text of the last diagnostic, the likeliest first. Empty offers, and those that are
// too long to read, are dropped.
func (d *document) meant(offers ...string) {
	if !d.described() {
		return
	}
	d.found[len(d.found)-1].Meant = slices.DeleteFunc(offers, func(text string) bool {
		return text == "" || diag.Clip(text) != text
	})
}

// help sets the help of the last diagnostic.
func (d *document) help(text string) { d.found[len(d.found)-1].Help = text }

// note adds a second place to the last diagnostic.
func (d *document) note(at diag.Span, message string) {
	last := &d.found[len(d.found)-1]
	// A field with an error has no place.
	if !d.described() || at.Pos == (diag.Pos{}) {
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
	// calendar is set for a period that can be in calendar units.
	calendar bool
	// plans has the entries of a map of plans, each with the name of the field, and meant the plans that its unknown names
	// probably mean; or anyPlan.
	plans map[string]entry
	meant map[string]bool
}

// anyPlan represents the plans that the unknown names of diagnostics without a description may mean. No plan has the name.
const anyPlan = "*"

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
		if i > 0 && d.commaInNumber(entries, node.Content[i-1], node.Content[i], node.Content[i+1]) {
			continue
		}
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

// thousandsForm is the rest of a number after a comma, which begins the name of a field in {rate: 10,000}.
var thousandsForm = regexp.MustCompile(`^[0-9]{3}$`)

// commaInNumber reports a number with a comma between its digits, which ends the value in a map with braces, and returns whether
// a name is the rest of it. The value belongs to the name, and before is the value of the name before it.
func (d *document) commaInNumber(entries []entry, before, name, value *yaml.Node) bool {
	rest := d.src.From(diag.Pos{Line: before.Line, Column: before.Column})
	if value.Tag != "!!null" || value.Value != "" || !thousandsForm.MatchString(name.Value) || before.Line != name.Line {
		return false
	}
	if d.muted[before] && before.Value == "" { // the number has more than one comma
		d.mute(value)
		return true
	}
	number := writtenThousands.FindString(rest)
	if !strings.HasPrefix(number, before.Value+",") || before.Column+len(before.Value)+1 != name.Column {
		return false
	}
	what := "a number"
	if len(entries) > 0 && entries[len(entries)-1].value == before {
		what = entries[len(entries)-1].name
	}
	d.report(diag.Spanning(diag.Pos{Line: before.Line, Column: before.Column}, number), rules.NotWhole, "", "%s must not have commas, which separate the fields of a map: %s", what, number)
	d.meant(strings.ReplaceAll(number, ",", "_"))
	d.mute(value)
	return true
}

// writtenThousands is a number with commas at the beginning of a text.
var writtenThousands = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+`)

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
func meantWord[W fmt.Stringer](d *document, text string, known []W, synonyms map[string]W) string {
	if !d.described() {
		return ""
	}
	text = strings.ToLower(text)
	for _, w := range known {
		if strings.Contains(text, w.String()) {
			return w.String()
		}
	}
	if w, ok := synonyms[text]; ok {
		return w.String()
	}
	return d.nearest(text, func() []string { return diag.Texts(known) })
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

// syntax reads the text of a document into nodes. It reports text that is not YAML, and text that people could not review.
type syntax struct{ *document }

// MaxSize is the size of the largest limits.yaml, in bytes.
const MaxSize = 4 << 20

// legible reports a file that is not text. It runs before the YAML reader, whose errors do not have the exact place.
func (s syntax) legible() bool {
	if len(s.src.Text) > MaxSize {
		s.report(diag.Spanning(diag.Pos{Line: 1, Column: 1}, ""), rules.FileTooLarge, "split it into files with a package each",
			"the file is larger than %d MiB", MaxSize>>20)
		return false
	}
	for i, line := range s.src.Lines {
		if !s.legibleLine(i+1, line) {
			return false
		}
	}
	return len(s.found) == 0
}

// legibleLine reports the first illegible rune of a line, and returns false if the line is not UTF-8.
func (s syntax) legibleLine(number int, line string) bool {
	for i, r := range line {
		bad := r == utf8.RuneError && !strings.HasPrefix(line[i:], "\uFFFD")
		if !bad && !Illegible(r) && !strayJoiner(line, i, r) {
			continue
		}
		at := diag.Spanning(diag.Pos{Line: number, Column: 1 + utf8.RuneCountInString(line[:i])}, " ")
		if bad {
			// In another encoding every later line would be reported too.
			s.report(at, rules.InvalidUTF8, "save the file as UTF-8", "the byte 0x%02X is not valid UTF-8", line[i])
			return false
		}
		switch {
		case unicode.Is(unicode.Bidi_Control, r):
			s.report(at, rules.ControlCharacter, "delete it", "the character %U is invisible and can reorder the text around it on the screen", r)
		// A joiner gets here only if it is stray.
		case invisible(r), isJoiner(r):
			s.report(at, rules.ControlCharacter, "delete it", "the character %U is invisible", r)
		default:
			s.report(at, rules.ControlCharacter, "delete it", "the character %U is not allowed in YAML text", r)
		}
		return true
	}
	return true
}

// noConflictMarkers reports the markers of a merge conflict, and an indentation with no-break spaces. The YAML reader
// would report them on a later line.
func (s syntax) noConflictMarkers() bool {
	for i, line := range s.src.Lines {
		if diag.ConflictForm.MatchString(line) {
			s.report(s.src.WholeLine(i+1), rules.Syntax, "keep one of the two sides, and delete the lines with <<<<<<<, ======= and >>>>>>>",
				"the file has an unresolved merge conflict")
			return false
		}
		if indent := diag.IndentForm.FindStringSubmatchIndex(line); indent != nil {
			first, _ := utf8.DecodeRuneInString(line[indent[2]:])
			s.report(diag.Spanning(diag.Pos{Line: i + 1, Column: 1 + indent[2]}, line[indent[2]:indent[3]]), rules.Syntax, "indent with spaces",
				"the indentation has the character %U, which looks like a space but is not one", first)
			return false
		}
	}
	return true
}

// Illegible reports whether people cannot review a line with r in it: YAML forbids r, or ends a line there where editors
// do not, or r reorders the line, or is invisible. Tabs are legible, and so are the joiners of emoji and of Persian and
// Indic words.
func Illegible(r rune) bool {
	return r < ' ' && r != '\t' || r >= 0x7F && r <= 0x9F || strings.ContainsRune("\u2028\u2029\uFFFE\uFFFF", r) ||
		unicode.Is(unicode.Bidi_Control, r) || invisible(r)
}

func isJoiner(r rune) bool { return r == '\u200C' || r == '\u200D' }

// strayJoiner reports whether r, at offset i of a line, is a joiner without effect: only emoji and letters beyond ASCII
// have joined forms.
func strayJoiner(line string, i int, r rune) bool {
	if !isJoiner(r) {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(line[:i])
	after, _ := utf8.DecodeRuneInString(line[i+utf8.RuneLen(r):])
	return i == 0 || before < utf8.RuneSelf || after < utf8.RuneSelf
}

// invisible reports whether r has no width on the screen, or is a blank other than the space: text can be hidden in such
// characters. See Unicode Technical Standard 39.
func invisible(r rune) bool {
	switch {
	case isJoiner(r):
		return false
	case strings.ContainsRune("\u115F\u1160\u3164\uFFA0", r): // Hangul fillers, which count as letters
		return true
	}
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) || r >= '\U000E0000' && r <= '\U000E0FFF'
}

// root returns the root of the file's only document, or reports why it has none and returns nil.
func (s syntax) root() *yaml.Node {
	reader := &slowReader{text: s.src.Text}
	decoder := yaml.NewDecoder(reader)
	first, err := decode(decoder)
	if err == nil {
		return s.only(first, decoder, reader)
	}
	if errors.Is(err, io.EOF) {
		s.report(diag.Spanning(diag.Pos{Line: 1, Column: 1}, ""), rules.EmptyFile, "begin with version: 1", "the file has no content")
		return nil
	}
	s.syntaxError(err, reader.line())
	return nil
}

// only returns the root of the first document, or reports the one after it.
func (s syntax) only(first *yaml.Node, decoder *yaml.Decoder, reader *slowReader) *yaml.Node {
	// The rest of the file is decoded too, because an error or a document there would otherwise be ignored.
	second, err := decode(decoder)
	root := first.Content[0]
	switch {
	case err == nil:
		s.report(s.src.WholeLine(second.Line), rules.SecondDocument, "put all limits under one limits:",
			"a second document begins here")
	case !errors.Is(err, io.EOF):
		s.syntaxError(err, reader.line())
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		s.report(s.src.At(root), rules.EmptyFile, "begin with version: 1", "the file has no content")
	default:
		return root
	}
	return nil
}

// decode returns the next document, or [io.EOF].
func decode(decoder *yaml.Decoder) (document *yaml.Node, err error) {
	// The YAML reader panics on some malformed input.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	document = new(yaml.Node)
	err = decoder.Decode(document)
	// A file with comments only is a document without a root.
	if err == nil && len(document.Content) == 0 {
		err = io.EOF
	}
	return document, err
}

// slowReader returns its text byte by byte, because the errors of the YAML reader name no line or a wrong one: its
// position shows how far the YAML reader came.
type slowReader struct {
	text string
	next int
}

func (r *slowReader) Read(b []byte) (int, error) {
	if r.next == len(r.text) {
		return 0, io.EOF
	}
	// More than one byte would make the position run ahead of the error by the size of the buffer.
	b[0] = r.text[r.next]
	r.next++
	return 1, nil
}

// line returns the current line.
func (r *slowReader) line() int { return 1 + strings.Count(r.text[:r.next], "\n") }

// syntaxError reports an error of the YAML reader, which had read the file up to a line.
func (s syntax) syntaxError(err error, reached int) {
	problem := problemOf(err)
	line := faultyLine(s.src, problem, reached)
	if name, ok := strings.CutPrefix(problem.text, "unknown anchor '"); ok {
		name = strings.TrimSuffix(name, "' referenced")
		s.refuseAlias(aliasIn(s.src, name, line), name)
		return
	}
	// After a name without a colon, the YAML reader joins the next line to it, and reports the colon there.
	if above := s.src.TextAbove(line); strings.HasPrefix(problem.text, "mapping values") && lacksColon(s.src, above) {
		line, problem.text = above, "could not find expected ':'"
	}
	for _, m := range commonMistakes {
		if at, ok := m.in(s.src, line, problem.text); ok {
			s.report(at, rules.Syntax, m.help, "%s", m.message)
			return
		}
	}
	s.report(s.src.WholeLine(line), rules.Syntax, "", "not valid YAML: %s", diag.Clip(problem.text))
}

// aliasIn returns the place of an alias on a line or after it, because the YAML reader names the line of its map.
func aliasIn(s *diag.Source, name string, from int) diag.Span {
	form := regexp.MustCompile(`\*` + regexp.QuoteMeta(name) + `(?:[ \t,\]}]|$)`)
	for n := from; n <= len(s.Lines); n++ {
		// An asterisk in a comment is not an alias.
		text, _, _ := strings.Cut(s.Line(n), " #")
		if place := form.FindStringIndex(text); place != nil && s.HasText(n) {
			return diag.Spanning(diag.Pos{Line: n, Column: 1 + utf8.RuneCountInString(text[:place[0]])}, "*"+name)
		}
	}
	return s.WholeLine(from)
}

// problem is an error of the YAML reader, with the line that it names or 0.
type problem struct {
	text string
	line int
}

var problemForm = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

func problemOf(err error) problem {
	parts := problemForm.FindStringSubmatch(err.Error())
	if parts == nil {
		return problem{text: err.Error()}
	}
	line, _ := strconv.Atoi(parts[1])
	return problem{parts[2], line}
}

// commonMistake is a common syntax error, for which the YAML reader has a message that only experts understand.
type commonMistake struct {
	// problem is a part of the message of the YAML reader.
	problem string
	// culprit matches a line with the mistake, and its first group is the wrong part; nil for the whole line.
	culprit *regexp.Regexp
	// message describes the mistake in plain words, and help is the remedy.
	message, help string
}

const (
	needsQuotes = "a text without quotes cannot begin with this character"
	useQuotes   = "put the value in quotes"
)

// commonMistakes are tried in this order, so those that match a part of the line come before those that match any line.
var commonMistakes = []commonMistake{
	{"", regexp.MustCompile("^ *(\t)"), "a tab in the indentation", "indent with spaces"},
	{"", missingSpaceForm, "a colon needs a space after it", "write name: value"},
	{"did not find expected key", regexp.MustCompile(`:[ \t]+([\[{]).*[\]}][ \t]*[^ \t,\]}#]`), needsQuotes, useQuotes},
	{"did not find expected key", regexp.MustCompile(`^[ \t]*(.*["'].*)`), "unexpected text before or after quotes", "nothing can follow a closing quote, and a quote must be closed"},
	{"did not find expected key", nil, "this line does not continue the map above it", "begin all fields of one limit in the same column"},
	{"mapping values are not allowed", nil, "a colon where no value can begin", "put the text in quotes if the colon belongs to it; otherwise correct the indentation"},
	{"mapping keys are not allowed", regexp.MustCompile(`[ \t](\?)`), needsQuotes, useQuotes},
	{"did not find expected '-' indicator", nil, "this line does not continue the list above it", "begin each item of a list with - in the same column"},
	{"block sequence entries are not allowed", regexp.MustCompile(`:[ \t]+(-)`), needsQuotes, useQuotes},
	{"block sequence entries are not allowed", nil, "a list item where no list can begin", "put the list on a line of its own, or the text in quotes"},
	{"could not find expected ':'", nil, "a name without a colon", "write name: value"},
	{"did not find expected ',' or '}'", nil, "a { that is not closed, or a missing comma", "separate with commas and end with }"},
	{"did not find expected ',' or ']'", nil, "a [ that is not closed, or a missing comma", "separate with commas and end with ]"},
	{"did not find expected node content", nil, "a value is missing before this", "write a value, or delete the comma or bracket"},
	{"found unexpected end of stream", nil, "a quote that is not closed", "end the text with the same quote"},
	{"found unexpected document indicator", nil, "a quote that is not closed", "end the text with the same quote"},
	{"cannot start any token", regexp.MustCompile("(?:^|[ \t,{\\[])([@%`])"), needsQuotes, useQuotes},
	{"cannot start any token", nil, needsQuotes, useQuotes},
	{"alphabetic or numeric character", regexp.MustCompile(`[ \t,{\[]([*&])`), needsQuotes, useQuotes},
	{"expected comment or line break", regexp.MustCompile(`[ \t]([|>])`), needsQuotes, "put the value in quotes, or begin it on the next line"},
	{"tag", regexp.MustCompile(`[ \t,{\[](!)`), needsQuotes, useQuotes},
	{"octet", regexp.MustCompile(`[ \t,{\[](!)`), needsQuotes, useQuotes},
	{"whitespace or line break", regexp.MustCompile(`[ \t,{\[]([!*&])`), needsQuotes, useQuotes},
	{"found unknown escape character", nil, `an unknown escape after \`, `write \\ for a backslash, or use single quotes`},
	{"hexdecimal number", nil, `an unknown escape after \`, `write \\ for a backslash, or use single quotes`},
	{"incompatible YAML", nil, "an unsupported version of YAML", "delete the line %YAML"},
	{"", regexp.MustCompile(`^(%.*)`), "unknown YAML directive: a line that begins with % is one", "delete it, or put the text in quotes"},
	{"expected <document start>", nil, "this is after the end of the map", "correct the brackets or the indentation above"},
	{"exceeded max depth", nil, "nested too deeply", "limits.yaml needs at most four levels"},
}

// in returns the place of the mistake on the line of a problem, or false if the problem is another one.
func (m commonMistake) in(s *diag.Source, line int, problem string) (diag.Span, bool) {
	if !strings.Contains(problem, m.problem) {
		return diag.Span{}, false
	}
	if m.culprit == nil {
		return s.WholeLine(line), true
	}
	text := s.Line(line)
	place := m.culprit.FindStringSubmatchIndex(text)
	if place == nil {
		return diag.Span{}, false
	}
	return diag.Spanning(diag.Pos{Line: line, Column: 1 + utf8.RuneCountInString(text[:place[2]])}, strings.TrimRight(text[place[2]:place[3]], " \t")), true
}

// mostReread bounds the bytes that [faultyLine] parses again, so that its time is linear in the file.
const mostReread = MaxSize

// faultyLine returns the line of a syntax error. The YAML reader often names the line where the construct began, or no
// line. The error is on the line after the longest valid prefix of the file, which ends a little before the line that
// the reader had reached.
func faultyLine(s *diag.Source, p problem, reached int) int {
	reached = min(reached, len(s.Lines))
	named := max(1, min(p.line, len(s.Lines)))
	switch {
	case p.text == "did not find expected node content":
		// For this message, the YAML reader names the line above.
		return min(p.line+1, len(s.Lines))
	case p.text == "found unexpected end of stream":
		if hasUnclosed(s.Line(1), `"`, `"`) || hasUnclosed(s.Line(1), "'", "'") {
			return 1
		}
		return named
	case strings.HasPrefix(p.text, "did not find expected ',' or"):
		if end := s.Line(s.TextAbove(len(s.Lines) + 1)); hasUnclosed(s.Line(1), "{", "}") && !hasUnclosed(end, "}", "{") ||
			hasUnclosed(s.Line(1), "[", "]") && !hasUnclosed(end, "]", "[") {
			return 1
		}
		// Inside brackets no prefix of the file is valid, so the search below would find the opening bracket.
		if open := p.line + 1; open >= reached-3 {
			return min(open, len(s.Lines))
		}
		return s.TextAbove(s.TextAbove(reached))
	}
	for n, read := reached, 0; n >= 0 && read < mostReread; n-- {
		// The longest prefix is tried first, because most errors are near the line that the reader had reached.
		text := strings.Join(s.Lines[:n], "\n")
		if readable(text) {
			return nextText(s, n)
		}
		read += len(text)
	}
	return named
}

// hasUnclosed reports whether a line has a quote or a bracket that it does not close. If that is the first line, the
// YAML reader names the line where it gave up instead.
func hasUnclosed(line, open, end string) bool {
	if open == end {
		return strings.Count(line, open)%2 == 1
	}
	return strings.Count(line, open) > strings.Count(line, end)
}

// readable reports whether a text is valid YAML.
func readable(text string) bool {
	decoder := yaml.NewDecoder(strings.NewReader(text + "\n"))
	for {
		if _, err := decode(decoder); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// nextText returns the first line with text after line n, or the next line if no line has.
func nextText(s *diag.Source, n int) int {
	for i := n + 1; i <= len(s.Lines); i++ {
		if s.HasText(i) {
			return i
		}
	}
	return min(n+1, len(s.Lines))
}

// lacksColon reports whether a line is probably a "name: value" without the colon or the space after it.
func lacksColon(s *diag.Source, n int) bool {
	line := s.Line(n)
	return !strings.Contains(line+" ", ": ") && !strings.HasPrefix(line, "---")
}

// missingSpaceForm is a name with a colon that is part of it in YAML, because no space follows.
var missingSpaceForm = regexp.MustCompile(`^[ \t]*(?:- )?[A-Za-z][A-Za-z0-9_-]*(:)[^\s/:]`)

// refuseIndirection reports anchors, aliases, merge keys and tags anywhere under a node. Editing an anchor would change
// limits on lines that a reviewer does not see.
func (s syntax) refuseIndirection(node *yaml.Node) {
	at := s.src.At(node)
	switch word := s.src.Between(at); {
	case node.Kind == yaml.AliasNode:
		s.refuseAlias(at, node.Value)
		s.mute(node)
	case node.Anchor != "":
		s.report(at, rules.Anchor, writeOut, "anchors such as &%s are not allowed", diag.Clip(node.Anchor))
		s.mute(node)
	case node.Style&yaml.TaggedStyle != 0, diag.IsTag(node, word):
		s.report(at, rules.Tag, "write the value without a tag", "tags such as %s are not allowed", diag.Clip(word))
		s.mute(node)
	case node.Tag == mergeTag:
		node.Tag = "!!str" // "<<" is special only as the name of a field
	}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			s.refuseMerge(child)
		}
		s.refuseIndirection(child)
	}
}

const mergeTag = "!!merge"

// refuseMerge reports the name of a field that is a merge key.
func (s syntax) refuseMerge(name *yaml.Node) {
	if name.Tag == mergeTag && name.Style&yaml.TaggedStyle == 0 && name.Anchor == "" {
		s.report(s.src.At(name), rules.MergeKey, writeOut, "merge keys (<<) are not allowed")
		s.mute(name)
	}
}

func (s syntax) refuseAlias(at diag.Span, name string) {
	s.report(at, rules.Anchor, writeOut, "aliases such as *%s are not allowed", diag.Clip(name))
}

const writeOut = "write the value out, so that each limit can be reviewed on its own"
