package spec

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// describe says what a node is, in the words of someone who wrote it.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	case n.Tag == "!!int", n.Tag == "!!float":
		return "the number " + clip(n.Value)
	case n.Tag == "!!timestamp":
		return "the date " + clip(n.Value)
	case n.Tag == "!!bool":
		return n.Value
	}
	return quote(n.Value)
}

// longest is how many runes of the file a message repeats at a time.
const longest = 48

func clip(text string) string {
	if utf8.RuneCountInString(text) <= longest {
		return text
	}
	return string([]rune(text)[:longest-1]) + "…"
}

// label returns a name from the file as it is if it is a word, and otherwise in quotes.
func label(name string) string {
	if identifierForm.MatchString(name) {
		return clip(name)
	}
	return quote(name)
}

// quote returns a text in quotes, and names a letter in it that looks like an ASCII letter and is none.
func quote(text string) string {
	quoted := strconv.Quote(clip(text))
	if r, at, ok := lookAlike(text); ok {
		quoted += fmt.Sprintf(" (character %d is %U)", at, r)
	}
	return quoted
}

// lookAlike returns the first letter of another script in a text that has ASCII letters too, and which
// character of the text it is, counted from 1.
func lookAlike(text string) (r rune, at int, ok bool) {
	if strings.IndexFunc(text, func(r rune) bool { return r < utf8.RuneSelf && unicode.IsLetter(r) }) < 0 {
		return 0, 0, false
	}
	for _, r := range text {
		if at++; r >= utf8.RuneSelf && unicode.IsLetter(r) && (!unicode.Is(unicode.Latin, r) || r >= '\uFF00') {
			return r, at, true
		}
	}
	return 0, 0, false
}
