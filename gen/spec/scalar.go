package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"gopkg.in/yaml.v3"
)

func isString(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!str" }

// text returns the value of a field that must be text, or reports that it is something else.
func (p *parser) text(e entry, want string) (string, bool) {
	if isString(e.value) {
		return e.value.Value, true
	}
	p.wrongType(e, want, "")
	return "", false
}

// oneOf returns the word that stands there of those that may.
func oneOf[T fmt.Stringer](e entry, words []T) (word T, ok bool) {
	i := slices.IndexFunc(words, func(w T) bool { return isString(e.value) && e.value.Value == w.String() })
	if i < 0 {
		return word, false
	}
	return words[i], true
}

// inWords returns words as they are written in a file.
func inWords[T fmt.Stringer](words []T) []string {
	written := make([]string, len(words))
	for i, w := range words {
		written[i] = w.String()
	}
	return written
}

// readWord puts one of the words that a field takes into the noun and returns true, or reports that it is none, with
// id, and which one was probably meant. Others are what it is called elsewhere.
func readWord[T fmt.Stringer](p *parser, e entry, id string, known []T, others map[string]T, into *T) (ok bool) {
	if *into, ok = oneOf(e, known); !ok {
		p.report(e.at, id, "", "%s must be %s, not %s", e.name, words.List(inWords(known), "or"), describe(e.value))
		p.meant(meantWord(e.value.Value, known, others))
	}
	return ok
}

// meantWord returns which of the words was probably meant by text: one that it contains, the one for which others
// say it, or a near one; "" if nothing comes near.
func meantWord[T fmt.Stringer](text string, words []T, others map[string]T) string {
	text = strings.ToLower(text)
	for _, w := range words {
		if strings.Contains(text, w.String()) {
			return w.String()
		}
	}
	if w, ok := others[text]; ok {
		return w.String()
	}
	return Nearest(text, inWords(words))
}

// wrongType reports a value that is not even of the sort that is wanted.
func (p *parser) wrongType(e entry, want, help string) {
	p.report(e.at, wrongType, help, "%s must be %s, not %s", e.name, want, describe(e.value))
}
