package spec

import (
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// excerpt is the part of a line around a span, ready to be printed.
type excerpt struct{ before, marked, after string }

// The most runes of a line that are shown as they are, and of a longer one before, in and after the span.
const mostShown, mostBefore, mostMarked, mostAfter = 120, 60, 48, 24

// excerpt returns what stands on the line before, in and after a span.
func (s *source) excerpt(at span) excerpt {
	rest := s.from(at.pos)
	line := s.line(at.pos.Line)
	before := line[:len(line)-len(rest)]
	marked := first(rest, at.end.Column-at.pos.Column)
	after := rest[len(marked):]
	if len(line) > mostShown {
		before = last(before, mostBefore)
		if short := first(marked, mostMarked-1); len(short) < len(marked) {
			marked, after = short+"…", ""
		}
		if short := first(after, mostAfter-1); len(short) < len(after) {
			after = short + "…"
		}
	}
	return excerpt{printable.Mask(before), printable.Mask(marked), printable.Mask(after)}
}

// first returns the first n runes of a text.
func first(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// last returns the last n runes of a text, with a sign if there are more.
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
