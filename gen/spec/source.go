package spec

import (
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// span is a stretch of one line, in runes; end is exclusive.
type span struct{ pos, end Pos }

// source is the text of the file, and knows what stands where in it.
type source struct {
	name  string
	text  string
	lines []string
	// runes holds where each rune of a long line begins, since a file may be one line only.
	runes map[int][]int
}

func newSource(name, text string) *source {
	text = strings.TrimPrefix(text, "\uFEFF")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
	}
	return &source{name, text, lines, map[int][]int{}}
}

// line returns the text of a line, counted from 1.
func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// from returns what stands at pos and after it on its line.
func (s *source) from(pos Pos) string {
	line := s.line(pos.Line)
	if len(line) <= longLine {
		return line[len(first(line, pos.Column-1)):]
	}
	starts, ok := s.runes[pos.Line]
	if !ok {
		starts = runeStarts(line)
		s.runes[pos.Line] = starts
	}
	return line[starts[min(pos.Column-1, len(starts)-1)]:]
}

// between returns the text of a span.
func (s *source) between(at span) string { return first(s.from(at.pos), at.end.Column-at.pos.Column) }

// longLine is the length from which the runes of a line are remembered, in bytes.
const longLine = 512

// runeStarts returns the offset of each rune of a text in bytes, and the text's length.
func runeStarts(text string) []int {
	starts := make([]int, 0, len(text)+1)
	for i := range text {
		starts = append(starts, i)
	}
	return append(starts, len(text))
}

// spanning returns the span of a text that begins at pos.
func spanning(pos Pos, text string) span {
	return span{pos, Pos{pos.Line, pos.Column + utf8.RuneCountInString(text)}}
}

// blank are the characters that YAML takes for space. Unicode has more, which can be seen in a diagnostic.
const blank = " \t"

// wholeLine returns the span of a line without the space around its text.
func (s *source) wholeLine(n int) span {
	text := s.line(n)
	indent := len(text) - len(strings.TrimLeft(text, blank))
	return spanning(Pos{n, 1 + utf8.RuneCountInString(text[:indent])}, strings.Trim(text, blank))
}

// clamp returns a span on a line without text as the last line of text before it: nobody sees what is
// missing at the end of a file.
func (s *source) clamp(at span) span {
	if strings.Trim(s.line(at.pos.Line), " ") != "" {
		return at
	}
	if above := s.textAbove(at.pos.Line); above != at.pos.Line {
		return s.wholeLine(above)
	}
	return at
}

// at returns the span of a node, or of its first token if it goes on over several lines.
func (s *source) at(n *yaml.Node) span {
	if n.Line > len(s.lines) { // nothing, after a last line without a newline
		return s.wholeLine(len(s.lines))
	}
	pos := Pos{n.Line, n.Column}
	return spanning(pos, lexeme(n, s.from(pos)))
}

// lexeme returns the part of rest, which begins with the node n, that stands for n.
func lexeme(n *yaml.Node, rest string) string {
	switch {
	case n.Kind == yaml.AliasNode:
		return "*" + n.Value
	case n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || isTag(n, rest):
		return firstWord(rest)
	case beginsWithChild(n):
		return lexeme(n.Content[0], rest)
	case n.Kind != yaml.ScalarNode:
		return rest[:min(1, len(rest))]
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return quoted(rest, '"', '\\')
	case n.Style&yaml.SingleQuotedStyle != 0:
		return quoted(rest, '\'', '\'')
	case strings.HasPrefix(rest, n.Value):
		return n.Value
	}
	return strings.TrimSpace(rest)
}

// isTag reports whether rest, which begins with the node n, begins with its tag. The YAML reader says
// nothing of a tag that is a mere "!".
func isTag(n *yaml.Node, rest string) bool {
	return strings.HasPrefix(rest, "!") && !beginsWithChild(n)
}

// beginsWithChild reports whether nothing of a node stands before its first child.
func beginsWithChild(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle == 0 && len(n.Content) > 0 &&
		n.Line == n.Content[0].Line && n.Column == n.Content[0].Column
}

func firstWord(text string) string {
	if end := strings.IndexAny(text, " \t,"); end >= 0 {
		return text[:end]
	}
	return text
}

// quoted returns the quoted text that rest begins with. The rune escape takes away the meaning of a
// quote after it; in single quotes it is a quote itself.
func quoted(rest string, quote, escape byte) string {
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == escape && i+1 < len(rest) && (escape == '\\' || rest[i+1] == quote):
			i++
		case rest[i] == quote:
			return rest[:i+1]
		}
	}
	return strings.TrimRight(rest, " \t")
}
