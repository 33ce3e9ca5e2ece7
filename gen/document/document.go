// Package document reads the text of a limits.yaml into nodes and entries, and collects the errors found in it. It is
// independent of the fields.
package document

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
)

// Document is the text of one file, with the errors found in it.
type Document struct {
	Source *diag.Source
	// Found has the errors in the order in which they were found.
	Found diag.Diagnostics
	// inside begins all messages: it names the limit that is read, and the part of it, such as "sendMessage: lease".
	inside string
	// muted holds the nodes that have a diagnostic already and get no second one.
	muted map[*yaml.Node]bool
	// first are the diagnostics that are described; the others are only counted. Nil for the first that are found.
	first *firstPlaces
	// Compared counts the words with which wrong ones were compared to find their meaning, most of the work of a diagnostic. It
	// is at most [MostCompared].
	Compared int
}

// New returns the document of a text, without errors.
func New(source *diag.Source) *Document {
	return &Document{Source: source, muted: map[*yaml.Node]bool{}}
}

// Again returns an empty document of the same text, for a second reading that describes the first [diag.MaxDiagnostics]
// errors in the order of the file. The errors of d must be sorted, and more than that.
func (d *Document) Again() *Document {
	again := New(d.Source)
	again.first = firstOf(d.Found)
	return again
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
func (d *Document) describes(at diag.Pos) bool {
	if d.first == nil {
		return len(d.Found) < diag.MaxDiagnostics
	}
	order := at.Compare(d.first.last)
	if order == 0 {
		d.first.atLast--
	}
	return order < 0 || order == 0 && d.first.atLast >= 0
}

// Report adds a diagnostic. The help may be empty. The message is one line without control characters, whatever the file
// contains.
func (d *Document) Report(at diag.Span, broken *ids.Meaning, help, format string, args ...any) {
	// Readers look for the end of a file at its last text, not on an empty line below.
	at = d.Source.Clamp(at)
	if !d.describes(at.Pos) {
		d.Found = append(d.Found, diag.Diagnostic{ID: broken.ID, Note: diag.Note{Span: at}})
		return
	}
	message := fmt.Sprintf(format, args...)
	if d.inside != "" {
		message = d.inside + ": " + message
	}
	d.Found = append(d.Found, diag.Diagnostic{ID: broken.ID, File: d.Source.Name,
		Note: d.Source.Note(at, diag.OneLine(message)), Help: diag.OneLine(help)})
}

// Enter adds a limit, or a part of one, to what begins all messages, until leave is called.
func (d *Document) Enter(part string) (leave func()) {
	outer := d.inside
	if outer != "" {
		part = outer + ": " + part
	}
	d.inside = part
	return func() { d.inside = outer }
}

// AtTop reports whether no limit or part of one is read.
func (d *Document) AtTop() bool { return d.inside == "" }

// Described reports whether the last diagnostic is described. Otherwise it is only counted.
func (d *Document) Described() bool { return d.Found[len(d.Found)-1].Message != "" }

// Nearest is [diag.Nearest] for the replacements of the last diagnostic, unless that is only counted or too many words were
// compared: a file can have as many wrong names as right ones.
func (d *Document) Nearest(text string, known func() []string) string {
	if !d.Described() {
		return ""
	}
	list := known()
	if d.Compared+len(list) > MostCompared {
		return ""
	}
	d.Compared += len(list)
	return diag.Nearest(text, list)
}

// MostCompared bounds the words that are compared for one file, so that the last of 100 wrong names in a file with 2,000
// limits still has a suggestion.
const MostCompared = 250_000

// Offer offers replacements for the text of the last diagnostic, the likeliest first. Empty offers, and those that are
// too long to read, are dropped.
func (d *Document) Offer(offers ...string) {
	if !d.Described() {
		return
	}
	d.Found[len(d.Found)-1].Meant = slices.DeleteFunc(offers, func(text string) bool {
		return text == "" || diag.Clip(text) != text
	})
}

// Help sets the help of the last diagnostic.
func (d *Document) Help(text string) { d.Found[len(d.Found)-1].Help = text }

// Note adds a second place to the last diagnostic.
func (d *Document) Note(at diag.Span, message string) {
	last := &d.Found[len(d.Found)-1]
	// A field with an error has no place.
	if !d.Described() || at.Pos == (diag.Pos{}) {
		return
	}
	last.Notes = append(last.Notes, d.Source.Note(at, message))
}

// Mute suppresses further diagnostics of a node.
func (d *Document) Mute(node *yaml.Node) { d.muted[node] = true }

// Muted reports whether a node has a diagnostic already, and gets no second one.
func (d *Document) Muted(node *yaml.Node) bool { return d.muted[node] }
