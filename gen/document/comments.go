package document

import (
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
)

// Comments returns the text of each comment in a limits.yaml after its #, in their order; none for a file that is not YAML. The
// nodes of the YAML reader do not have all of them, and a # in a quoted text or in a text of several lines begins none.
func Comments(src []byte) (comments []string) {
	source := diag.NewSource("", string(src))
	root := New(source).root()
	if root == nil {
		return nil
	}
	texts := quotedTexts{source, map[int][]stretch{}}
	texts.add(root, 0)
	for n := 1; n <= len(source.Lines); n++ {
		line := source.Line(n)
		for i := 0; i < len(line); i++ {
			if line[i] == '#' && (i == 0 || strings.ContainsRune(" \t", rune(line[i-1]))) && !texts.contain(n, i) {
				comments = append(comments, line[i+1:])
				break
			}
		}
	}
	return comments
}

// stretch is the bytes of a line from one to before another.
type stretch struct{ from, to int }

// quotedTexts are the parts of lines that are in quotes, or in a text of several lines after | or >. In all other text, a # after
// a space begins a comment.
type quotedTexts struct {
	source    *diag.Source
	stretches map[int][]stretch
}

func (q quotedTexts) contain(line, i int) bool {
	for _, s := range q.stretches[line] {
		if s.from <= i && i < s.to {
			return true
		}
	}
	return false
}

// add adds the texts of a node in a map or a list that is indented by some columns.
func (q quotedTexts) add(n *yaml.Node, indent int) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		q.addQuoted(n)
	case n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		// A line that is indented no further than the map ends the text.
		for i := n.Line + 1; i <= len(q.source.Lines); i++ {
			line := q.source.Line(i)
			text := strings.TrimLeft(line, " ")
			if text != "" && len(line)-len(text) <= indent {
				break
			}
			q.stretches[i] = append(q.stretches[i], stretch{0, len(line)})
		}
	}
	for _, child := range n.Content {
		q.add(child, n.Column-1)
	}
}

// addQuoted adds a text from its opening quote to the closing one, which may be on a later line.
func (q quotedTexts) addQuoted(n *yaml.Node) {
	at := len(q.source.Line(n.Line)) - len(q.source.From(diag.Pos{Line: n.Line, Column: n.Column}))
	quote := q.source.Line(n.Line)[at]
	from := at
	for i, at := n.Line, at+1; i <= len(q.source.Lines); i, from, at = i+1, 0, 0 {
		line := q.source.Line(i)
		for ; at < len(line); at++ {
			switch {
			case line[at] == '\\' && quote == '"', line[at] == '\'' && quote == '\'' && strings.HasPrefix(line[at+1:], "'"):
				at++
			case line[at] == quote:
				q.stretches[i] = append(q.stretches[i], stretch{from, at + 1})
				return
			}
		}
		q.stretches[i] = append(q.stretches[i], stretch{from, len(line)})
	}
}
