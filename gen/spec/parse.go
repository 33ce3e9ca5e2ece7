// Package spec reads limits.yaml.
//
// [Parse] turns the bytes of the file into a [File] of [Limit] values with every default filled in, or into
// [Diagnostics]: all that is wrong, each with its place, a rule of [Rules], and what to write instead. The
// fields are known from one table, which also makes the [Schema] for editors and the [Reference] for people.
// Nothing is rounded, guessed or passed over, and no input makes Parse panic.
package spec

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// Parse reads a limits.yaml. The name is used in messages only. It returns everything that is wrong with
// the file at once; the File is nil if and only if there is something. Every policy of a File passes
// [runtime.Policy.Validate].
func Parse(name string, src []byte) (*File, Diagnostics) {
	p := &parser{src: newSource(name, string(src)), limitFields: names(limitFields)}
	file := p.file()
	if len(p.found) > 0 {
		p.found.sort()
		p.found.ask()
		return nil, p.found
	}
	return file, nil
}

// parser walks the nodes of one file and gathers what is wrong with them.
type parser struct {
	src   *source
	found Diagnostics
	// limit is the name of the limit that is being read, for messages.
	limit string
	// impliesPeriod says that the limit's rate names a period too, so that none is missing.
	impliesPeriod bool
	// limitFields are the names of the fields of a limit, for what looks like one. A table cannot be in use by
	// what it says how to read.
	limitFields []string
	// settled holds the nodes about which all has been said, so that no second diagnostic follows.
	settled map[*yaml.Node]bool
}

func (p *parser) file() *File {
	if !p.legible() || !p.wellLaid() {
		return nil
	}
	root := p.document()
	if root == nil {
		return nil
	}
	if version := laterVersion(root); version != nil {
		p.version(nil, entry{name: "version", value: version, at: p.src.at(version)})
		return nil
	}
	p.refuseIndirection(root)
	file := &File{Name: p.src.name}
	if entries, ok := p.entries(root, p.src.at(root), "the file", "begin with version: 1"); ok {
		readFields(p, fileFields, file, entries, p.src.at(root), p.complete(root))
	}
	return file
}

// report adds a diagnostic. The help may be empty. Whatever stands in the file, a message is one line that
// leaves the terminal alone.
func (p *parser) report(at span, id, help, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if p.limit != "" {
		message = p.limit + ": " + message
	}
	at = p.src.clamp(at)
	p.found = append(p.found, Diagnostic{
		ID: id, File: p.src.name, Pos: at.pos, End: at.end,
		Message: printable.Mask(message), Help: printable.Mask(help), shown: p.src.excerpt(at),
	})
}

// meant offers what to write in place of what the diagnostic is about that was reported last. An empty
// offer is none, and neither is one that is too long to be read.
func (p *parser) meant(instead ...string) {
	p.found[len(p.found)-1].meant = slices.DeleteFunc(instead, func(text string) bool {
		return text == "" || clip(text) != text
	})
}

// note adds a second place to the diagnostic that was reported last.
func (p *parser) note(at span, message string) {
	last := &p.found[len(p.found)-1]
	last.Notes = append(last.Notes, Note{at.pos, at.end, message, p.src.excerpt(at)})
}
