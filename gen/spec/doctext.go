package spec

import (
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// doc reads the author's text. It ends up in comments of generated code, where some lines would be orders
// to the compiler.
func (p *parser) doc(limit *Limit, e entry) bool {
	text, ok := p.text(e, "text")
	if !ok {
		return false
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
	for i, line := range lines {
		if problem := docProblem(line); problem != "" {
			p.report(p.docLine(e, i), badDoc, "write it in other words", "%s", problem)
			ok = false
		}
		lines[i] = strings.TrimRight(line, " \t")
	}
	limit.Doc = strings.TrimRight(strings.Join(lines, "\n"), "\n")
	return ok
}

// directives are what no line of the text may begin with, with or without slashes of its own.
var directives = []string{"+build", "go:"}

// docProblem says why a line cannot be part of a Go comment; "" if it can.
func docProblem(line string) string {
	for _, r := range line {
		if illegible(r) || r == utf8.RuneError {
			return "doc holds a character that cannot stand in a Go comment"
		}
	}
	bare := strings.TrimLeft(line, "/ \t")
	for _, directive := range directives {
		if strings.HasPrefix(bare, directive) {
			return "a line of doc cannot begin with " + directive + ", which is an order to the Go compiler"
		}
	}
	return ""
}

// docLine returns where a line of the text stands. Of a folded or a quoted text it is not known.
func (p *parser) docLine(e entry, i int) span {
	if e.value.Style&yaml.LiteralStyle == 0 {
		return e.at
	}
	return p.src.wholeLine(min(e.value.Line+1+i, len(p.src.lines)))
}
