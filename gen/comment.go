package gen

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// comment writes a text above the declaration that follows, one line comment a line.
func comment(file *jen.File, text string) {
	for _, line := range commentLines(text) {
		file.Comment(line)
	}
}

// commentLines returns a text as line comments. Whatever the text is, they are comments and nothing more:
// none is an order to the compiler, and none ends early.
func commentLines(text string) []string {
	lines := strings.Split(strings.TrimRight(harmless(text), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight("// "+disarm(line), " \t")
	}
	return lines
}

// harmless drops the characters that Go refuses in a comment, or that make it look other than it is.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if spec.Illegible(r) && r != '\n' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// disarm returns a line that gofmt does not take for an old build constraint, which it would move to the
// top of the file.
func disarm(line string) string {
	if spec.IsBuildLine(line) {
		return strings.Replace(line, "+", "+ ", 1)
	}
	return line
}
