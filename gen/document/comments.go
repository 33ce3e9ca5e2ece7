package document

import (
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
)

// Comments returns the text of each comment in a limits.yaml after its #, in their order; none for a file that is not YAML.
// The nodes of the YAML reader do not have all of them. Outside of the texts of values, a # begins one after a space, a
// quote, a bracket, a comma or a colon.
func Comments(src []byte) (comments []string) {
	source := diag.NewSource("", string(src))
	root := New(source).root()
	if root == nil {
		return nil
	}
	texts := map[int][]Text{}
	addTexts(texts, source, root, -1)
	for n, line := range source.Lines {
		for i := 0; i < len(line); i++ {
			if line[i] == '#' && (i == 0 || strings.IndexByte(blank+`"'{}[],:`, line[i-1]) >= 0) && !inText(texts[n], n, i, line) {
				comments = append(comments, line[i+1:])
				break
			}
		}
	}
	return comments
}

// addTexts adds the texts of a node in a block whose entries are indented by some columns to the lines that they are in.
func addTexts(lines map[int][]Text, source *diag.Source, n *yaml.Node, indent int) {
	if n.Kind == yaml.ScalarNode && n.Line <= len(source.Lines) {
		for _, t := range TextsOf(source, n, indent) {
			for i := t.Line; i <= t.EndLine; i++ {
				lines[i] = append(lines[i], t)
			}
		}
	}
	for _, child := range n.Content {
		addTexts(lines, source, child, n.Column-1)
	}
}

func inText(texts []Text, n, at int, line string) bool {
	for _, t := range texts {
		if from, end := t.In(n, line); from <= at && at < end {
			return true
		}
	}
	return false
}
