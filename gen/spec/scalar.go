package spec

import (
	"fmt"
	"slices"

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

// wrongType reports a value that is not even of the sort that is wanted.
func (p *parser) wrongType(e entry, want, help string) {
	p.report(e.at, wrongType, help, "%s must be %s, not %s", e.name, want, describe(e.value))
}
