package sim

import "strings"

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

// requestFields lists the fields of a request in words.
var requestFields = func() string {
	var names []string
	for _, f := range fields[:fieldReserve] {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ") + " and " + fields[fieldReserve].name
}()

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
		l.Key, err = s.key(l.Key)
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

// key reads a string or a list of strings, and appends them to parts.
func (s *scanner) key(parts []string) ([]string, error) {
	switch c := s.next(); {
	case c == '[':
		s.at++
	case c == '"':
		part, err := s.str("key")
		return append(parts, string(part)), err
	default:
		return parts, s.wrongf(s.at, "key must be a string or a list of strings, not %s", s.what())
	}
	if s.take(']') {
		return parts, nil
	}
	for {
		part, err := s.str("a part of the key")
		if err != nil {
			return parts, err
		}
		parts = append(parts, string(part))
		switch {
		case s.take(','):
		case s.take(']'):
			return parts, nil
		default:
			return parts, s.wrongf(s.at, "there must be a comma or ] here, not %s", s.what())
		}
	}
}
