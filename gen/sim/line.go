package sim

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Line is a request of a trace. It is valid until the next one is read.
type Line struct {
	// Number counts the lines of the trace from 1.
	Number int
	// At is the instant of the request, in nanoseconds since 1970 UTC.
	At int64
	// Limit is the name of the limit.
	Limit string
	// Key has the parts of the key; it is empty for a limit without a key.
	Key []string
	// Count is how many tokens the request takes.
	Count int64
	// Op is what the request does: [runtime.Take], [runtime.TakeUpTo] or [runtime.Charge].
	Op runtime.Op
	// Zone is the time zone of the key, for a limit whose calendar has one per key; "" if the line has none.
	Zone string
	// Anniversary is the first day of a window of the key, for a limit with anniversaries; zero if the line has none.
	Anniversary runtime.Date
	// Reserve is set if the request may take tokens that have not accrued yet.
	Reserve bool
	// Plan is the name of the plan; "" if the line does not name one. It is ignored for a limit without plans.
	Plan string

	// keyTypes has the JSON type of each part of the key.
	keyTypes []jsonType
	// raw has the JSON of each of the fields, nil for an absent one. It is nil for a line of a log, or one that was put in
	// order.
	raw *[len(fields)][]byte
	// hasLimit is set if the line names a limit.
	hasLimit bool
}

// field is a field of a line with a meaning.
type field struct {
	name string
	// answer is set for the fields that JSONL adds. A line may have them, so that answers can be replayed again.
	answer bool
}

// fields are in the order in which JSONL writes them: the request, the answer, and the answer of the old side
// of a comparison.
var fields = [...]field{
	{name: "at"}, {name: "limit"}, {name: "key"}, {name: "count"}, {name: "reserve"}, {name: "plan"},
	{name: "zone"}, {name: "anniversary"}, {name: "verb"},
	{name: "allowed", answer: true}, {name: "retryAfterMs", answer: true}, {name: "remaining", answer: true},
	{name: "value", answer: true}, {name: "shadowed", answer: true}, {name: "taken", answer: true},
	{name: "oldAllowed", answer: true}, {name: "oldRetryAfterMs", answer: true}, {name: "oldRemaining", answer: true},
	{name: "oldValue", answer: true}, {name: "oldShadowed", answer: true}, {name: "oldTaken", answer: true},
}

// The indexes in fields of the fields of a request, and of the first field of each answer.
const (
	fieldAt = iota
	fieldLimit
	fieldKey
	fieldCount
	fieldReserve
	fieldPlan
	fieldZone
	fieldAnniversary
	fieldVerb
	fieldAllowed
	requestFields    = fieldAllowed
	fieldShadowed    = fieldAllowed + 4
	fieldOldAllowed  = fieldAllowed + 6
	fieldOldShadowed = fieldOldAllowed + 4
)

// parse reads a line, and keeps its number.
func (l *Line) parse(text []byte) error {
	// Keep the memory of the slices: a trace has millions of lines.
	raw := l.raw
	if raw == nil {
		raw = new([len(fields)][]byte)
	}
	*raw = [len(fields)][]byte{}
	*l = Line{Number: l.Number, Key: l.Key[:0], keyTypes: l.keyTypes[:0], Count: 1, raw: raw}
	s := scanner{text: text}
	if !s.take('{') {
		return s.faultf(s.at, "a line must be a JSON object, not %s", s.found())
	}
	if !s.take('}') {
		if err := l.parseFields(&s); err != nil {
			return err
		}
	}
	if s.next(); s.at < len(text) {
		return s.faultf(s.at, "a line must have one JSON object; after it there is %s", s.found())
	}
	// A misspelt field is only a fault if the right one is absent: a log may have both count and Count.
	for i, fault := range s.misspelt {
		if fault != nil && l.raw[i] == nil {
			return fault
		}
	}
	if l.raw[fieldAt] == nil {
		return faultf("the line has no field at, the time of the request")
	}
	return nil
}

// parseFields reads up to the closing brace.
func (l *Line) parseFields(s *scanner) error {
	return s.members(func() error { return l.parseField(s) })
}

func (l *Line) parseField(s *scanner) error {
	s.next()
	start := s.at
	name, err := s.str("the name of a field")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(fields[:], func(f field) bool { return f.name == string(name) })
	switch {
	case i < 0:
		return s.skipUnknown(string(name), start)
	case l.raw[i] != nil:
		return s.faultf(start, "%s is given twice", name)
	case !s.take(':'):
		return s.faultf(s.at, "expected a colon after %s, found %s", name, s.found())
	}
	s.next() // so that raw has no white space around the value
	start = s.at
	if err := l.parseValue(s, i); err != nil {
		return err
	}
	l.raw[i] = s.text[start:s.at]
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
		l.Limit, l.hasLimit = string(text), true
	case fieldKey:
		err = l.parseKey(s)
	case fieldCount:
		l.Count, err = s.integer(name)
	case fieldReserve:
		l.Reserve, err = s.boolean(name)
	case fieldPlan:
		l.Plan, err = s.plan()
	case fieldZone:
		var text []byte
		text, err = s.str(name)
		l.Zone = string(text)
	case fieldAnniversary:
		l.Anniversary, err = s.date(name)
	case fieldVerb:
		start := s.at
		var text []byte
		if text, err = s.str(name); err != nil {
			return err
		}
		var ok bool
		if l.Op, ok = opOf(text); !ok {
			err = s.faultf(start, "verb must be %s", verbList)
		}
	case fieldAllowed, fieldShadowed, fieldOldAllowed, fieldOldShadowed:
		_, err = s.boolean(name)
	default:
		err = s.number(name)
	}
	return err
}

// verbs are the values of the field verb, named like the methods of the generated code.
var verbs = []struct {
	name string
	op   runtime.Op
}{{"allow", runtime.Take}, {"allowUpTo", runtime.TakeUpTo}, {"charge", runtime.Charge}}

const verbList = `"allow", "allowUpTo" or "charge"`

func opOf(verb []byte) (runtime.Op, bool) {
	for _, v := range verbs {
		if v.name == string(verb) {
			return v.op, true
		}
	}
	return 0, false
}

// date reads a day such as "2024-01-31", or the day of an RFC 3339 time in the time's own zone.
func (s *scanner) date(name string) (runtime.Date, error) {
	s.next()
	start := s.at
	text, err := s.str(name)
	if err != nil {
		return runtime.Date{}, err
	}
	if day, ok := dateOf(text); ok {
		return day, nil
	}
	return runtime.Date{}, s.faultf(start, "%s must be a day such as \"2024-01-31\", or an RFC 3339 time", name)
}

// jsonType is the JSON type of a part of a key.
type jsonType byte

const (
	jsonString jsonType = iota
	jsonNumber
	jsonBool
)

// parseKey reads one part, or a list of parts.
func (l *Line) parseKey(s *scanner) error {
	if s.next() != '[' {
		return l.parsePart(s, "key", "key must be a string, a number, true or false, or a list of them")
	}
	s.at++
	if s.take(']') {
		return nil
	}
	for {
		if err := l.parsePart(s, "a part of the key", "a part of the key must be a string, a number, true or false"); err != nil {
			return err
		}
		switch {
		case s.take(','):
		case s.take(']'):
			return nil
		default:
			return s.faultf(s.at, "expected a comma or ], found %s", s.found())
		}
	}
}

// parsePart reads a part of the key as text.
func (l *Line) parsePart(s *scanner, name, must string) (err error) {
	c := s.next()
	start, typ := s.at, jsonString
	var text []byte
	switch {
	case c == '"':
		text, err = s.str(name)
	case c == '-', isDigit(c): // kept as digits, because a float64 would round large integers
		typ, err = jsonNumber, s.number(name)
		text = s.text[start:s.at]
	case c == 't', c == 'f':
		typ = jsonBool
		_, err = s.boolean(name)
		text = s.text[start:s.at]
	default:
		return s.faultf(start, "%s, not %s", must, s.found())
	}
	l.Key, l.keyTypes = append(l.Key, string(text)), append(l.keyTypes, typ)
	return err
}

// appendRequest appends the fields of the request as they were in the trace, each with a comma after it.
func (l *Line) appendRequest(out []byte) []byte {
	if l.raw == nil {
		return l.appendParsed(out)
	}
	for i, value := range l.raw {
		if value != nil && !fields[i].answer { // the new answer replaces that of an earlier replay
			out = append(appendName(out, i), value...)
			out = append(out, ',')
		}
	}
	return out
}

// appendParsed is appendRequest for a line whose JSON is gone, or was none.
func (l *Line) appendParsed(out []byte) []byte {
	out = time.Unix(0, l.At).UTC().AppendFormat(append(appendName(out, fieldAt), '"'), time.RFC3339Nano)
	out = append(appendText(append(out, `",`...), fieldLimit, l.Limit), ',')
	switch {
	case len(l.Key) == 1:
		out = append(l.appendPart(appendName(out, fieldKey), 0), ',')
	case len(l.Key) > 1:
		out = append(appendName(out, fieldKey), '[')
		for i := range l.Key {
			out = append(l.appendPart(out, i), ',')
		}
		out = append(out[:len(out)-1], "],"...)
	}
	if l.Count != 1 {
		out = append(strconv.AppendInt(appendName(out, fieldCount), l.Count, 10), ',')
	}
	if l.Reserve {
		out = append(appendName(out, fieldReserve), "true,"...)
	}
	if l.Plan != "" {
		out = append(appendText(out, fieldPlan, l.Plan), ',')
	}
	if l.Zone != "" {
		out = append(appendText(out, fieldZone, l.Zone), ',')
	}
	if l.Anniversary != (runtime.Date{}) {
		out = append(appendText(out, fieldAnniversary, l.Anniversary.String()), ',')
	}
	if verb := verbOf(l.Op); verb != "" {
		out = append(appendText(out, fieldVerb, verb), ',')
	}
	return out
}

func (l *Line) appendPart(out []byte, i int) []byte {
	if l.keyTypes[i] != jsonString {
		return append(out, l.Key[i]...)
	}
	return appendString(out, l.Key[i])
}

func appendText(out []byte, field int, text string) []byte {
	return appendString(appendName(out, field), text)
}

func appendString(out []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("sim: " + err.Error()) // a string always has JSON
	}
	return append(out, quoted...)
}

// The instants that a trace can have. Beyond them, the nanoseconds of a limit's period could overflow.
var (
	firstInstant = time.Unix(0, 0)
	lastInstant  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// secondsBelow is the least Unix time that is in milliseconds even with a fraction. Logs write seconds with a fraction,
// which are below it until the year 2286; milliseconds are above it from April 1970 on.
const secondsBelow = 10_000_000_000

// instant reads the value of at, in nanoseconds since 1970 UTC.
func (s *scanner) instant() (int64, error) {
	if s.next() == '"' {
		return s.rfc3339()
	}
	start := s.at
	if c := s.next(); c != '-' && !isDigit(c) {
		return 0, s.faultf(start, "at must be an RFC 3339 time such as \"2030-01-02T15:04:05Z\", or Unix milliseconds, not %s", s.found())
	}
	return s.unixTime(start)
}

func (s *scanner) unixTime(start int) (int64, error) {
	// Digit by digit, because a float64 of the present time has no exact nanoseconds.
	const plain = "at must be a number in plain digits, such as 1893596645000"
	if s.digits() == start {
		return 0, s.faultf(start, plain)
	}
	whole, err := strconv.ParseInt(string(s.text[start:s.at]), 10, 64)
	if err != nil {
		return 0, s.faultf(start, "at is too large")
	}
	unit, fraction := int64(time.Millisecond), ""
	if s.at < len(s.text) && s.text[s.at] == '.' {
		from := s.at + 1
		for s.at++; s.at < len(s.text) && isDigit(s.text[s.at]); s.at++ {
		}
		if fraction = string(s.text[from:s.at]); fraction == "" {
			return 0, s.faultf(start, plain)
		}
		if whole < secondsBelow {
			unit = int64(time.Second)
		}
	}
	switch {
	case s.fractional():
		return 0, s.faultf(start, plain)
	// The sign of -0.5 is lost in whole.
	case whole < 0, s.text[start] == '-' && fraction != "", whole > lastInstant.UnixNano()/unit:
		return 0, s.faultf(start, "at must be in the years 1970 to 2199, in Unix milliseconds, or in Unix seconds with a fraction")
	}
	nanoseconds := whole * unit
	for _, digit := range []byte(strings.TrimRight(fraction, "0")) { // some logs pad the fraction beyond nanoseconds
		if unit /= 10; unit == 0 {
			return 0, s.faultf(start, "at is more precise than a nanosecond")
		}
		nanoseconds += unit * int64(digit-'0')
	}
	return nanoseconds, nil
}

func (s *scanner) rfc3339() (int64, error) {
	start := s.at
	text, err := s.str("at")
	if err != nil {
		return 0, err
	}
	var t time.Time
	switch err := t.UnmarshalText(text); {
	case err != nil || !strictRFC3339(text):
		return 0, s.faultf(start, "at is not an RFC 3339 time such as \"2030-01-02T15:04:05Z\"")
	case t.Before(firstInstant) || t.After(lastInstant):
		return 0, s.faultf(start, "at must be in the years 1970 to 2199")
	}
	return t.UnixNano(), nil
}

// strictRFC3339 rejects the forms that package time accepts beyond RFC 3339: an hour of one digit, a comma before the
// fraction, and zones of a day or more.
func strictRFC3339(text []byte) bool {
	const hourEnd, secondEnd = len("2006-01-02T15"), len("2006-01-02T15:04:05")
	if len(text) <= secondEnd || text[hourEnd] != ':' || text[secondEnd] == ',' {
		return false
	}
	// If the text does not end in Z, its last six bytes are the zone: UnmarshalText has checked that there is one.
	zone := text[max(0, len(text)-len("+15:04")):]
	return text[len(text)-1] == 'Z' || string(zone[1:3]) < "24" && string(zone[4:]) < "60"
}
