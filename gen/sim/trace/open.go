package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// NewReader returns the trace that r holds, which may be compressed with gzip.
func NewReader(r io.Reader) *Reader {
	return &Reader{lines: &lineReader{from: bufio.NewReaderSize(&gunzipped{raw: bufio.NewReader(r)}, maxLine)}, Late: -1}
}

// Replay calls answer with each line, in order. It calls onFault with each invalid line, and with the [*Fault] that
// answer returns. It stops at the end of the trace, or at the first error of onFault, of the reader, or of answer if
// it is not a [*Fault], and returns that error.
func (t *Reader) Replay(answer func(*Line) error, onFault func(*Fault) error) error {
	for {
		line, err := t.next()
		number := t.line.Number
		if err == nil && line != nil {
			number = line.Number
			err = answer(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err := Handled(err, number, onFault); err != nil {
			return err
		}
	}
}

// Handled passes an error to onFault if it is the [*Fault] of the line with a number, and returns any other.
func Handled(err error, number int, onFault func(*Fault) error) error {
	fault := new(Fault)
	if !errors.As(err, &fault) {
		return err
	}
	fault.Line = number // a fault of answer does not have it yet
	return onFault(fault)
}

// next returns the next line in order of time, or nil for one that Only skips or that is held to be put in order.
func (t *Reader) next() (*Line, error) {
	if !t.begun {
		if err := t.begin(); err != nil {
			return nil, err
		}
	}
	late := t.lateness()
	if late == 0 {
		return t.parsed(0)
	}
	until := t.last - int64(late)
	if t.ended {
		until = t.last
	}
	if line := t.late.pop(until); line != nil {
		return line, nil
	}
	if t.ended {
		return nil, io.EOF
	}
	line, err := t.parsed(late)
	switch {
	case errors.Is(err, io.EOF):
		t.ended = true
		return nil, nil
	case err == nil && line != nil:
		t.late.push(line)
	}
	return nil, err
}

// lateness returns how far out of order the lines may be.
func (t *Reader) lateness() time.Duration {
	switch {
	case t.Late >= 0:
		return t.Late
	case t.layout != nil:
		return DefaultLate
	}
	return 0
}

// parsed returns the next line as it is read.
func (t *Reader) parsed(late time.Duration) (*Line, error) {
	text, err := t.first, error(nil)
	if t.first = nil; text == nil {
		text, err = t.lines.next()
	}
	l := &t.line
	l.known = t.Units
	if l.Number = t.lines.number; err != nil {
		return nil, err
	}
	if t.layout == nil {
		err = l.Parse(text)
	} else {
		err = t.parseLog(text)
	}
	if err != nil {
		return nil, err
	}
	if !l.hasLimit {
		l.Limit = t.Default
	}
	if l.Plan == "" {
		l.Plan = t.DefaultPlan
	}
	l.Limit, l.Plan = cmp.Or(t.Renamed[l.Limit], l.Limit), cmp.Or(t.RenamedPlans[l.Plan], l.Plan)
	switch {
	case l.Reserve && l.Op != runtime.Take:
		return nil, Faultf("only the verb allow can reserve")
	case t.Only != "" && l.Limit != t.Only: // before the checks below, which do not concern the lines of other limits
		t.LeftOut++
		return nil, nil
	case !l.hasLimit && t.Default == "":
		return nil, Faultf("the line has no field limit; add it, or name the limit of all such lines with -limit")
	case l.At < t.last-int64(late) && late > 0:
		return nil, Faultf("at is %v earlier than on line %d, more than the %v that -late allows; sort the trace by time",
			time.Duration(t.last-l.At), t.lastLine, late)
	case l.At < t.last-int64(late):
		return nil, Faultf("at is %v earlier than on line %d; sort the trace by time", time.Duration(t.last-l.At), t.lastLine)
	}
	if l.At >= t.last {
		t.last, t.lastLine = l.At, l.Number
	}
	return l, nil
}

// parseLog reads a line of a log by its layout. It keeps the number of the line.
func (t *Reader) parseLog(text []byte) error {
	l := &t.line
	*l = Line{Number: l.Number, Key: l.Key[:0], KeyTypes: l.KeyTypes[:0], Units: l.Units[:0], Count: 1}
	clear(t.values)
	if err := t.layout.read(text, t.values); err != nil {
		return err
	}
	for i, v := range t.values {
		entry := t.mapping.entries[i]
		if v.text == nil {
			if entry.field == fieldAt || entry.field == fieldKey {
				return Faultf("the line has no value for %s, which is its field %s", fields[entry.field].name, Clip(entry.name, 40))
			}
			continue
		}
		var reason string
		unit := Unit{Name: entry.unit}
		if entry.field == fieldUnit {
			unit.N, reason = unitOf(entry.unit, string(v.text))
		} else {
			reason = t.setField(entry.field, v.text)
		}
		var fault *Fault
		if reason != "" {
			fault = Faultf("%s, in its field %s", reason, Clip(entry.name, 40))
			if v.at >= 0 {
				fault = columnFault(text, v.at, "%s", fault.Reason)
			}
		}
		switch {
		case entry.field == fieldUnit:
			unit.Fault = fault
			l.Units = append(l.Units, unit)
		case fault != nil:
			return fault
		}
	}
	return nil
}

// setField sets a field of the line to a value of a log. It returns the fault, without the value: it may be a key.
func (t *Reader) setField(field int, text []byte) (reason string) {
	l := &t.line
	if field != fieldAt && !utf8.Valid(text) {
		return fields[field].name + " is not valid UTF-8"
	}
	switch field {
	case fieldAt:
		l.At, reason = t.times.instant(text)
	case fieldKey:
		l.Key, l.KeyTypes = append(l.Key, string(text)), append(l.KeyTypes, jsonString)
	default:
		reason = l.set(field, string(text))
	}
	return reason
}

// begin finds the format of the trace by its first line, and how to read it. It keeps the line if it is a request.
func (t *Reader) begin() error {
	text, err := t.lines.next()
	if text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")); err == nil && len(text) == 0 {
		text, err = t.lines.next() // a byte order mark alone is no line
	}
	if t.line.Number = t.lines.number; err != nil {
		return err // a line that is too long is skipped: the next one is then the first
	}
	t.begun = true
	m, names := t.Map, accessNames(text)
	columns, separator := t.csvColumns(text)
	var known []string
	var layoutOf func(Mapping) (layout, error)
	switch {
	case t.isRequest(text):
		t.first = text
		return nil
	case text[0] == '{':
		t.first, known = text, memberNames(text)
		layoutOf = func(m Mapping) (layout, error) { return newJSONLayout(m), nil }
	case len(names) > 0:
		t.first, known = text, append(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" }), requestNames...)
		layoutOf = func(m Mapping) (layout, error) { return newAccessLayout(m, names, known) }
	case len(columns) > 0:
		if known = columns; m.Empty() {
			m = named(columns, t.Units)
		}
		layoutOf = func(m Mapping) (layout, error) { return newCSVLayout(m, columns, separator, t.lines) }
	case m.Empty():
		t.first = text // the fault says what a line must be
		return nil
	case text[0] == '[':
		return mappingErrorf("the trace begins with a JSON list; write its objects one per line: jq -c '.[]'")
	default:
		return mappingErrorf("the first line is not JSON, not of an access log, and no header of CSV with a name in -map or a usual name of the time")
	}
	if t.mapping, err = m.completed(t.AddressKey, known); err != nil {
		return err
	}
	t.values = make([]value, len(t.mapping.entries))
	t.layout, err = layoutOf(t.mapping)
	return err
}

// isRequest reports whether a first line is one of the package's own traces, also if it has no time: the fault says so.
func (t *Reader) isRequest(text []byte) bool {
	names := memberNames(text)
	return text[0] == '{' && t.Map.Empty() && (hasAny(names, []string{"at", "limit", "key"}) || !hasAny(names, timeNames))
}

// csvColumns returns the names of the columns and the separator, if a first line is probably the header of CSV.
func (t *Reader) csvColumns(text []byte) (names []string, separator byte) {
	names, separator, err := csvHeader(text)
	mapped := slices.ContainsFunc(t.Map.entries, func(e mapEntry) bool { return slices.Contains(names, e.name) })
	if err != nil || bytes.ContainsAny(text[:1], "[{") || !mapped && (len(names) < 2 || !hasAny(names, timeNames)) {
		return nil, 0
	}
	return names, separator
}

func hasAny(names, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(name string) bool { return slices.Contains(names, name) })
}
