package spacing

import (
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
)

// blank are the characters that separate words.
const blank = " \t"

// layout has the lines of a file, with the facts about them. Here, lines count from 0.
type layout struct {
	*diag.Source
	// texts are the stretches that stay as they are, in order.
	texts []text
	// entry reports for each line whether it begins with an entry of a block, and columns has the new column of that.
	entry   []bool
	columns []int
}

// text is the place of a scalar, and shift is by how much the lines of one after | or > move to the right.
type text struct {
	document.Text
	shift int
}

// level is the column of the entries of a block, before and now.
type level struct{ before, now int }

// scan finds the texts and the entries of a node in a block.
func (f *layout) scan(n *yaml.Node, around level) {
	switch own := (level{n.Column - 1, around.now + 2}); {
	case n.Kind == yaml.ScalarNode && n.Line <= len(f.Lines):
		f.scanText(n, around)
	case n.Style&yaml.FlowStyle != 0:
		for _, child := range n.Content {
			f.scan(child, around)
		}
	case n.Kind == yaml.MappingNode:
		for i, child := range n.Content {
			if i%2 == 0 {
				f.begin(child.Line-1, child.Column-1, own.now)
			}
			f.scan(child, own)
		}
	case n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			line := n.Line - 1
			if i > 0 { // the item may begin on a line after its dash
				for line = min(item.Line, len(f.Lines)) - 1; line > n.Line-1 && !f.hasDash(line, own.before); line-- {
				}
			}
			f.begin(line, own.before, own.now)
			f.scan(item, own)
		}
	}
}

func (f *layout) hasDash(line, column int) bool {
	return indentOf(f.Lines[line]) == column && strings.HasPrefix(f.Lines[line][column:], "-")
}

// begin sets the new column of the entry at a column of a line, if that begins the line.
func (f *layout) begin(line, column, now int) {
	if line < len(f.Lines) && indentOf(f.Lines[line]) == column {
		f.entry[line], f.columns[line] = true, now
	}
}

func (f *layout) scanText(n *yaml.Node, around level) {
	for _, t := range document.TextsOf(f.Source, n, around.before) {
		shift := around.now + 2 - t.Indent
		if t.Counted {
			shift = around.now - around.before
		}
		f.texts = append(f.texts, text{t, shift})
	}
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
