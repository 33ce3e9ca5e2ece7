package sim

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// field is a field that a line can have.
type field struct {
	name string
	// answer says that a line is read with it because it was answered before; it means nothing then.
	answer bool
}

// fields are in the order in which they are written. The first five are the request, the next four its answer, and
// the last four that of the old side of a comparison.
var fields = [...]field{
	{name: "at"}, {name: "limit"}, {name: "key"}, {name: "count"}, {name: "reserve"},
	{name: "allowed", answer: true}, {name: "retryAfterMs", answer: true}, {name: "remaining", answer: true}, {name: "value", answer: true},
	{name: "oldAllowed", answer: true}, {name: "oldRetryAfterMs", answer: true}, {name: "oldRemaining", answer: true}, {name: "oldValue", answer: true},
}

// The fields of a request, and the first of each answer, as they stand in fields.
const (
	fieldAt = iota
	fieldLimit
	fieldKey
	fieldCount
	fieldReserve
	fieldAllowed
	fieldOldAllowed = fieldAllowed + 4
)

// extra skips a field that a line need not have, such as one of a log that means nothing here. If it is spelled
// like a field of a request, it is a fault of lines that do not have that one.
func (s *scanner) extra(name string, start int) error {
	for i, f := range fields[:fieldReserve+1] {
		if s.misspelt[i] == nil && nearly(name, f.name) {
			s.misspelt[i] = s.wrongf(start, "there is no field \"%s\"; did you mean %s?", shown(name, 40), f.name)
		}
	}
	if !s.take(':') {
		return s.wrongf(s.at, "there must be a colon after \"%s\", not %s", shown(name, 40), s.what())
	}
	return s.skip(name)
}

// nearly reports whether a name is another one but for its case, or for one letter that is missing, doubled,
// wrong or swapped with the next; of short names any letter makes another name.
func nearly(name, field string) bool {
	name = strings.ToLower(name)
	if name == field || len(field) < len("limit") || name == "" || name[0] != field[0] {
		return name == field
	}
	n := 0
	for n < min(len(name), len(field)) && name[n] == field[n] {
		n++
	}
	a, b := name[n:], field[n:]
	switch len(a) - len(b) {
	case -1:
		return a == b[1:]
	case 1:
		return a[1:] == b
	case 0:
		return a[1:] == b[1:] || len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
	}
	return false
}

// skip skips any JSON value, that of the field name.
func (s *scanner) skip(name string) error {
	s.next()
	start, depth, inString := s.at, 0, false
	end := start
scan:
	for ; end < len(s.text); end++ {
		switch c := s.text[end]; {
		case inString && c == '\\':
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
		return s.wrongf(start, "the value of \"%s\" is not JSON", shown(name, 40))
	}
	s.at = end
	return nil
}

// parseValue reads the value of field i.
func (l *Line) parseValue(s *scanner, i int) (err error) {
	name := fields[i].name
	switch i {
	case fieldAt:
		l.At, err = s.instant()
	case fieldLimit:
		var text []byte
		text, err = s.str(name)
		l.Limit = string(text)
	case fieldKey:
		err = s.key(l)
	case fieldCount:
		l.Count, err = s.integer(name)
	case fieldReserve:
		l.Reserve, err = s.boolean(name)
	case fieldAllowed, fieldOldAllowed:
		_, err = s.boolean(name)
	default:
		err = s.number(name)
	}
	return err
}

// form is how a part of a key is written.
type form byte

const (
	asText form = iota
	asNumber
	asBool
)

// key reads the key of a line: one part, or a list of them.
func (s *scanner) key(l *Line) error {
	if s.next() != '[' {
		return s.part(l, "key", "key must be a string, a number, true or false, or a list of them")
	}
	s.at++
	if s.take(']') {
		return nil
	}
	for {
		if err := s.part(l, "a part of the key", "a part of the key must be a string, a number, true or false"); err != nil {
			return err
		}
		switch {
		case s.take(','):
		case s.take(']'):
			return nil
		default:
			return s.wrongf(s.at, "there must be a comma or ] here, not %s", s.what())
		}
	}
}

// part reads a part of a key, as text. must says what it can be.
func (s *scanner) part(l *Line, name, must string) (err error) {
	c := s.next()
	start, as := s.at, asText
	var text []byte
	switch {
	case c == '"':
		text, err = s.str(name)
	case c == '-', isDigit(c):
		as, err = asNumber, s.number(name)
		text = s.text[start:s.at]
	case c == 't', c == 'f':
		as = asBool
		_, err = s.boolean(name)
		text = s.text[start:s.at]
	default:
		return s.wrongf(start, "%s, not %s", must, s.what())
	}
	l.Key, l.forms = append(l.Key, string(text)), append(l.forms, as)
	return err
}
