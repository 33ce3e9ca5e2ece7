package sim

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string, the value of the field name. The result is only good until the line is gone.
func (s *scanner) str(name string) ([]byte, error) {
	if s.next() != '"' {
		return nil, s.wrongf(s.at, "%s must be a string, not %s", name, s.what())
	}
	start := s.at + 1
	ascii := true
	for i := start; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			s.at = i + 1
			if !ascii && !utf8.Valid(s.text[start:i]) {
				return nil, s.wrongf(start, "%s is not valid UTF-8", name)
			}
			return s.text[start:i], nil
		case c == '\\':
			return s.escaped(name, start)
		case c < ' ':
			return nil, s.wrongf(i, "%s has a control character in it; write it as \\u%04x", name, c)
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, s.wrongf(s.at, "%s is a string without an end", name)
}

// escaped reads a string with escapes, which begins at start.
func (s *scanner) escaped(name string, start int) ([]byte, error) {
	out := make([]byte, 0, 64)
	for i := start; i < len(s.text); {
		switch c := s.text[i]; {
		case c == '"':
			s.at = i + 1
			if !utf8.Valid(out) {
				return nil, s.wrongf(start, "%s is not valid UTF-8", name)
			}
			return out, nil
		case c < ' ':
			return nil, s.wrongf(i, "%s has a control character in it; write it as \\u%04x", name, c)
		case c != '\\':
			out = append(out, c)
			i++
		default:
			r, n := unescape(s.text[i:])
			if n == 0 {
				return nil, s.wrongf(i, "%s has an escape in it that stands for no character", name)
			}
			out = utf8.AppendRune(out, r)
			i += n
		}
	}
	return nil, s.wrongf(s.at, "%s is a string without an end", name)
}

// plainEscapes are the escapes of one letter, and what they stand for.
var plainEscapes = map[byte]rune{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// unescape returns the rune of the escape that text begins with, and its length; 0 if it is none. Half of a
// surrogate pair is none.
func unescape(text []byte) (r rune, n int) {
	if len(text) < 2 {
		return 0, 0
	}
	if r, ok := plainEscapes[text[1]]; ok {
		return r, 2
	}
	first, ok := codeUnit(text)
	switch {
	case !ok:
		return 0, 0
	case !utf16.IsSurrogate(first):
		return first, 6
	}
	second, ok := codeUnit(text[6:])
	if r = utf16.DecodeRune(first, second); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// codeUnit reads an escape of the form \u0041.
func codeUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:6] {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}
