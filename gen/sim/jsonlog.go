package sim

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// jsonLayout reads logs with a JSON object per line.
type jsonLayout struct {
	names []string
	// shown are the names as faults have them.
	shown []string
	// inner has, for each depth of nested objects, the rests of the names below it; "" for a name of another object.
	inner [][]string
}

func newJSONLayout(m Mapping) *jsonLayout {
	l := &jsonLayout{}
	depth := 0
	for _, e := range m.entries {
		l.names, l.shown = append(l.names, e.name), append(l.shown, clip(e.name, 40))
		depth = max(depth, strings.Count(e.name, "."))
	}
	for range depth {
		l.inner = append(l.inner, make([]string, len(l.names)))
	}
	return l
}

func (l *jsonLayout) read(text []byte, values []value) error {
	s := scanner{text: text}
	if s.next() != '{' {
		return s.faultf(s.at, "a line must be a JSON object, not %s", s.found())
	}
	if err := l.object(&s, l.names, 0, values); err != nil {
		return err
	}
	if s.next(); s.at < len(text) {
		return s.faultf(s.at, "a line must have one JSON object; after it there is %s", s.found())
	}
	return nil
}

// object reads an object, in which names has the names or rests of names of the values.
func (l *jsonLayout) object(s *scanner, names []string, depth int, values []value) error {
	s.take('{')
	if s.take('}') {
		return nil
	}
	return s.members(func() error { return l.member(s, names, depth, values) })
}

func (l *jsonLayout) member(s *scanner, names []string, depth int, values []value) error {
	s.next()
	start := s.at
	name, ok := []byte(nil), false
	if s.at < len(s.text) && s.text[s.at] == '"' {
		name, ok = s.plain()
	}
	if !ok {
		var err error
		if name, err = s.str("the name of a field"); err != nil {
			return err
		}
	}
	if !s.take(':') {
		return s.faultf(s.at, "expected a colon after \"%s\", found %s", clip(string(name), 40), s.found())
	}
	found, nested := -1, false
	for i, wanted := range names {
		switch {
		case wanted == "":
		case string(name) == wanted:
			found = i
		case len(wanted) > len(name) && wanted[len(name)] == '.' && wanted[:len(name)] == string(name):
			nested = true
		}
	}
	c := s.next()
	switch {
	case nested && c == '{':
		inner := l.inner[depth]
		for i, wanted := range names {
			inner[i] = ""
			if len(wanted) > len(name) && wanted[len(name)] == '.' && wanted[:len(name)] == string(name) {
				inner[i] = wanted[len(name)+1:]
			}
		}
		return l.object(s, inner, depth+1, values)
	case found < 0:
		return s.skipPlain(name)
	}
	v, err := s.plainValue(l.shown[found])
	if err != nil {
		return err
	}
	for i, wanted := range names { // several fields of a request may have one name
		if wanted != string(name) || wanted == "" {
			continue
		}
		if values[i].text != nil {
			return s.faultf(start, "%s is given twice", l.shown[i])
		}
		values[i] = v
	}
	return nil
}

// plainValue reads a string, number or boolean; null is an absent value.
func (s *scanner) plainValue(name string) (v value, err error) {
	c := s.next()
	v.at = s.at
	switch {
	case c == '"':
		var ok bool
		if v.text, ok = s.plain(); !ok {
			v.text, err = s.str(name)
		}
		if v.text == nil {
			v.text = []byte{}
		}
	case c == '-', isDigit(c):
		if !s.decimal() {
			err = s.number(name)
		}
		v.text = s.text[v.at:s.at]
	case c == 't', c == 'f':
		_, err = s.boolean(name)
		v.text = s.text[v.at:s.at]
	case bytes.HasPrefix(s.text[s.at:], []byte("null")):
		s.at += len("null")
	default:
		err = s.faultf(v.at, "%s must be a string, a number, true or false, not %s", name, s.found())
	}
	return v, err
}

// skipPlain skips a value like skip, and the values that most fields of logs have without its search.
func (s *scanner) skipPlain(name []byte) error {
	switch c := s.next(); {
	case c == '"':
		if _, ok := s.plain(); ok {
			return nil
		}
	case c == '-', isDigit(c):
		if s.decimal() {
			return nil
		}
	}
	return s.skip(string(name))
}

// decimal reads a number without an exponent. Otherwise it reads nothing.
func (s *scanner) decimal() bool {
	start := s.at
	if s.digits(); s.at > start && s.at < len(s.text) && s.text[s.at] == '.' {
		point := s.at
		for s.at++; s.at < len(s.text) && isDigit(s.text[s.at]); s.at++ {
		}
		if s.at == point+1 {
			s.at = start
			return false
		}
	}
	if s.at > start && (s.at == len(s.text) || bytes.IndexByte([]byte(",}] \t"), s.text[s.at]) >= 0) {
		return true
	}
	s.at = start
	return false
}

// plain reads a string like str if it has only ASCII, and neither escapes nor control characters. Otherwise it reads
// nothing.
func (s *scanner) plain() ([]byte, bool) {
	start := s.at + 1
	n := bytes.IndexByte(s.text[start:], '"')
	if n < 0 || !isPlain(s.text[start:start+n]) {
		return nil, false
	}
	s.at = start + n + 1
	return s.text[start : start+n], true
}

// isPlain reports whether the text of a string is itself: without escapes, control characters and others than ASCII.
// It reads eight bytes at a time, because logs consist of such strings.
func isPlain(text []byte) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		w := binary.LittleEndian.Uint64(text)
		backslash := w ^ '\\'*ones // has a zero byte for each of them
		if (w|(w-' '*ones)|(backslash-ones)&^backslash)&high != 0 {
			return false
		}
	}
	for _, c := range text {
		if c < ' ' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// memberNames returns the names of the fields of a JSON object, and of the objects in it with dots; those before the
// fault if it is not valid.
func memberNames(text []byte) (names []string) {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, _ := d.Token(); open != json.Delim('{') {
		return nil
	}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		var raw json.RawMessage
		if err != nil || !ok || d.Decode(&raw) != nil {
			break
		}
		if raw[0] != '{' {
			names = append(names, name)
			continue
		}
		for _, inner := range memberNames(raw) {
			names = append(names, name+"."+inner)
		}
	}
	return names
}
