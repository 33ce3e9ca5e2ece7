package spec

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"
)

// document is the text of one file, with the errors found in it.
type document struct {
	src   *source
	found Diagnostics
	// limit is the name of the current limit, for messages.
	limit string
	// muted holds the nodes that have a diagnostic already and get no second one.
	muted map[*yaml.Node]bool
}

// report adds a diagnostic. The help may be empty. The message is one line without control characters, whatever the file
// contains.
func (p *document) report(at span, broken *Rule, help, format string, args ...any) {
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

// full reports whether further diagnostics are only counted.
func (p *document) full() bool { return len(p.found) >= maxDiagnostics }

// nearest is [Nearest] for the replacements of a diagnostic that was just reported, unless it is only counted: a file can
// have as many wrong names as right ones.
func (p *document) nearest(text string, words func() []string) string {
	if len(p.found) > maxDiagnostics {
		return ""
	}
	return Nearest(text, words())
}

// meant offers replacements for the text of the last diagnostic, the likeliest first. Empty offers, and those that are
// too long to read, are dropped.
func (p *document) meant(offers ...string) {
	p.found[len(p.found)-1].meant = slices.DeleteFunc(offers, func(text string) bool {
		return text == "" || clip(text) != text
	})
}

// note adds a second place to the last diagnostic.
func (p *document) note(at span, message string) {
	last := &p.found[len(p.found)-1]
	// The diagnostic may be only counted, and a field with an error has no place.
	if last.Message == "" || at.pos == (Pos{}) {
		return
	}
	last.Notes = append(last.Notes, Note{at.pos, at.end, message, p.src.excerpt(at)})
}

// mute suppresses further diagnostics of a node.
func (p *document) mute(node *yaml.Node) {
	if p.muted == nil {
		p.muted = map[*yaml.Node]bool{}
	}
	p.muted[node] = true
}
