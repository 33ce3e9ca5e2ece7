package fields

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var docField = limitField{
	name: "doc", synonyms: []string{"description", "comment"},
	about:     "What the limit is for: its method's doc comment, after the method's name.",
	accepts:   "text",
	example:   "bounds how fast one user can post.",
	schema:    object{"type": "string"},
	read:      func(p *parser, l *draft, e document.Entry) bool { return p.readDoc(&l.limit.Doc, e) },
	change:    ids.DocChanged,
	effective: func(l *spec.Limit) string { return l.Doc },
}

// readDoc reads the author's text. It becomes a comment in generated code, where some lines would be build constraints.
func (p *parser) readDoc(into *string, e document.Entry) bool {
	text, ok := p.doc.Text(e, "text")
	if !ok {
		return false
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
		problem := docProblem(line)
		if problem == "" {
			continue
		}
		p.doc.Report(p.docLine(e, i), ids.BadDoc, "write it in other words", "%s", problem)
		if ok = false; !isLiteral(e.Value) {
			// Errors of the other lines would have the same place.
			break
		}
	}
	*into = strings.TrimRight(strings.Join(lines, "\n"), "\n")
	return ok
}

// IsBuildLine reports whether gofmt treats a line of a comment as an old build constraint, which it moves to the top of
// the file. The line may begin with slashes.
func IsBuildLine(line string) bool {
	bare := strings.TrimLeftFunc(line, func(r rune) bool { return r == '/' || unicode.IsSpace(r) })
	return strings.HasPrefix(bare, "+build")
}

// docProblem returns the reason why a line cannot be part of a Go comment, or "".
func docProblem(line string) string {
	for _, r := range line {
		if document.Illegible(r) || r == utf8.RuneError {
			return fmt.Sprintf("doc has the character %U, which is not allowed in a Go comment", r)
		}
	}
	if IsBuildLine(line) {
		return "a line of doc cannot begin with +build, which is a build constraint in Go"
	}
	return ""
}

func isLiteral(n *yaml.Node) bool { return n.Style&yaml.LiteralStyle != 0 }

// docLine returns the place of a line of the text, or of the whole text if it is not literal.
func (p *parser) docLine(e document.Entry, i int) diag.Span {
	// The YAML reader keeps the lines of literal text only.
	if !isLiteral(e.Value) {
		return e.At
	}
	return p.doc.Source.WholeLine(min(e.Value.Line+1+i, len(p.doc.Source.Lines)))
}
