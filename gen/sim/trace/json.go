package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"
)

// jsonValue is a value in the JSON of a line.
type jsonValue struct {
	// text is the JSON of the value, and at its place in the line.
	text, line []byte
	at         int
}

// objectOf returns the object of a line, which must have nothing else.
func objectOf(line []byte) (jsonValue, error) {
	text := bytes.TrimLeft(line, " \t\r\n")
	v := jsonValue{text, line, len(line) - len(text)}
	if len(text) == 0 || text[0] != '{' {
		return v, v.faultf("a line must be a JSON object, not %s", v.found())
	}
	for i := v.at; !utf8.Valid(line[i:]); {
		r, size := utf8.DecodeRune(line[i:])
		if r == utf8.RuneError && size == 1 {
			return v, columnFault(line, i, "the line is not valid UTF-8")
		}
		i += size
	}
	if json.Valid(text) {
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var first json.RawMessage
	err := d.Decode(&first)
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case ok: // without its text, which quotes a character of what may be a key
		at := v.at + int(syntax.Offset) - 1
		if name, ok := invalidMember(text); ok {
			return v, columnFault(line, at, "the value of \"%s\" is not valid JSON", Clip(name, 40))
		}
		return v, columnFault(line, at, "the line is not valid JSON from here on")
	case err != nil:
		return v, columnFault(line, len(line), "the line ends before its JSON object does")
	}
	rest := bytes.TrimLeft(text[d.InputOffset():], " \t\r\n")
	after := jsonValue{rest, line, len(line) - len(rest)}
	return v, after.faultf("a line must have one JSON object; after it there is %s", after.found())
}

// invalidMember returns the name of the first member of an object that has an invalid value.
func invalidMember(text []byte) (string, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	_, err := d.Token()
	for err == nil {
		var token json.Token
		token, err = d.Token()
		name, ok := token.(string)
		if !ok {
			break
		}
		if d.Decode(new(json.RawMessage)) != nil {
			return name, true
		}
	}
	return "", false
}

// faultf returns a fault at the value. Its column counts runes.
func (v jsonValue) faultf(format string, args ...any) error {
	return columnFault(v.line, v.at, format, args...)
}

// each calls read with the members of an object or the elements of a list, which have no name. at is the place of the
// name. The text is valid JSON, see [objectOf], so that nothing is left to check: a json.Decoder would check it again, for
// every line of a trace.
func (v jsonValue) each(read func(name string, at int, member jsonValue) error) error {
	for i := skipSpace(v.text, 1); v.text[i] != '}' && v.text[i] != ']'; {
		name, at := "", i
		if v.text[0] == '{' {
			end := valueEnd(v.text, i)
			var err error
			if name, err = unquoted(v.text[i:end]); err != nil {
				return err
			}
			i = skipSpace(v.text, skipSpace(v.text, end)+1) // the colon
		}
		end := valueEnd(v.text, i)
		if err := read(name, v.at+at, jsonValue{v.text[i:end], v.line, v.at + i}); err != nil {
			return err
		}
		if i = skipSpace(v.text, end); v.text[i] == ',' {
			i = skipSpace(v.text, i+1)
		}
	}
	return nil
}

// skipSpace returns the index of the first byte that is no white space, from an index on.
func skipSpace(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n' {
		i++
	}
	return i
}

// valueEnd returns the index after a value of valid JSON.
func valueEnd(text []byte, i int) int {
	for depth := 0; ; i++ {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // after a number or a word
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
}

// unquoted returns the text of a string of JSON.
func unquoted(quoted []byte) (text string, err error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	err = json.Unmarshal(quoted, &text)
	return text, err
}

// found describes the value for a fault, without quoting it: it may be a key.
func (v jsonValue) found() string {
	if len(v.text) == 0 {
		return "the end of the line"
	}
	switch c := v.text[0]; {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == '-', IsDigit(c):
		return "a number"
	case bytes.HasPrefix(v.text, []byte("null")):
		return "null"
	case 'a' <= c|0x20 && c|0x20 <= 'z':
		return "an unquoted word"
	case bytes.HasPrefix(v.text, []byte("\uFEFF")):
		return "a byte order mark (remove it)"
	case bytes.HasPrefix(v.text, []byte("\x1f\x8b")):
		return "gzip data (decompress it first)"
	case c == ',', c == ':', c == '}', c == ']', c == '\'':
		return string(c)
	}
	return "an unexpected character"
}

// isNumber and isBoolean report the type of the value.
func (v jsonValue) isNumber() bool  { return v.text[0] == '-' || IsDigit(v.text[0]) }
func (v jsonValue) isBoolean() bool { return v.text[0] == 't' || v.text[0] == 'f' }

// What the JSON of fields must be.
const (
	aString      = "a string"
	aNumber      = "a number"
	aWholeNumber = "a whole number"
	aBoolean     = "true or false"
	aDuration    = "a duration in a string, or a number"
)

// scalar returns the text of the value of the field name, which must be one of the constants from [aString] on.
func (v jsonValue) scalar(name, must string) (string, error) {
	switch {
	case must == aString, must == aDuration && v.text[0] == '"':
		return v.str(name)
	case must == aBoolean && !v.isBoolean(), must != aBoolean && !v.isNumber():
		return "", v.faultf("%s must be %s, not %s", name, must, v.found())
	}
	return string(v.text), nil
}

// halfPair matches an escape, with a group for half of a surrogate pair.
var halfPair = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)`)

// str returns the text of a string, the value of the field name. Half of a surrogate pair is a fault, because encoding/json
// replaces it with U+FFFD, and different keys would become one.
func (v jsonValue) str(name string) (text string, err error) {
	if v.text[0] != '"' {
		return "", v.faultf("%s must be a string, not %s", name, v.found())
	}
	if text, err = unquoted(v.text); err != nil {
		return "", err
	}
	if strings.Contains(text, "\uFFFD") {
		for _, escape := range halfPair.FindAllSubmatchIndex(v.text, -1) {
			if escape[2] >= 0 {
				return "", columnFault(v.line, v.at+escape[0], "%s contains an invalid escape sequence", name)
			}
		}
	}
	return text, nil
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

// IsDigit reports whether c is a digit.
func IsDigit(c byte) bool { return '0' <= c && c <= '9' }
