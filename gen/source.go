package gen

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
)

// qualified matches a name of another package or of a field, and a text in quotes, which has none.
var qualified = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\b(\w+)\.(\w+)`)

// fill returns Go source in which each part, such as $Method, is replaced by the text after it in parts. $l is the receiver of all
// methods.
func (n names) fill(source string, parts ...string) string {
	return strings.NewReplacer(append(parts, "$l", n.receiver)...).Replace(source)
}

// code returns Go source for the printer. Lines that begin with // are comments.
func (n names) code(source string) jen.Code {
	// Without separators, because gofmt takes a comment for a doc comment only if no space follows.
	return jen.CustomFunc(jen.Options{}, func(g *jen.Group) {
		for line := range strings.Lines(source) {
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
		if at[2] < 0 {
			continue
		}
		if from := n.packages[line[at[2]:at[3]]]; from != "" {
			g.Op(line[last:at[0]])
			g.Qual(from, line[at[4]:at[5]])
			last = at[1]
		}
	}
	return line[last:]
}

// onePerLine is a literal with one element per line, after its type. Elements that are empty are left out.
func onePerLine(of string, elements ...string) string {
	return of + "{\n" + strings.Join(slices.DeleteFunc(elements, func(e string) bool { return e == "" }), ",\n") + ",\n}"
}

// quotedField is a field with a text, or "" without one.
func quotedField(name, text string) string {
	if text == "" {
		return ""
	}
	return name + ": " + strconv.Quote(text)
}

// comment returns a text as line comments above a declaration. A block comment would end at a */ in the text.
func comment(text string) string { return strings.Join(commentLines(text), "\n") }

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
		if fields.Illegible(r) && r != '\n' {
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
