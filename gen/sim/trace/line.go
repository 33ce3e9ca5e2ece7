package trace

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
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
	// Count is how many tokens the request takes, unless the limit has prices: then Units are the units it uses, of those that
	// the line has.
	Count int64
	Units []Unit
	// Op is what the request does: [runtime.Take], [runtime.TakeUpTo] or [runtime.Charge].
	Op runtime.Op
	// Zone is the time zone of the key, for a limit whose calendar has one per key; "" if the line has none.
	Zone string
	// Anniversary is the first day of a window of the key, for a limit with anniversaries; zero if the line has none.
	Anniversary runtime.Date
	// Running is how long the request runs, and so holds its slots of a limit in flight; 0 if the line does not say it.
	Running time.Duration
	// Reserve is set if the request may take tokens that have not accrued yet.
	Reserve bool
	// Plan is the name of the plan; "" if the line does not name one. It is ignored for a limit without plans.
	Plan string
	// Priority is the name of the class of the request; "" if the line does not name one. It is ignored for a limit without
	// classes.
	Priority string

	// KeyTypes has the JSON type of each part of the key.
	KeyTypes []JSONType
	// Raw has the JSON of each of the fields, nil for an absent one. It is nil for a line of a log, a generated one, or one
	// that was put in order.
	Raw *[len(fields)][]byte
	// hasLimit is set if the line names a limit.
	hasLimit bool
	// known are the names of units.
	known []string
}

// Unit is how many units of one thing a request uses, for a limit with prices.
type Unit struct {
	Name string
	N    int64
	// Fault is that of the value. It does not concern the lines of other limits, whose fields of that name may mean something
	// else.
	Fault *Fault
}

// field is a field of a line with a meaning.
type field struct {
	name string
	// must is what its JSON must be; "" for at and key, which can be of several types.
	must string
	// answer is set for the fields that JSONL adds. A line may have them, so that answers can be replayed again.
	answer bool
}

// fields are in the order in which JSONL writes them: the request, the answer, and the answer of the old side
// of a comparison.
var fields = [...]field{
	{name: "at"}, {name: "limit", must: aString}, {name: "key"}, {name: "count", must: aWholeNumber}, {name: "reserve", must: aBoolean},
	{name: "plan", must: aString}, {name: "zone", must: aString}, {name: "anniversary", must: aString}, {name: "verb", must: aString}, {name: "running", must: aDuration},
	{name: "priority", must: aString},
	{"allowed", aBoolean, true}, {"retryAfterMs", aNumber, true}, {"remaining", aNumber, true},
	{"value", aNumber, true}, {"shadowed", aBoolean, true}, {"taken", aNumber, true},
	{"oldAllowed", aBoolean, true}, {"oldRetryAfterMs", aNumber, true}, {"oldRemaining", aNumber, true},
	{"oldValue", aNumber, true}, {"oldShadowed", aBoolean, true}, {"oldTaken", aNumber, true},
}

// The indexes in fields of the fields of a request, and of the first field of each answer.
const (
	fieldAt = iota
	fieldLimit
	fieldKey
	fieldCount
	fieldReserve
	FieldPlan
	fieldZone
	fieldAnniversary
	fieldVerb
	fieldRunning
	fieldPriority
	FieldAllowed
	requestFields   = FieldAllowed
	FieldOldAllowed = FieldAllowed + 6
)

// Parse reads a line, and keeps its number.
func (l *Line) Parse(text []byte) error {
	// Keep the memory of the slices: a trace has millions of lines.
	raw := l.Raw
	if raw == nil {
		raw = new([len(fields)][]byte)
	}
	*raw = [len(fields)][]byte{}
	*l = Line{Number: l.Number, Key: l.Key[:0], KeyTypes: l.KeyTypes[:0], Units: l.Units[:0], Count: 1,
		Raw: raw, known: l.known}
	object, err := objectOf(text)
	if err != nil {
		return err
	}
	// misspelt has, for each field of a request, the fault of an unknown field that looks like a typo of it.
	var misspelt [fieldReserve + 1]error
	err = object.each(func(name string, at int, v jsonValue) error {
		i := slices.IndexFunc(fields[:], func(f field) bool { return f.name == name })
		switch {
		case i < 0 && slices.Contains(l.known, name):
			l.parseUnit(name, at, v)
			return nil
		case i < 0:
			for i, f := range fields[:len(misspelt)] {
				if misspelt[i] == nil && isTypo(name, f.name) {
					misspelt[i] = columnFault(text, at, "unknown field \"%s\" (did you mean %s?)", Clip(name, 40), f.name)
				}
			}
			return nil
		case l.Raw[i] != nil:
			return columnFault(text, at, "%s is given twice", name)
		}
		l.Raw[i] = v.text
		return l.parseValue(v, i)
	})
	if err != nil {
		return err
	}
	// A misspelt field is only a fault if the right one is absent: a log may have both count and Count.
	for i, fault := range misspelt {
		if fault != nil && l.Raw[i] == nil {
			return fault
		}
	}
	if l.Raw[fieldAt] == nil {
		return Faultf("the line has no field at, the time of the request")
	}
	return nil
}

// parseValue reads the value of field i.
func (l *Line) parseValue(v jsonValue, i int) (err error) {
	switch i {
	case fieldAt:
		l.At, err = v.instant()
		return err
	case fieldKey:
		return l.parseKey(v)
	case FieldPlan, fieldPriority:
		if v.text[0] != '"' { // logs may use that name for something else; a limit with plans reports that the plan is missing
			return nil
		}
	}
	text, err := v.scalar(fields[i].name, fields[i].must)
	if err != nil || fields[i].answer {
		return err
	}
	if reason := l.set(i, text); reason != "" {
		return v.faultf("%s", reason)
	}
	return nil
}

// parseUnit reads the units of a name, whose place is at.
func (l *Line) parseUnit(name string, at int, v jsonValue) {
	u := Unit{Name: name}
	text, err := v.scalar(name, aWholeNumber)
	if i := slices.IndexFunc(l.Units, func(u Unit) bool { return u.Name == name }); i >= 0 {
		l.Units[i].Fault = columnFault(v.line, at, "%s is given twice", name)
		return
	}
	if err == nil {
		reason := ""
		if u.N, reason = unitOf(name, text); reason != "" {
			err = v.faultf("%s", reason)
		}
	}
	errors.As(err, &u.Fault)
	l.Units = append(l.Units, u)
}

// set sets a field, except the time and the key, to a value in text. It returns the fault, without the value.
func (l *Line) set(field int, text string) (reason string) {
	ok := true
	switch field {
	case fieldLimit:
		l.Limit, l.hasLimit = text, true
	case fieldCount:
		var err error
		switch l.Count, err = strconv.ParseInt(text, 10, 64); {
		case errors.Is(err, strconv.ErrRange):
			return "count is too large"
		case err != nil:
			return "count must be a whole number in plain digits, such as 100"
		}
	case fieldReserve:
		if l.Reserve = text == "true"; !l.Reserve && text != "false" {
			return "reserve must be true or false"
		}
	case FieldPlan:
		l.Plan = text
	case fieldPriority:
		l.Priority = text
	case fieldZone:
		l.Zone = text
	case fieldAnniversary:
		if l.Anniversary, ok = dateOf(text); !ok {
			return "anniversary must be a day such as \"2024-01-31\", or an RFC 3339 time"
		}
	case fieldVerb:
		if l.Op, ok = verbs[text]; !ok {
			return `verb must be "allow", "allowUpTo" or "charge"`
		}
	case fieldRunning:
		if l.Running, ok = runningOf(text); !ok {
			return `running must be a duration such as "1.5s", or a number of seconds, at most 3650 days`
		}
	}
	return ""
}

// unitOf returns how many units a text is, or the reason why it is none, without the value.
func unitOf(name, text string) (n int64, reason string) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, name + " is too large"
	case err != nil:
		return 0, name + " must be a whole number in plain digits, such as 100"
	case n < 0:
		return 0, name + " is less than 0"
	}
	return n, ""
}

// runningOf returns the time of a text such as "1.5s", or of a number of seconds.
func runningOf(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	if seconds, numeric := strconv.ParseFloat(text, 64); numeric == nil {
		d, err = time.Duration(min(seconds*float64(time.Second), 2*float64(runtime.MaxPeriod))), nil
	}
	return d, err == nil && d >= 0 && d <= runtime.MaxPeriod
}

// verbs are the values of the field verb, named like the methods of the generated code.
var verbs = map[string]runtime.Op{"allow": runtime.Take, "allowUpTo": runtime.TakeUpTo, "charge": runtime.Charge}

// JSONType is the JSON type of a part of a key.
type JSONType byte

// The types that a part can have besides a string.
const (
	jsonString JSONType = iota
	JSONNumber
	JSONBool
)

// parseKey reads one part, or a list of parts.
func (l *Line) parseKey(v jsonValue) error {
	if v.text[0] != '[' {
		return l.parsePart(v, "key", "key must be a string, a number, true or false, or a list of them")
	}
	return v.each(func(_ string, _ int, part jsonValue) error {
		return l.parsePart(part, "a part of the key", "a part of the key must be a string, a number, true or false")
	})
}

// parsePart reads a part of the key as text.
func (l *Line) parsePart(v jsonValue, name, must string) (err error) {
	text, typ := string(v.text), jsonString
	switch {
	case v.text[0] == '"':
		text, err = v.str(name)
	case v.isNumber(): // kept as digits, because a float64 would round large integers
		typ = JSONNumber
	case v.isBoolean():
		typ = JSONBool
	default:
		return v.faultf("%s, not %s", must, v.found())
	}
	l.Key, l.KeyTypes = append(l.Key, text), append(l.KeyTypes, typ)
	return err
}

// AppendRequest appends the fields of the request as they were in the trace, each with a comma after it.
func (l *Line) AppendRequest(out []byte) []byte {
	if l.Raw == nil {
		return l.appendParsed(out)
	}
	for i, value := range l.Raw {
		if value != nil && !fields[i].answer { // the new answer replaces that of an earlier replay
			out = append(AppendName(out, i), value...)
			out = append(out, ',')
		}
	}
	return l.appendUnits(out)
}

// appendParsed is AppendRequest for a line whose JSON is gone, or was none.
func (l *Line) appendParsed(out []byte) []byte {
	out = time.Unix(0, l.At).UTC().AppendFormat(append(AppendName(out, fieldAt), '"'), time.RFC3339Nano)
	out = append(appendText(append(out, `",`...), fieldLimit, l.Limit), ',')
	switch {
	case len(l.Key) == 1:
		out = append(l.appendPart(AppendName(out, fieldKey), 0), ',')
	case len(l.Key) > 1:
		out = append(AppendName(out, fieldKey), '[')
		for i := range l.Key {
			out = append(l.appendPart(out, i), ',')
		}
		out = append(out[:len(out)-1], "],"...)
	}
	if l.Count != 1 {
		out = append(strconv.AppendInt(AppendName(out, fieldCount), l.Count, 10), ',')
	}
	if l.Reserve {
		out = append(AppendName(out, fieldReserve), "true,"...)
	}
	if l.Plan != "" {
		out = append(appendText(out, FieldPlan, l.Plan), ',')
	}
	if l.Zone != "" {
		out = append(appendText(out, fieldZone, l.Zone), ',')
	}
	if l.Anniversary != (runtime.Date{}) {
		out = append(appendText(out, fieldAnniversary, l.Anniversary.String()), ',')
	}
	if verb := VerbOf(l.Op); verb != "" {
		out = append(appendText(out, fieldVerb, verb), ',')
	}
	if l.Priority != "" {
		out = append(appendText(out, fieldPriority, l.Priority), ',')
	}
	if l.Running > 0 {
		out = append(appendText(out, fieldRunning, l.Running.String()), ',')
	}
	return l.appendUnits(out)
}

// appendUnits appends the units as fields of a line, with a comma after each.
func (l *Line) appendUnits(out []byte) []byte {
	for _, u := range l.Units {
		if u.Fault == nil {
			out = append(strconv.AppendInt(append(appendString(out, u.Name), ':'), u.N, 10), ',')
		}
	}
	return out
}

func (l *Line) appendPart(out []byte, i int) []byte {
	if l.KeyTypes[i] != jsonString {
		return append(out, l.Key[i]...)
	}
	return appendString(out, l.Key[i])
}

func appendText(out []byte, field int, text string) []byte {
	return appendString(AppendName(out, field), text)
}

func appendString(out []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("trace: " + err.Error()) // a string always has JSON
	}
	return append(out, quoted...)
}

// AppendName appends the name of a field of a line.
func AppendName(out []byte, field int) []byte {
	out = append(out, '"')
	out = append(out, fields[field].name...)
	return append(out, `":`...)
}

// VerbOf returns the verb of a request, "" for allow, which is the default.
func VerbOf(op runtime.Op) string {
	for name, of := range verbs {
		if of == op && op != runtime.Take {
			return name
		}
	}
	return ""
}
