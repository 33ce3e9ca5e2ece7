package sim

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
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
	for {
		if err := l.member(s, names, depth, values); err != nil {
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
		if s.digits(); s.fractional() {
			s.at = v.at
			err = s.number(name)
		}
		v.text = s.text[v.at:s.at]
		if len(v.text) == 0 {
			err = s.faultf(v.at, "%s is not a valid JSON number", name)
		}
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
	start := s.at
	switch c := s.next(); {
	case c == '"':
		if _, ok := s.plain(); ok {
			return nil
		}
	case isDigit(c):
		if s.digits(); s.at > start && !s.fractional() {
			return nil
		}
		s.at = start
	}
	return s.skip(string(name))
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

// logField is a field of an access log: a word, or a text in quotes or brackets.
type logField struct {
	text    []byte
	at      int
	bracket bool
}

// splitAccess splits a line of an access log. In quotes, servers write a backslash before a quote; other escapes stay as
// they are.
func splitAccess(text []byte, list []logField) ([]logField, error) {
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case ' ':
			i++
		case '"':
			end := closingQuote(text, i+1)
			if end < 0 {
				return list, columnFault(text, i, "a quoted field without a closing quote")
			}
			list = append(list, logField{text: text[i+1 : end], at: i})
			i = end + 1
		case '[':
			end := bytes.IndexByte(text[i:], ']')
			if end < 0 {
				return list, columnFault(text, i, "a field in brackets without a closing bracket")
			}
			list = append(list, logField{text[i+1 : i+end], i, true})
			i += end + 1
		default:
			end := bytes.IndexByte(text[i:], ' ')
			if end < 0 {
				end = len(text) - i
			}
			list = append(list, logField{text: text[i : i+end], at: i})
			i += end
		}
	}
	return list, nil
}

// closingQuote returns the index of the quote that ends a text, or -1.
func closingQuote(text []byte, from int) int {
	for i := from; i < len(text); {
		end := bytes.IndexByte(text[i:], '"')
		if end < 0 {
			return -1
		}
		escapes := 0
		for j := i + end - 1; j >= from && text[j] == '\\'; j-- {
			escapes++
		}
		if i += end; escapes%2 == 0 {
			return i
		}
		i++
	}
	return -1
}

// columnFault is a fault at the byte at.
func columnFault(text []byte, at int, format string, args ...any) *Fault {
	f := faultf(format, args...)
	f.Column = 1 + utf8.RuneCount(text[:at])
	return f
}

// The names of the fields of access logs. Those of the common and combined formats are the variables of nginx; the last
// is what nginx writes after them in its default configuration.
var (
	nginxNames = []string{"remote_addr", "", "remote_user", "time_local", "request", "status", "body_bytes_sent",
		"http_referer", "http_user_agent", "http_x_forwarded_for"}
	envoyNames = []string{"start_time", "request", "response_code", "response_flags", "bytes_received", "bytes_sent", "duration",
		"upstream_service_time", "x_forwarded_for", "user_agent", "request_id", "authority", "upstream_host"}
	istioNames = []string{"start_time", "request", "response_code", "response_flags", "response_code_details",
		"connection_termination_details", "upstream_transport_failure_reason", "bytes_received", "bytes_sent", "duration",
		"upstream_service_time", "x_forwarded_for", "user_agent", "request_id", "authority", "upstream_host",
		"upstream_cluster", "upstream_local_address", "downstream_local_address", "downstream_remote_address",
		"requested_server_name", "route_name"}
	// requestNames are the words of the field request; path is its address up to the question mark.
	requestNames = []string{"method", "path", "protocol"}
)

// accessNames returns the names of the fields that an access log has, by its first line; none if it is no access log.
func accessNames(text []byte) []string {
	list, err := splitAccess(text, nil)
	if err != nil {
		return nil
	}
	switch at := slices.IndexFunc(list, func(t logField) bool { return t.bracket }); {
	case at == 0 && len(list) >= len(istioNames):
		return istioNames
	case at == 0 && len(list) >= 4:
		return envoyNames[:min(len(list), len(envoyNames))]
	case at == 3 && len(list) > 4:
		return nginxNames[:min(len(list), len(nginxNames))]
	case at == 4 && len(list) > 5: // the name of the server comes first
		return append([]string{"server_name"}, nginxNames[:min(len(list)-1, len(nginxNames))]...)
	}
	return nil
}

// accessLayout reads access logs.
type accessLayout struct {
	// indexes has for each value its field, counted from 0, and parts which word of it, counted from 1; 0 for all.
	indexes, parts []int
	least          int
	names          []string
	split          []logField
}

func newAccessLayout(m Mapping, names []string) (*accessLayout, error) {
	l := &accessLayout{names: names}
	for _, e := range m.entries {
		index, word := slices.Index(names, e.name), 0
		if n, err := strconv.Atoi(e.name); err == nil && n > 0 {
			index = n - 1
		} else if word = 1 + slices.Index(requestNames, e.name); word > 0 {
			index = slices.Index(names, "request")
		}
		if index < 0 {
			known := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
			return nil, mappingErrorf("the access log has no field %s; %s, and numbers from 1", clip(e.name, 40), listed(append(known, requestNames...)))
		}
		l.indexes, l.parts = append(l.indexes, index), append(l.parts, word)
		l.least = max(l.least, index+1)
	}
	return l, nil
}

func (l *accessLayout) read(text []byte, values []value) (err error) {
	if l.split, err = splitAccess(text, l.split[:0]); err != nil {
		return err
	}
	if len(l.split) < l.least {
		return faultf("the line has %s; it needs at least %d", words.Count(int64(len(l.split)), "field"), l.least)
	}
	if at := slices.IndexFunc(l.names, func(name string) bool { return name == "time_local" || name == "start_time" }); !l.split[min(at, len(l.split)-1)].bracket {
		return faultf("field %d is not a time in brackets, as in the first line", at+1)
	}
	for i, index := range l.indexes {
		t := l.split[index]
		if word := l.parts[i]; word > 0 {
			t.text = wordOfRequest(t.text, word)
		}
		if string(t.text) != "-" && len(t.text) > 0 { // servers write - for what they do not have
			values[i] = value{t.text, t.at}
		}
	}
	return nil
}

// wordOfRequest returns the method, the path without its query, or the protocol of "GET /a?b HTTP/1.1".
func wordOfRequest(request []byte, word int) []byte {
	method, rest, _ := bytes.Cut(request, []byte(" "))
	if word == 1 {
		return method
	}
	target, protocol, _ := bytes.Cut(rest, []byte(" "))
	if word == 3 {
		return protocol
	}
	path, _, _ := bytes.Cut(target, []byte("?"))
	return path
}

// csvLayout reads CSV.
type csvLayout struct {
	columns   []int
	width     int
	separator byte
	lines     *lineReader
	cells     []value
	joined    []byte
}

// csvHeader returns the names of the columns, and the separator.
func csvHeader(text []byte) (names []string, separator byte, err error) {
	separator, most := byte(','), 0
	for _, c := range []byte(",;\t") {
		if n := bytes.Count(text, []byte{c}); n > most {
			separator, most = c, n
		}
	}
	cells, _, err := splitCSV(text, separator, nil)
	for _, cell := range cells {
		names = append(names, strings.TrimSpace(string(cell.text)))
	}
	return names, separator, err
}

func newCSVLayout(m Mapping, names []string, separator byte, lines *lineReader) (*csvLayout, error) {
	l := &csvLayout{width: len(names), separator: separator, lines: lines}
	for _, e := range m.entries {
		i := slices.Index(names, e.name)
		if i < 0 {
			return nil, mappingErrorf("the CSV has no column %s; %s", clip(e.name, 40), listed(names))
		}
		if slices.Contains(names[i+1:], e.name) {
			return nil, mappingErrorf("the CSV has two columns %s", clip(e.name, 40))
		}
		l.columns = append(l.columns, i)
	}
	return l, nil
}

func (l *csvLayout) read(text []byte, values []value) (err error) {
	var complete bool
	if l.cells, complete, err = splitCSV(text, l.separator, l.cells[:0]); err == nil && !complete {
		if text, err = l.join(text); err != nil {
			return err
		}
		l.cells, complete, err = splitCSV(text, l.separator, l.cells[:0])
		for i := range l.cells {
			l.cells[i].at = -1
		}
	}
	switch {
	case err != nil:
		return err
	case !complete:
		return faultf("a quoted field without a closing quote")
	case len(l.cells) != l.width:
		return faultf("the row has %s; the first line has %d", words.Count(int64(len(l.cells)), "field"), l.width)
	}
	for i, column := range l.columns {
		if cell := l.cells[column]; len(cell.text) > 0 {
			values[i] = cell
		}
	}
	return nil
}

// join returns a row with the lines after it, up to the one in which its quoted field ends.
func (l *csvLayout) join(text []byte) ([]byte, error) {
	l.joined = append(l.joined[:0], text...)
	for len(l.joined) < maxLine {
		line, err := l.lines.nextRaw()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		l.joined = append(append(l.joined, '\n'), line...)
		if bytes.Count(line, []byte{'"'})%2 == 1 || err != nil {
			return bytes.TrimRight(l.joined, " \t\r\n"), nil
		}
	}
	return nil, faultf("a quoted field does not end within 1 MiB")
}

// splitCSV splits a row, as RFC 4180 describes. It is not complete if a quoted field does not end.
func splitCSV(text []byte, separator byte, cells []value) (_ []value, complete bool, err error) {
	for i := 0; ; {
		if i < len(text) && text[i] == '"' {
			cell, end, err := quotedCell(text, i)
			if err != nil || end < 0 {
				return cells, false, err
			}
			if i = end; i < len(text) && text[i] != separator {
				return cells, true, columnFault(text, i, "expected a separator after a quoted field")
			}
			cells = append(cells, cell)
		} else {
			end := bytes.IndexByte(text[i:], separator)
			if end < 0 {
				end = len(text) - i
			}
			cell := text[i : i+end]
			if at := bytes.IndexByte(cell, '"'); at >= 0 {
				return cells, true, columnFault(text, i+at, "a quote in a field without quotes; put the field in quotes, and write the quote twice")
			}
			cells = append(cells, value{cell, i})
			i += end
		}
		if i == len(text) {
			return cells, true, nil
		}
		i++
	}
}

// quotedCell reads a quoted field that begins at from, and returns the end, or -1 if it does not end.
func quotedCell(text []byte, from int) (cell value, end int, err error) {
	var unescaped []byte // only a field with quotes needs memory of its own
	start := from + 1
	for i := start; ; {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return value{}, -1, nil
		}
		if i += n; i+1 == len(text) || text[i+1] != '"' {
			cell := text[start:i]
			if unescaped != nil {
				cell = append(unescaped, cell...)
			}
			return value{cell, from}, i + 1, nil
		}
		unescaped = append(unescaped, text[start:i+1]...)
		i += 2
		start = i
	}
}
