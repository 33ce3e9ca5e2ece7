package diag

import (
	"cmp"
	"regexp"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/internal/printable"
)

// Pos is a place in a file. Lines and columns count from 1; columns count runes.
type Pos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Compare orders places as they are in the file.
func (p Pos) Compare(other Pos) int {
	return cmp.Or(cmp.Compare(p.Line, other.Line), cmp.Compare(p.Column, other.Column))
}

// Span is a stretch of one line, from the rune at Pos to the one before End.
type Span struct{ Pos, End Pos }

// Source is the text of the file, with the places of its parts.
type Source struct {
	Name  string
	Text  string
	Lines []string
	// runes holds the offsets of the runes of long lines. Without it, a file of one long line takes quadratic time.
	runes map[int][]int
}

// NewSource returns the source with a name for diagnostics and a text.
func NewSource(name, text string) *Source {
	// Editors do not count a byte order mark as a column.
	text = strings.TrimPrefix(text, "\uFEFF")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
	}
	return &Source{name, text, lines, map[int][]int{}}
}

// Line returns the text of a line, counted from 1.
func (s *Source) Line(n int) string {
	if n < 1 || n > len(s.Lines) {
		return ""
	}
	return s.Lines[n-1]
}

// From returns the text of a line from pos on.
func (s *Source) From(pos Pos) string {
	line := s.Line(pos.Line)
	// Short lines, which are nearly all, are not worth a table.
	if len(line) <= longLine {
		return line[len(First(line, pos.Column-1)):]
	}
	starts, ok := s.runes[pos.Line]
	if !ok {
		starts = runeStarts(line)
		s.runes[pos.Line] = starts
	}
	return line[starts[min(pos.Column-1, len(starts)-1)]:]
}

// Between returns the text of a span.
func (s *Source) Between(at Span) string { return First(s.From(at.Pos), at.End.Column-at.Pos.Column) }

// longLine is the length in bytes above which source.runes has a line.
const longLine = 512

// runeStarts returns the offset of each rune of a text in bytes, and the text's length.
func runeStarts(text string) []int {
	starts := make([]int, 0, len(text)+1)
	for i := range text {
		starts = append(starts, i)
	}
	return append(starts, len(text))
}

// Spanning returns the span of a text that begins at pos.
func Spanning(pos Pos, text string) Span {
	return Span{pos, Pos{pos.Line, pos.Column + utf8.RuneCountInString(text)}}
}

// blank are the characters that are space in YAML. Other spaces of Unicode are text, and a diagnostic shows them.
const blank = " \t"

// WholeLine returns the span of a line without the space around its text.
func (s *Source) WholeLine(n int) Span {
	text := s.Line(n)
	indent := len(text) - len(strings.TrimLeft(text, blank))
	return Spanning(Pos{n, 1 + utf8.RuneCountInString(text[:indent])}, strings.Trim(text, blank))
}

// Clamp moves a span on an empty line to the last line of text before it.
func (s *Source) Clamp(at Span) Span {
	if strings.Trim(s.Line(at.Pos.Line), " ") != "" {
		return at
	}
	if above := s.TextAbove(at.Pos.Line); above != at.Pos.Line {
		return s.WholeLine(above)
	}
	return at
}

// At returns the span of a node, or of its first token if it has several lines.
func (s *Source) At(n *yaml.Node) Span {
	// An empty value at the end of a file without a final newline is on a line that does not exist.
	if n.Line > len(s.Lines) {
		return s.WholeLine(len(s.Lines))
	}
	pos := Pos{n.Line, n.Column}
	return Spanning(pos, lexeme(n, s.From(pos)))
}

// lexeme returns the source text of the node n, where rest begins with n and may continue after it.
func lexeme(n *yaml.Node, rest string) string {
	switch {
	case n.Kind == yaml.AliasNode:
		return "*" + n.Value
	// An anchor or a tag precedes the value, and is what the diagnostics of such a node are about.
	case n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || IsTag(n, rest):
		return firstWord(rest)
	case beginsWithChild(n):
		return lexeme(n.Content[0], rest)
	case n.Kind != yaml.ScalarNode:
		return rest[:min(1, len(rest))]
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return quoted(rest, '"', '\\')
	case n.Style&yaml.SingleQuotedStyle != 0:
		return quoted(rest, '\'', '\'')
	// Plain text of one line is in the source as it is; text of several lines is not.
	case strings.HasPrefix(rest, n.Value):
		return n.Value
	}
	return strings.TrimSpace(rest)
}

// IsTag reports whether rest, which begins with the node n, begins with its tag. The YAML reader does not report the tag
// "!" as one.
func IsTag(n *yaml.Node, rest string) bool {
	return strings.HasPrefix(rest, "!") && !beginsWithChild(n)
}

// beginsWithChild reports whether a node begins where its first child does, as a block map does.
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

// quoted returns the quoted text at the beginning of rest. A quote after the escape does not end it; in single quotes,
// the escape is a quote itself.
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

// excerpt is the part of a line around a span, ready to be printed.
type excerpt struct{ Before, marked, after string }

// The most runes of a line that are shown in full, and of a longer line before, in and after the span.
const mostShown, mostBefore, mostMarked, mostAfter = 120, 60, 48, 24

// Excerpt returns the text of the line before, in and after a span.
func (s *Source) Excerpt(at Span) excerpt {
	rest := s.From(at.Pos)
	line := s.Line(at.Pos.Line)
	before := line[:len(line)-len(rest)]
	marked := First(rest, at.End.Column-at.Pos.Column)
	after := rest[len(marked):]
	if len(line) > mostShown {
		before = last(before, mostBefore)
		// The mark ends where the text is cut, and the text after it would be out of place.
		if short := First(marked, mostMarked-1); len(short) < len(marked) {
			marked, after = short+"…", ""
		}
		if short := First(after, mostAfter-1); len(short) < len(after) {
			after = short + "…"
		}
	}
	return excerpt{printable.Mask(before), printable.Mask(marked), printable.Mask(after)}
}

// Note is a message about a part of a file.
type Note struct {
	Span
	Message string
	Shown   excerpt
}

// Note returns a message about a span.
func (s *Source) Note(at Span, message string) Note { return Note{at, message, s.Excerpt(at)} }

// First returns the first n runes of a text, or all of a shorter one.
func First(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// last returns the last n runes of a text, after "…" if it has more.
func last(text string, n int) string {
	rest := text
	for range n {
		_, size := utf8.DecodeLastRuneInString(rest)
		rest = rest[:len(rest)-size]
	}
	if rest == "" {
		return text
	}
	return "…" + text[len(rest):]
}

// TextAbove returns the last line with text before line n, or n if no line has.
func (s *Source) TextAbove(n int) int {
	for i := n - 1; i > 0; i-- {
		if s.HasText(i) {
			return i
		}
	}
	return n
}

// HasText reports whether a line has more than spaces and a comment. A tab counts as text, because it can be the error.
func (s *Source) HasText(n int) bool {
	text := strings.Trim(s.Line(n), " ")
	return text != "" && !strings.HasPrefix(text, "#")
}

var (
	// IndentForm is an indentation with a character that looks like a space but is not one in YAML.
	IndentForm = regexp.MustCompile(`^[ \t]*([\x{A0}\x{1680}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}]+)`)
	// ConflictForm is a line that git writes into a merge conflict.
	ConflictForm = regexp.MustCompile(`^(<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|)( |$)|^=======$`)
)
