package gen

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
)

// declare writes a declaration below its comment, after an empty line.
func declare(file *jen.File, doc string, declaration *jen.Statement) {
	file.Line()
	comment(file.Group, doc)
	file.Add(declaration)
}

// comment writes a text above the declaration that follows, as line comments.
func comment(g *jen.Group, text string) {
	// For a text of several lines, jennifer would write a block comment, which */ in the text ends.
	for _, line := range commentLines(text) {
		g.Comment(line)
	}
}

// commentLines returns a text as line comments. Whatever the text is, no line is a directive or ends the comment.
func commentLines(text string) []string {
	lines := strings.Split(strings.TrimRight(harmless(text), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight("// "+disarm(line), " \t")
	}
	return lines
}

// harmless drops the characters that Go refuses in a comment, or that show it in another order than the compiler reads it.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if document.Illegible(r) && r != '\n' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// disarm changes a line that gofmt treats as an old build constraint, and would move to the top of the file.
func disarm(line string) string {
	if fields.IsBuildLine(line) {
		// The space is the smallest change that gofmt does not move.
		return strings.Replace(line, "+", "+ ", 1)
	}
	return line
}

// onePerLine is a literal with one element per line. The literals of jennifer with a Dict would sort the elements.
var onePerLine = jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}

// oneLine is a body in the line of its function.
func oneLine(body ...jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "{", Close: "}"}, body...)
}

// withContext is the first parameter of methods that reach the store:
//
//	ctx context.Context
func withContext() *jen.Statement { return jen.Id("ctx").Qual("context", "Context") }
