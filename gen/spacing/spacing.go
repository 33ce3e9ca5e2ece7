// Package spacing gives a limits.yaml uniform spacing: two spaces for each level, one after a colon or a comma, at most one
// empty line in a row, and one space before a comment, unless comments of lines in a row are aligned.
//
// The fields keep their order, and texts their form. An order of its own would move lines whose comments belong to them in
// the eyes of the author only, and an approval of an edit must stay beside it. The reader of YAML cannot print what it has
// read, because it drops empty lines and quotes: this package takes the places of the texts from it, and changes nothing but
// the gaps between them.
package spacing

import (
	"errors"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
)

// Uniform returns the text of a valid limits.yaml with uniform spacing, which has the same values and comments. It returns
// an error if it finds none, because of a form of YAML that people do not write.
func Uniform(src []byte) ([]byte, error) {
	source := diag.NewSource("", string(src))
	if last := len(source.Lines) - 1; source.Lines[last] == "" {
		source.Lines = source.Lines[:last]
	}
	text := strings.Join(source.Lines, "\n") + "\n"
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	f := &layout{Source: source, columns: make([]int, len(source.Lines)), entry: make([]bool, len(source.Lines))}
	f.scan(root, level{-1, -2})
	formatted := f.print()
	if again, err := parse(formatted); err != nil || !equal(root, again) || !slices.Equal(comments(text), comments(formatted)) {
		return nil, errors.New("the spacing cannot be changed without a change of the meaning")
	}
	return []byte(formatted), nil
}

func parse(text string) (*yaml.Node, error) {
	var file yaml.Node
	if err := yaml.Unmarshal([]byte(text), &file); err != nil || len(file.Content) == 0 {
		return nil, errors.Join(errors.New("not a YAML document"), err)
	}
	return file.Content[0], nil
}

// equal reports whether nodes have the same values.
func equal(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, equal)
}

func comments(text string) (list []string) {
	for _, comment := range document.Comments([]byte(text)) {
		list = append(list, strings.TrimRight(comment, blank))
	}
	return list
}
