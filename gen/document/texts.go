package document

import (
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
)

// blank are the characters that separate words.
const blank = " \t"

// Text is the place of a scalar: from a byte of a line to before one of a line. Its lines count from 0.
type Text struct {
	Line, From, EndLine, End int
	// Block means the lines of a text after | or >, and Indent is their indentation. Counted means that the header says how far
	// they are indented.
	Block, Counted bool
	Indent         int
}

// In returns the bytes of the text in a line.
func (t Text) In(line int, text string) (from, end int) {
	if t.Block || t.EndLine > line {
		end = len(text)
	} else {
		end = t.End
	}
	if !t.Block && t.Line == line {
		from = t.From
	}
	return from, end
}

// TextsOf returns the place of a scalar in a block whose entries are indented by some columns: one, or for a text after | or
// > that of the header, and then that of its lines. The nodes of the YAML reader have no ends.
func TextsOf(source *diag.Source, n *yaml.Node, indent int) []Text {
	rest := source.From(diag.Pos{Line: n.Line, Column: n.Column})
	t := Text{Line: n.Line - 1, From: len(source.Lines[n.Line-1]) - len(rest)}
	switch {
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		t.EndLine, t.End = endOfQuoted(source.Lines, t.Line, t.From)
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		header := rest[:len(rest)-len(strings.TrimLeft(rest, "|>+-0123456789"))]
		t.EndLine, t.End = t.Line, t.From+len(header)
		return []Text{t, blockAfter(source.Lines, t.Line, header, indent)}
	default:
		t.EndLine, t.End = endOfPlain(source.Lines, t.Line, t.From, n.Value)
	}
	return []Text{t}
}

func endOfQuoted(lines []string, line, from int) (int, int) {
	quote := lines[line][from]
	for i := from + 1; line < len(lines); line, i = line+1, 0 {
		for ; i < len(lines[line]); i++ {
			switch c := lines[line][i]; {
			case c == '\\' && quote == '"', c == '\'' && quote == c && strings.HasPrefix(lines[line][i+1:], "'"):
				i++
			case c == quote:
				return line, i + 1
			}
		}
	}
	return line, 0
}

// endOfPlain finds the words of a text without quotes, which may be on several lines.
func endOfPlain(lines []string, line, i int, value string) (int, int) {
	for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == '\n' || strings.ContainsRune(blank, r) }) {
		for line < len(lines)-1 && strings.TrimLeft(lines[line][i:], blank) == "" {
			line, i = line+1, 0
		}
		rest := lines[line][i:]
		i = min(len(lines[line]), i+len(rest)-len(strings.TrimLeft(rest, blank))+len(word))
	}
	return line, i
}

// blockAfter returns the lines of the text after a header: those that are indented further than the block that it is in,
// with the empty ones between them, and those after them too if the header has a +.
func blockAfter(lines []string, line int, header string, indent int) Text {
	t := Text{Line: line + 1, EndLine: line, Block: true, Counted: strings.ContainsAny(header, "123456789")}
	for i := t.Line; i < len(lines); i++ {
		own := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
		empty := own == len(lines[i])
		if !empty && own <= indent {
			break
		}
		if !empty && t.Indent == 0 {
			t.Indent = own
		}
		if !empty || strings.Contains(header, "+") || t.Indent > 0 && len(lines[i]) > t.Indent {
			t.EndLine = i
		}
	}
	return t
}
