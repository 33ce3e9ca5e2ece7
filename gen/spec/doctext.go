package spec

import (
	"fmt"
	"strings"
	"unicode"
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
		lines[i] = strings.TrimRight(line, " \t")
		problem := docProblem(line)
		if problem == "" {
			continue
		}
		p.report(p.docLine(e, i), badDoc, "write it in other words", "%s", problem)
		if ok = false; !isLiteral(e.value) {
			break // the others would be reported at the same place
		}
	}
	limit.Doc = strings.TrimRight(strings.Join(lines, "\n"), "\n")
	return ok
}

// IsBuildLine reports whether gofmt takes a line of a comment for an old build constraint, and moves it to
// the top of the file. The line may have slashes of its own.
func IsBuildLine(line string) bool {
	bare := strings.TrimLeftFunc(line, func(r rune) bool { return r == '/' || unicode.IsSpace(r) })
	return strings.HasPrefix(bare, "+build")
}

// docProblem says why a line cannot be part of a Go comment; "" if it can.
func docProblem(line string) string {
	for _, r := range line {
		if Illegible(r) || r == utf8.RuneError {
			return fmt.Sprintf("doc holds the character %U, which cannot stand in a Go comment", r)
		}
	}
	if IsBuildLine(line) {
		return "a line of doc cannot begin with +build, which is an order to the Go compiler"
	}
	return ""
}

func isLiteral(n *yaml.Node) bool { return n.Style&yaml.LiteralStyle != 0 }

// docLine returns where a line of the text stands. Of a folded or a quoted text it is not known.
func (p *parser) docLine(e entry, i int) span {
	if !isLiteral(e.value) {
		return e.at
	}
	return p.src.wholeLine(min(e.value.Line+1+i, len(p.src.lines)))
}
