package gen

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// docOf returns the text of a method's doc comment: what the author wrote, the rule in words, and what it
// comes to in the worst case.
func docOf(l *spec.Limit) string {
	rule := strings.Join(append(l.Words(), l.WorstCase()), "\n")
	switch author := strings.TrimSpace(l.Doc); {
	case author == "":
		return l.GoName + " is bounded by this rule.\n\n" + rule
	case strings.HasPrefix(author, "Deprecated:"):
		return l.GoName + " is bounded by this rule.\n\n" + rule + "\n\n" + author
	default:
		return named(l.GoName, author) + "\n\n" + rule
	}
}

// named makes a doc comment of an author's text, as Go wants it: one that begins with the name.
func named(name, text string) string {
	first, _ := utf8.DecodeRuneInString(text)
	switch {
	case beginsWithWord(text, name):
		return text
	case unicode.IsLower(first):
		return name + " " + text
	}
	return name + ": " + text
}

func beginsWithWord(text, word string) bool {
	rest, ok := strings.CutPrefix(text, word)
	next, _ := utf8.DecodeRuneInString(rest)
	return ok && !unicode.IsLetter(next) && !unicode.IsDigit(next) && next != '_'
}
