package trace

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// timeParser reads the times of a log.
type timeParser struct {
	// form is the index of the form of the last time, with which the next one is tried first.
	form int
	// text is the last time, and at its instant: a log has many lines per second.
	text []byte
	at   int64
}

// instant reads a time, in nanoseconds since 1970 UTC. It returns the fault of one that it cannot read.
func (p *timeParser) instant(text []byte) (at int64, reason string) {
	if len(p.text) > 0 && bytes.Equal(text, p.text) {
		return p.at, ""
	}
	if len(text) > 0 && IsDigit(text[0]) && bytes.IndexFunc(text, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) < 0 {
		at, reason = unixTimeOf(text)
	} else {
		at, reason = p.parse(text)
	}
	if reason == "" {
		p.text, p.at = append(p.text[:0], text...), at
	}
	return at, reason
}

func (p *timeParser) parse(text []byte) (int64, string) {
	t, ok := rfc3339Of(text)
	if !ok {
		if t, ok = p.parseForms(string(text)); !ok {
			return 0, "at must be an RFC 3339 time such as 2030-01-02T15:04:05Z, 02/Jan/2030:15:04:05 +0000, or a Unix time"
		}
	}
	if t.Before(FirstInstant) || t.After(LastInstant) {
		return 0, "at must be in the years 1970 to 2199"
	}
	return t.UnixNano(), ""
}

func (p *timeParser) parseForms(text string) (time.Time, bool) {
	for i := range timeForms {
		form := (p.form + i) % len(timeForms)
		if t, err := time.Parse(timeForms[form], text); err == nil {
			p.form = form
			return t, true
		}
	}
	return time.Time{}, false
}

// timeForms are the forms of time in logs besides RFC 3339 and Unix times. Those without a zone are in UTC.
var timeForms = []string{
	"02/Jan/2006:15:04:05 -0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02T15:04:05Z0700",
	"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006/01/02 15:04:05", time.RFC1123, time.RFC1123Z,
}

// unixTimeOf reads digits that may have a fraction.
func unixTimeOf(text []byte) (at int64, reason string) {
	whole, fraction, dot := bytes.Cut(text, []byte("."))
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || dot && (len(fraction) == 0 || bytes.IndexByte(fraction, '.') >= 0) {
		return 0, "at must be a Unix time in plain digits, such as 1893596645 or 1893596645.25"
	}
	unit, units := int64(1), "nanoseconds"
	switch {
	case n < unixSecondsBelow:
		unit, units = int64(time.Second), "seconds"
	case n < unixMillisBelow:
		unit, units = int64(time.Millisecond), "milliseconds"
	case n < unixMicrosBelow:
		unit, units = int64(time.Microsecond), "microseconds"
	}
	if n > LastInstant.UnixNano()/unit {
		return 0, "at must be in the years 1970 to 2199; as a Unix time in " + units + " it is later"
	}
	// Programs that keep times as floating point numbers print more digits than a nanosecond has.
	at, _ = addFraction(n*unit, unit, fraction)
	return at, ""
}

// addFraction adds the digits after the point of a number of units, in nanoseconds. It is exact if there are no nonzero
// digits below a nanosecond.
func addFraction(at, unit int64, digits []byte) (sum int64, exact bool) {
	for _, digit := range bytes.TrimRight(digits, "0") {
		if unit /= 10; unit == 0 {
			return at, false
		}
		at += unit * int64(digit-'0')
	}
	return at, true
}

// Below these, whole Unix times are in seconds, milliseconds and microseconds; others are in nanoseconds. Seconds reach
// the year 5138 before they would be read as milliseconds, and the other units begin in March 1973.
const (
	unixSecondsBelow = 100_000_000_000
	unixMillisBelow  = 1000 * unixSecondsBelow
	unixMicrosBelow  = 1000 * unixMillisBelow
)

// The instants that a trace can have. Beyond them, the nanoseconds of a limit's period could overflow.
var (
	FirstInstant = time.Unix(0, 0)
	LastInstant  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// secondsBelow is the least Unix time that is in milliseconds even with a fraction. Logs write seconds with a fraction,
// which are below it until the year 2286; milliseconds are above it from April 1970 on.
const secondsBelow = 10_000_000_000

// instant returns the value of at, in nanoseconds since 1970 UTC.
func (v jsonValue) instant() (int64, error) {
	switch {
	case v.text[0] == '"':
		return v.rfc3339()
	case !v.isNumber():
		return 0, v.faultf("at must be an RFC 3339 time such as \"2030-01-02T15:04:05Z\", or Unix milliseconds, not %s", v.found())
	case bytes.ContainsAny(v.text, "eE"):
		return 0, v.faultf("at must be a number in plain digits, such as 1893596645000")
	}
	// Digit by digit, because a float64 of the present time has no exact nanoseconds.
	digits, fraction, fractional := strings.Cut(string(v.text), ".")
	whole, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, v.faultf("at is too large")
	}
	unit := int64(time.Millisecond)
	if fractional && whole < secondsBelow {
		unit = int64(time.Second)
	}
	// The sign of -0.5 is lost in whole.
	if whole < 0 || digits[0] == '-' && fractional || whole > LastInstant.UnixNano()/unit {
		return 0, v.faultf("at must be in the years 1970 to 2199, in Unix milliseconds, or in Unix seconds with a fraction")
	}
	at, exact := addFraction(whole*unit, unit, []byte(fraction))
	if !exact {
		return 0, v.faultf("at is more precise than a nanosecond")
	}
	return at, nil
}

func (v jsonValue) rfc3339() (int64, error) {
	text, err := v.str("at")
	if err != nil {
		return 0, err
	}
	t, ok := rfc3339Of([]byte(text))
	switch {
	case !ok:
		return 0, v.faultf("at is not an RFC 3339 time such as \"2030-01-02T15:04:05Z\"")
	case t.Before(FirstInstant) || t.After(LastInstant):
		return 0, v.faultf("at must be in the years 1970 to 2199")
	}
	return t.UnixNano(), nil
}

// rfc3339Of reads a time, but not in the forms that package time accepts beyond RFC 3339: an hour of one digit, a comma
// before the fraction, and zones of a day or more.
func rfc3339Of(text []byte) (t time.Time, ok bool) {
	if t.UnmarshalText(text) != nil {
		return t, false
	}
	const hourEnd, secondEnd = len("2006-01-02T15"), len("2006-01-02T15:04:05")
	if len(text) <= secondEnd || text[hourEnd] != ':' || text[secondEnd] == ',' {
		return t, false
	}
	// If the text does not end in Z, its last six bytes are the zone: UnmarshalText has checked that there is one.
	zone := text[max(0, len(text)-len("+15:04")):]
	return t, text[len(text)-1] == 'Z' || string(zone[1:3]) < "24" && string(zone[4:]) < "60"
}

func dateOf(text string) (runtime.Date, bool) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if day, err := time.Parse(layout, text); err == nil && runtime.DateOf(day).Valid() {
			return runtime.DateOf(day), true
		}
	}
	return runtime.Date{}, false
}

// Instant formats an instant for people.
func Instant(at int64) string { return time.Unix(0, at).UTC().Format("2006-01-02 15:04:05.999") }
