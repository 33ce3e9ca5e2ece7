package gen

import (
	"strings"
	"unicode"

	"github.com/dave/jennifer/jen"
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
	const byteOrderMark = '\uFEFF'
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == byteOrderMark:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// disarm returns a line that gofmt does not take for an old build constraint, which it would move to the
// top of the file.
func disarm(line string) string {
	before, after, found := strings.Cut(line, "+build")
	if found && strings.TrimLeft(before, "/ \t") == "" {
		return before + "+ build" + after
	}
	return line
}
