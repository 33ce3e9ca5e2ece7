package sim

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner parses the JSON of a line. encoding/json would accept duplicate fields and names in any case, and allocate
// for every line.
type scanner struct {
	text []byte
	at   int
	// misspelt has, for each field of a request, the fault of an unknown field that looks like a typo of it.
	misspelt [fieldReserve + 1]error
}

// faultf returns a fault at the byte from, whose column counts runes.
func (s *scanner) faultf(from int, format string, args ...any) error {
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

// take skips white space, and then c if it is next. It reports whether it was.
func (s *scanner) take(c byte) bool {
	if s.next() != c || s.at == len(s.text) { // at the end, next returns 0 as for a NUL
		return false
	}
	s.at++
	return true
}

// found describes the next value for a fault, without quoting it: it may be a key.
func (s *scanner) found() string {
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
		return "a byte order mark (remove it)"
	case bytes.HasPrefix(rest, []byte("\x1f\x8b")):
		return "gzip data (decompress it first)"
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
	// A minus sign without digits is a wrong number, and not a wrong type.
	case end == start && c != '-' && !isDigit(c):
		return 0, s.faultf(start, "%s must be a whole number, not %s", name, s.found())
	case end == start, s.fractional():
		return 0, s.faultf(start, "%s must be a whole number in plain digits, such as 100", name)
	}
	n, err := strconv.ParseInt(string(s.text[start:s.at]), 10, 64)
	if err != nil {
		return 0, s.faultf(start, "%s is too large", name)
	}
	return n, nil
}

// fractional reports whether a number goes on with a fraction or an exponent.
func (s *scanner) fractional() bool {
	return s.at < len(s.text) && (s.text[s.at] == '.' || s.text[s.at]|0x20 == 'e')
}

// digits skips the whole part of a number, and returns its end. It skips nothing if that is not a JSON number.
func (s *scanner) digits() int {
	end := s.at
	if end < len(s.text) && s.text[end] == '-' {
		end++
	}
	first := end
	for end < len(s.text) && isDigit(s.text[end]) {
		end++
	}
	if first == end || s.text[first] == '0' && end > first+1 { // JSON does not allow 01
		return s.at
	}
	s.at = end
	return end
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// numberForm is the syntax of a JSON number.
var numberForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// number skips a number, the value of the field name.
func (s *scanner) number(name string) error {
	s.next()
	start, end := s.at, s.at
	// Take every character of numbers, so that the fault is about 1.2.3 and not about the .3 after 1.2.
	for end < len(s.text) && (isDigit(s.text[end]) || bytes.IndexByte([]byte("-+.eE"), s.text[end]) >= 0) {
		end++
	}
	switch {
	case end == start:
		return s.faultf(start, "%s must be a number, not %s", name, s.found())
	case !numberForm.Match(s.text[start:end]):
		return s.faultf(start, "%s is not a valid JSON number", name)
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
	return false, s.faultf(s.at, "%s must be true or false, not %s", name, s.found())
}

// str reads a string, the value of the field name. The result is valid as long as the line.
func (s *scanner) str(name string) ([]byte, error) {
	if s.next() != '"' {
		return nil, s.faultf(s.at, "%s must be a string, not %s", name, s.found())
	}
	start := s.at + 1
	ascii := true
	for i := start; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			s.at = i + 1
			if !ascii && !utf8.Valid(s.text[start:i]) {
				return nil, s.faultf(start, "%s is not valid UTF-8", name)
			}
			return s.text[start:i], nil
		case c == '\\': // only a string with escapes needs memory of its own
			return s.escaped(name, start)
		case c < ' ':
			return nil, s.control(name, i)
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, s.unterminated(name)
}

// escaped reads a string with escapes that begins at start.
func (s *scanner) escaped(name string, start int) ([]byte, error) {
	out := make([]byte, 0, 64)
	for i := start; i < len(s.text); {
		switch c := s.text[i]; {
		case c == '"':
			s.at = i + 1
			if !utf8.Valid(out) {
				return nil, s.faultf(start, "%s is not valid UTF-8", name)
			}
			return out, nil
		case c < ' ':
			return nil, s.control(name, i)
		case c != '\\':
			out = append(out, c)
			i++
		default:
			r, n := unescape(s.text[i:])
			if n == 0 {
				return nil, s.faultf(i, "%s contains an invalid escape sequence", name)
			}
			out = utf8.AppendRune(out, r)
			i += n
		}
	}
	return nil, s.unterminated(name)
}

func (s *scanner) control(name string, at int) error {
	return s.faultf(at, "%s contains a control character; write it as \\u%04x", name, s.text[at])
}

func (s *scanner) unterminated(name string) error {
	return s.faultf(s.at, "%s is a string without a closing quote", name)
}

// plainEscapes are the escapes of one letter.
var plainEscapes = map[byte]rune{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// unescape decodes the escape at the beginning of text, and returns its length in bytes, 0 if it is invalid. Half of a
// surrogate pair is invalid: replaced with U+FFFD, as encoding/json does, different keys would become one.
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
	// A character above U+FFFF is written as two escapes, each with one half of a surrogate pair.
	second, ok := codeUnit(text[6:])
	if r = utf16.DecodeRune(first, second); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// codeUnit decodes an escape of the form \u0041.
func codeUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

// skipUnknown skips the value of a field that has no meaning here, as those of a log. It keeps a fault in misspelt if
// the name looks like a typo.
func (s *scanner) skipUnknown(name string, start int) error {
	for i, f := range fields[:fieldReserve+1] {
		if s.misspelt[i] == nil && isTypo(name, f.name) {
			s.misspelt[i] = s.faultf(start, "unknown field \"%s\" (did you mean %s?)", clip(name, 40), f.name)
		}
	}
	if !s.take(':') {
		return s.faultf(s.at, "expected a colon after \"%s\", found %s", clip(name, 40), s.found())
	}
	return s.skip(name)
}

// isTypo reports whether a name differs from a field in case only, or by one letter that is missing, added, wrong or
// swapped with the next.
func isTypo(name, field string) bool {
	name = strings.ToLower(name)
	// One letter turns at or key into many other words, such as "as": short names may only differ in case.
	if name == field || len(field) < len("limit") || name == "" || name[0] != field[0] {
		return name == field
	}
	n := 0
	for n < min(len(name), len(field)) && name[n] == field[n] {
		n++
	}
	a, b := name[n:], field[n:]
	switch len(a) - len(b) {
	case -1: // a letter is missing
		return a == b[1:]
	case 1: // a letter is added
		return a[1:] == b
	case 0: // a letter is wrong, or two are swapped
		return a[1:] == b[1:] || len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
	}
	return false
}

// skip skips any JSON value, the value of the field name.
func (s *scanner) skip(name string) error {
	s.next()
	start, depth, inString := s.at, 0, false
	end := start
	// Find the end by its brackets and quotes alone; json.Valid checks everything between them.
scan:
	for ; end < len(s.text); end++ {
		switch c := s.text[end]; {
		case inString && c == '\\': // skip the escaped byte, which may be a quote
			end++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth == 0 && (c == '}' || c == ']' || c == ','):
			break scan
		}
	}
	value := s.text[start:min(end, len(s.text))]
	if !json.Valid(value) || !utf8.Valid(value) {
		return s.faultf(start, "the value of \"%s\" is not valid JSON", clip(name, 40))
	}
	s.at = end
	return nil
}

// members reads the members of an object, of which there is one at least, up to the closing brace.
func (s *scanner) members(read func() error) error {
	for {
		if err := read(); err != nil {
			return err
		}
		switch {
		case s.take(','):
		case s.take('}'):
			return nil
		default:
			return s.faultf(s.at, "expected a comma or }, found %s", s.found())
		}
	}
}
