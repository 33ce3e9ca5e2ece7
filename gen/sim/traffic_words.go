package sim

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
)

// TrafficError says what is wrong with the text of a [Traffic].
type TrafficError struct {
	// Text is the whole text.
	Text string
	// Column is where in it, counted in runes from 1.
	Column int
	// Problem is what is wrong there.
	Problem string
}

// Error is the problem, and below it the text with a caret under the place.
func (e *TrafficError) Error() string {
	before := string([]rune(e.Text)[:e.Column-1])
	return fmt.Sprintf("%s\n  %s\n  %s^", e.Problem, e.Text, cells.Blank(before))
}

// word is a word of a text, or ";".
type word struct {
	text   string
	column int
}

// wordsOf splits a text. The last word is empty: the end.
func wordsOf(text string) []word {
	var words []word
	for i, column := 0, 1; i < len(text); {
		n := strings.IndexFunc(text[i:], func(r rune) bool { return r == ';' || unicode.IsSpace(r) })
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case n < 0:
			n = len(text) - i
		case n == 0:
			n = size
		}
		if !unicode.IsSpace(r) {
			words = append(words, word{text[i : i+n], column})
		}
		column += utf8.RuneCountInString(text[i : i+n])
		i += n
	}
	return append(words, word{"", 1 + utf8.RuneCountInString(strings.TrimRightFunc(text, unicode.IsSpace))})
}
