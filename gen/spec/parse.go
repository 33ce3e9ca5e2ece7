// Package spec reads limits.yaml.
//
// [Parse] turns the bytes of the file into a [File] of [Limit] values with every default filled in, or into
// [Diagnostics]: all errors of the file, each with its place, one of [Rules], and a remedy. One table of fields drives
// the parser, the [Schema] for editors, the [Reference] for people and [Diff].
//
// # Guarantees
//
// No value is rounded or guessed, and no part of the file is ignored. Parse does not panic on any input. Every policy of
// a File passes [runtime.Policy.Validate].
package spec

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// Parse reads a limits.yaml. The name is used in messages only. It returns all errors of the file at once; the File is
// nil if and only if it has errors.
func Parse(name string, src []byte) (*File, Diagnostics) {
	p := &parser{src: newSource(name, string(src)), limitFields: names(limitFields), faulty: map[*Limit]bool{}}
	file := p.readFile()
	if len(p.found) > 0 {
		p.found.sort()
		// Only now are the offers final: the field of a value may have dropped some of them.
		p.found.suggest()
		return nil, p.found
	}
	return file, nil
}

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
	// faulty holds the limits with a diagnostic, whose keys and numbers may be incomplete.
	faulty map[*Limit]bool
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
	message := fmt.Sprintf(format, args...)
	if p.limit != "" {
		message = p.limit + ": " + message
	}
	// Readers look for the end of a file at its last text, not on an empty line below.
	at = p.src.clamp(at)
	p.found = append(p.found, Diagnostic{
		ID: broken.ID, File: p.src.name, Pos: at.pos, End: at.end,
		Message: printable.Mask(message), Help: printable.Mask(help), shown: p.src.excerpt(at),
	})
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
