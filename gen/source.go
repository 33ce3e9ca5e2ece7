package gen

import (
	"regexp"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
)

// qualified matches a name of another package, or of a field.
var qualified = regexp.MustCompile(`\b(\w+)\.(\w+)`)

// source returns Go source as code that imports the packages in it. Each part, such as $l, is followed by the text that it
// stands for. Lines that begin with // are comments.
func (n names) source(text string, parts ...string) jen.Code {
	// Without separators, because gofmt takes a comment for a doc comment only if no space follows.
	return jen.CustomFunc(jen.Options{}, func(g *jen.Group) {
		for line := range strings.Lines(strings.NewReplacer(append(parts, "$l", n.receiver)...).Replace(text)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "//") {
				line = n.importing(g, line)
			}
			g.Op(line)
		}
	})
}

// importing adds a line up to its last name of a package, and returns the rest. The printer imports only the packages of
// names that it is given apart.
func (n names) importing(g *jen.Group, line string) string {
	last := 0
	for _, at := range qualified.FindAllStringSubmatchIndex(line, -1) {
		if from := n.packages[line[at[2]:at[3]]]; from != "" {
			g.Op(line[last:at[0]])
			g.Qual(from, line[at[4]:at[5]])
			last = at[1]
		}
	}
	return line[last:]
}

// comment writes a text above the declaration that follows, as line comments.
func comment(file *jen.File, text string) {
	// For a text of several lines, jennifer would write a block comment, which */ in the text ends.
	for _, line := range commentLines(text) {
		file.Comment(line)
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
