package sim

import (
	"bytes"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// scanner reads the JSON of a line, strictly, and only the forms that a line can have.
type scanner struct {
	text []byte
	at   int
	// misspelt holds, for each field of a request, the fault of an unknown field that is spelled like it.
	misspelt [fieldReserve + 1]error
}

// wrongf returns a fault at the byte from.
func (s *scanner) wrongf(from int, format string, args ...any) error {
	f := faultf(format, args...)
	f.Column = 1 + utf8.RuneCount(s.text[:from])
	return f
}

// next skips white space and returns the byte after it, 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take skips white space, and c if it comes after it.
func (s *scanner) take(c byte) bool {
	if s.next() != c || s.at == len(s.text) {
		return false
	}
	s.at++
	return true
}

// what says what comes next, without repeating it.
func (s *scanner) what() string {
	c := s.next()
	rest := s.text[s.at:]
	switch {
	case len(rest) == 0:
		return "the end of the line"
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == '-', isDigit(c):
		return "a number"
	case bytes.HasPrefix(rest, []byte("null")):
		return "null"
	case 'a' <= c|0x20 && c|0x20 <= 'z':
		return "an unquoted word"
	case bytes.HasPrefix(rest, []byte("\uFEFF")):
		return "a byte order mark"
	case bytes.HasPrefix(rest, []byte("\x1f\x8b")):
		return "compressed data"
	case c == ',', c == ':', c == '}', c == ']', c == '\'':
		return string(c)
	}
	return "an unexpected character"
}

// integer reads a whole number, the value of the field name.
func (s *scanner) integer(name string) (int64, error) {
	c := s.next()
	start := s.at
	switch end := s.digits(); {
	case end == start && c != '-' && !isDigit(c):
		return 0, s.wrongf(start, "%s must be a whole number, not %s", name, s.what())
	case end == start, s.fractional():
		return 0, s.wrongf(start, "%s must be a whole number in plain digits", name)
	}
	n, err := strconv.ParseInt(string(s.text[start:s.at]), 10, 64)
	if err != nil {
		return 0, s.wrongf(start, "%s is too large a number", name)
	}
	return n, nil
}

// fractional reports whether what comes next would go on with a number.
func (s *scanner) fractional() bool {
	return s.at < len(s.text) && (s.text[s.at] == '.' || s.text[s.at]|0x20 == 'e')
}

// digits skips the whole part of a number, and returns its end. Nothing is skipped if there is none.
func (s *scanner) digits() int {
	end := s.at
	if end < len(s.text) && s.text[end] == '-' {
		end++
	}
	first := end
	for end < len(s.text) && isDigit(s.text[end]) {
		end++
	}
	if first == end || s.text[first] == '0' && end > first+1 {
		return s.at
	}
	s.at = end
	return end
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// numberForm is a number as JSON writes it.
var numberForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// number skips a number, the value of the field name.
func (s *scanner) number(name string) error {
	s.next()
	start, end := s.at, s.at
	for end < len(s.text) && (isDigit(s.text[end]) || bytes.IndexByte([]byte("-+.eE"), s.text[end]) >= 0) {
		end++
	}
	switch {
	case end == start:
		return s.wrongf(start, "%s must be a number, not %s", name, s.what())
	case !numberForm.Match(s.text[start:end]):
		return s.wrongf(start, "%s must be a number as JSON writes it", name)
	}
	s.at = end
	return nil
}

// boolean reads true or false, the value of the field name.
func (s *scanner) boolean(name string) (bool, error) {
	s.next()
	for _, word := range []string{"false", "true"} {
		if end := s.at + len(word); end <= len(s.text) && string(s.text[s.at:end]) == word {
			s.at = end
			return word == "true", nil
		}
	}
	return false, s.wrongf(s.at, "%s must be true or false, not %s", name, s.what())
}
