// Package dense writes the JSON of golden files in few lines.
package dense

import (
	"bytes"
	"encoding/json"
	"regexp"
	"unicode/utf8"
)

// innermost is an object or a list, indented, whose values are each on one line.
var innermost = regexp.MustCompile(`([\[{])\n((?: *[^\n]*[^\[{\n]\n)*?) *([\]}])`)

var lineBreak = regexp.MustCompile(`\n *`)

// JSON returns indented JSON with each object and list of at most 150 characters on a line. [Indent] is its inverse.
func JSON(indented []byte) []byte {
	for {
		next := innermost.ReplaceAllFunc(indented, func(value []byte) []byte {
			inner := bytes.TrimSpace(value[1 : len(value)-1])
			line := lineBreak.ReplaceAll(inner, []byte(" "))
			if utf8.RuneCount(line) > 150 {
				return value
			}
			return append(append(value[:1:1], line...), value[len(value)-1])
		})
		if bytes.Equal(next, indented) {
			return next
		}
		indented = next
	}
}

// Indent returns the JSON as the encoder indents it.
func Indent(text []byte) ([]byte, error) {
	var out bytes.Buffer
	err := json.Indent(&out, text, "", "  ")
	return out.Bytes(), err
}
