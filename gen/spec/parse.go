// Package spec reads limits.yaml.
//
// [Parse] turns the bytes of the file into a [File] of [Limit] values with every default filled in, or into
// [Diagnostics]: all errors of the file, each with its place, one of [Rules], and a remedy. One table of fields drives
// the parser, the [Schema] for editors, the reference in README.md and [Diff].
//
// # Guarantees
//
// No value is rounded or guessed, and no part of the file is ignored. Parse does not panic on any input. Every policy of
// a File passes [runtime.Policy.Validate].
package spec

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// Parse reads a limits.yaml. The name is used in messages only. It returns all errors of the file at once, of more
// than 100 the first ones; the File is nil if and only if it has errors.
func Parse(name string, src []byte) (*File, Diagnostics) {
	p := &parser{src: newSource(name, string(src)), limitFields: names(limitFields), drafts: map[string]*draft{}}
	file := p.readFile()
	if len(p.found) > 0 {
		p.found.sort()
		// Only now are the offers final: the field of a value may have dropped some of them.
		p.found.suggest()
		return nil, p.found.first(maxDiagnostics)
	}
	return file, nil
}

// maxDiagnostics is how many errors of a file are described. A file of 4 MiB can have 400,000.
const maxDiagnostics = 100

// parser walks the YAML nodes of one file and collects their errors.
type parser struct {
	src   *source
	found Diagnostics
	// limit is the name of the current limit, for messages.
	limit string
	// impliesPeriod is set if the rate of the current limit is "10 per minute" or the like: its diagnostic covers the
	// missing period.
	impliesPeriod bool
	// writtenPeriod is the text of the period of the current limit, or "".
	writtenPeriod string
	// plans are those of the file. With plansUnknown, some of them have errors, and the plans of limits are not checked.
	plans        []Plan
	plansUnknown bool
	// calendarStart is the start of the current limit in the words of a calendar, and gaveZone is set if the limit has a
	// zone, valid or not.
	calendarStart calendarStart
	gaveZone      bool
	// limitFields are the names of the fields of a limit. The functions that a table of fields contains cannot refer to
	// that table: Go would report an initialization cycle.
	limitFields []string
	// groupsGiven holds the entries groups:, which are read after the limits of the file.
	groupsGiven []entry
	file        *File
	owners      owners
	// drafts are the limits of the file by name, with those that have diagnostics.
	drafts map[string]*draft
	// parameters are those of the current group, by name.
	parameters map[string]parameter
	// muted holds the nodes that have a diagnostic already and get no second one.
	muted map[*yaml.Node]bool
}

func (p *parser) readFile() *File {
	if !p.legible() || !p.noConflictMarkers() {
		return nil
	}
	root := p.document()
	if root == nil {
		return nil
	}
	// Other diagnostics would be misleading: this version of the program does not have the rules of a future format.
	if version := laterVersion(root); version != nil {
		p.version(nil, entry{name: "version", value: version, at: p.src.at(version)})
		return nil
	}
	// This precedes the fields, whose readers skip the values that it reports.
	p.refuseIndirection(root)
	file := &File{Name: p.src.name}
	if entries, ok := p.entries(root, p.src.at(root), "the file", "begin with version: 1"); ok {
		// The limits refer to the plans, wherever these are in the file.
		slices.SortStableFunc(entries, plansFirst)
		readFields(p, fileFields, file, entries, p.src.at(root), p.complete(root))
		p.settleGroups(file)
	}
	return file
}

// report adds a diagnostic. The help may be empty. The message is one line without control characters, whatever the file
// contains.
func (p *parser) report(at span, broken *Rule, help, format string, args ...any) {
	if p.full() {
		// Only its number counts.
		p.found = append(p.found, Diagnostic{ID: broken.ID, Pos: at.pos})
		return
	}
	message := fmt.Sprintf(format, args...)
	if p.limit != "" {
		message = p.limit + ": " + message
	}
	// Readers look for the end of a file at its last text, not on an empty line below.
	at = p.src.clamp(at)
	p.found = append(p.found, Diagnostic{
		ID: broken.ID, File: p.src.name, Pos: at.pos, End: at.end,
		Message: oneLine(message), Help: oneLine(help), shown: p.src.excerpt(at),
	})
}

// oneLine returns a message without tabs and control characters, whatever the file contains.
func oneLine(text string) string { return strings.ReplaceAll(printable.Mask(text), "\t", " ") }

// full reports whether further diagnostics are only counted.
func (p *parser) full() bool { return len(p.found) >= maxDiagnostics }

// nearest is [Nearest] for the replacements of a diagnostic that was just reported, unless it is only counted: a file can
// have as many wrong names as right ones.
func (p *parser) nearest(text string, words func() []string) string {
	if len(p.found) > maxDiagnostics {
		return ""
	}
	return Nearest(text, words())
}

// meant offers replacements for the text of the last diagnostic, the likeliest first. Empty offers, and those that are
// too long to read, are dropped.
func (p *parser) meant(offers ...string) {
	p.found[len(p.found)-1].meant = slices.DeleteFunc(offers, func(text string) bool {
		return text == "" || clip(text) != text
	})
}

// note adds a second place to the last diagnostic.
func (p *parser) note(at span, message string) {
	last := &p.found[len(p.found)-1]
	// The diagnostic may be only counted, and a field with an error has no place.
	if last.Message == "" || at.pos == (Pos{}) {
		return
	}
	last.Notes = append(last.Notes, Note{at.pos, at.end, message, p.src.excerpt(at)})
}

// document returns the root of the file's only document, or reports why it has none and returns nil.
func (p *parser) document() *yaml.Node {
	reader := &slowReader{text: p.src.text}
	decoder := yaml.NewDecoder(reader)
	first, err := decode(decoder)
	if err == nil {
		return p.only(first, decoder, reader)
	}
	if errors.Is(err, io.EOF) {
		p.report(span{Pos{1, 1}, Pos{1, 1}}, emptyFile, "begin with version: 1", "the file has no content")
		return nil
	}
	p.syntaxError(err, reader.line())
	return nil
}

// only returns the root of the first document, or reports the one after it.
func (p *parser) only(first *yaml.Node, decoder *yaml.Decoder, reader *slowReader) *yaml.Node {
	// The rest of the file is decoded too, because an error or a document there would otherwise be ignored.
	second, err := decode(decoder)
	root := first.Content[0]
	switch {
	case err == nil:
		p.report(p.src.wholeLine(second.Line), secondDocument, "put all limits under one limits:",
			"a second document begins here")
	case !errors.Is(err, io.EOF):
		p.syntaxError(err, reader.line())
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		p.report(p.src.at(root), emptyFile, "begin with version: 1", "the file has no content")
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

// Diagnostic is one error in a limits.yaml. There are no warnings: a file with a diagnostic is not valid.
type Diagnostic struct {
	// ID is that of the broken rule, one of [Rules]: "unknown-field". It never changes.
	ID string
	// File is the name passed to [Parse].
	File string
	// Pos is the first wrong rune, and End the one after the last, on the same line.
	Pos, End Pos
	// Message describes the error in one line that can be understood without the source.
	Message string
	// Help is the remedy; "" if the message implies it.
	Help string
	// Notes are the other places that contribute to the error.
	Notes []Note
	// More is how many errors of the file are left out after this one, the last.
	More int

	shown excerpt
	// meant are replacements for the text from Pos to End, the likeliest first.
	meant []string
}

// Note is a second place of a [Diagnostic], in the same file.
type Note struct {
	Pos, End Pos
	Message  string

	shown excerpt
}

// Diagnostics are the errors of a file, in the order of their positions: all or, of more than 100, some.
type Diagnostics []Diagnostic

// first returns at most n diagnostics. Those after the first n reported have no message.
func (ds Diagnostics) first(n int) Diagnostics {
	if len(ds) <= n {
		return ds
	}
	described := slices.DeleteFunc(slices.Clone(ds), func(d Diagnostic) bool { return d.Message == "" })
	described[len(described)-1].More = len(ds) - len(described)
	return described
}

// Errors returns how many errors the file has.
func (ds Diagnostics) Errors() int {
	if len(ds) == 0 {
		return 0
	}
	return len(ds) + ds[len(ds)-1].More
}

// suggest replaces the help of those with offers by a question.
func (ds Diagnostics) suggest() {
	for i, d := range ds {
		if len(d.meant) > 0 {
			ds[i].Help = oneLine("did you mean " + words.List(d.meant, "or") + "?")
		}
	}
}

func (ds Diagnostics) sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
}

// WriteText prints the diagnostics for people: for each the place, the message and the id, the line with carets under
// the error, notes and help; then their number. Without diagnostics it prints nothing. It returns the error of w.
func (ds Diagnostics) WriteText(w io.Writer, color bool) error {
	if len(ds) == 0 {
		return nil
	}
	var out bytes.Buffer
	ink := cells.InkFor(color)
	for _, d := range ds {
		d.write(&out, ink)
	}
	fmt.Fprintf(&out, "%s in %s", words.Count(int64(ds.Errors()), "error"), printable.Line(ds[0].File))
	if more := ds.Errors() - len(ds); more > 0 {
		fmt.Fprintf(&out, ", %s of them not shown", words.Number(int64(more)))
	}
	out.WriteString("\n")
	_, err := w.Write(out.Bytes())
	return err
}

func (d Diagnostic) write(out *bytes.Buffer, ink cells.Ink) {
	file := printable.Line(d.File)
	fmt.Fprintf(out, "%s%s:%d:%d:%s %serror:%s %s%s%s [%s]\n", ink.Bold, file, d.Pos.Line, d.Pos.Column, ink.Off,
		ink.Red, ink.Off, ink.Bold, d.Message, ink.Off, d.ID)
	snippet(out, d.Pos.Line, d.shown, "^", "~", ink.Red, ink)
	for _, n := range d.Notes {
		fmt.Fprintf(out, "%s%s:%d:%d:%s %snote:%s %s\n", ink.Bold, file, n.Pos.Line, n.Pos.Column, ink.Off, ink.Blue, ink.Off, n.Message)
		snippet(out, n.Pos.Line, n.shown, "-", "-", ink.Blue, ink)
	}
	if d.Help != "" {
		fmt.Fprintf(out, "%s = %shelp:%s %s\n", strings.Repeat(" ", digits(d.Pos.Line)), ink.Bold, ink.Off, d.Help)
	}
}

func digits(line int) int { return len(strconv.Itoa(line)) }

// snippet prints the line with a mark under the place: "^~~~" for an error or "----" for a note.
func snippet(out *bytes.Buffer, line int, shown excerpt, mark, more string, color string, ink cells.Ink) {
	// An empty file has no line to show.
	if shown == (excerpt{}) {
		return
	}
	gutter := strings.Repeat(" ", digits(line))
	// A wide character needs a mark of two cells.
	underline := mark + strings.Repeat(more, max(0, cells.Of(shown.marked)-1))
	fmt.Fprintf(out, "%s%s |%s\n", ink.Blue, gutter, ink.Off)
	fmt.Fprintf(out, "%s%d |%s %s\n", ink.Blue, line, ink.Off, shown.before+shown.marked+shown.after)
	fmt.Fprintf(out, "%s%s |%s %s%s%s%s\n", ink.Blue, gutter, ink.Off, cells.Blank(shown.before), color, underline, ink.Off)
}

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

// longest is the most runes of the file that a message quotes.
const longest = 48

func clip(text string) string { return words.Clip(text, longest) }

// label returns a name from the file, in quotes unless it is an identifier.
func label(name string) string {
	if identifierForm.MatchString(name) {
		return clip(name)
	}
	return quote(name)
}

// quote returns a text in quotes, and points out a letter of another script, which may look like an ASCII letter.
func quote(text string) string {
	quoted := strconv.Quote(clip(text))
	if r, at, ok := lookAlike(text); ok {
		quoted += fmt.Sprintf(" (character %d is %U)", at, r)
	}
	return quoted
}

// lookAlike returns the first letter of another script in a text with ASCII letters, and its position, counted in
// characters from 1.
func lookAlike(text string) (r rune, at int, ok bool) {
	if strings.IndexFunc(text, func(r rune) bool { return r < utf8.RuneSelf && unicode.IsLetter(r) }) < 0 {
		return 0, 0, false
	}
	for _, r := range text {
		if at++; r >= utf8.RuneSelf && unicode.IsLetter(r) && (!unicode.Is(unicode.Latin, r) || r >= '\uFF00') {
			return r, at, true
		}
	}
	return 0, 0, false
}
