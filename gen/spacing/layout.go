package spacing

import (
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"gopkg.in/yaml.v3"
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

// text is a scalar: from a byte of a line to before one of a line.
type text struct {
	line, from, endLine, end int
	// block means the lines of a text after | or >, indent is their indentation, and shift by how much they move to the right.
	block         bool
	indent, shift int
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
	rest := f.From(diag.Pos{Line: n.Line, Column: n.Column})
	t := text{line: n.Line - 1, from: len(f.Lines[n.Line-1]) - len(rest)}
	switch {
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		t.endLine, t.end = f.endOfQuoted(t.line, t.from)
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		header := rest[:len(rest)-len(strings.TrimLeft(rest, "|>+-0123456789"))]
		t.endLine, t.end = t.line, t.from+len(header)
		f.texts = append(f.texts, t)
		t = f.blockAfter(t.line, header, around)
	default:
		t.endLine, t.end = f.endOfPlain(t.line, t.from, n.Value)
	}
	f.texts = append(f.texts, t)
}

func (f *layout) endOfQuoted(line, from int) (int, int) {
	quote := f.Lines[line][from]
	for i := from + 1; line < len(f.Lines); line, i = line+1, 0 {
		for ; i < len(f.Lines[line]); i++ {
			switch c := f.Lines[line][i]; {
			case c == '\\' && quote == '"', c == '\'' && quote == c && strings.HasPrefix(f.Lines[line][i+1:], "'"):
				i++
			case c == quote:
				return line, i + 1
			}
		}
	}
	return line, 0
}

// endOfPlain finds the words of a text without quotes, which may be on several lines.
func (f *layout) endOfPlain(line, i int, value string) (int, int) {
	for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == '\n' || strings.ContainsRune(blank, r) }) {
		for line < len(f.Lines)-1 && strings.TrimLeft(f.Lines[line][i:], blank) == "" {
			line, i = line+1, 0
		}
		rest := f.Lines[line][i:]
		i = min(len(f.Lines[line]), i+len(rest)-len(strings.TrimLeft(rest, blank))+len(word))
	}
	return line, i
}

// blockAfter returns the lines of the text after a header: those that are indented further than the block that it is in, with the
// empty ones between them, and those after them too if the header has a +.
func (f *layout) blockAfter(line int, header string, around level) text {
	t := text{line: line + 1, endLine: line, block: true}
	for i := t.line; i < len(f.Lines); i++ {
		empty := strings.Trim(f.Lines[i], " ") == ""
		if !empty && indentOf(f.Lines[i]) <= around.before {
			break
		}
		if !empty && t.indent == 0 {
			t.indent = indentOf(f.Lines[i])
		}
		if !empty || strings.Contains(header, "+") || t.indent > 0 && len(f.Lines[i]) > t.indent {
			t.endLine = i
		}
	}
	t.shift = around.now + 2 - t.indent
	if strings.ContainsAny(header, "123456789") { // which says how far it is indented
		t.shift = around.now - around.before
	}
	return t
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
