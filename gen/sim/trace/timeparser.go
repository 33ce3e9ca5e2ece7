package trace

import (
	"bytes"
	"strconv"
	"time"
)

// TimeParser reads the times of a log.
type TimeParser struct {
	// form is the index of the form of the last time, with which the next one is tried first.
	form int
	// text is the last time, and at its instant: a log has many lines per second.
	text []byte
	at   int64
}

// Instant reads a time, in nanoseconds since 1970 UTC. It returns the fault of one that it cannot read.
func (p *TimeParser) Instant(text []byte) (at int64, reason string) {
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

func (p *TimeParser) parse(text []byte) (int64, string) {
	var t time.Time
	if err := t.UnmarshalText(text); err != nil || !strictRFC3339(text) {
		var ok bool
		if t, ok = p.parseForms(string(text)); !ok {
			return 0, "at must be an RFC 3339 time such as 2030-01-02T15:04:05Z, 02/Jan/2030:15:04:05 +0000, or a Unix time"
		}
	}
	if t.Before(FirstInstant) || t.After(LastInstant) {
		return 0, "at must be in the years 1970 to 2199"
	}
	return t.UnixNano(), ""
}

func (p *TimeParser) parseForms(text string) (time.Time, bool) {
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
	at = n * unit
	for _, digit := range bytes.TrimRight(fraction, "0") {
		if unit /= 10; unit == 0 {
			break // programs that keep times as floating point numbers print more digits than a nanosecond has
		}
		at += unit * int64(digit-'0')
	}
	return at, ""
}

// Below these, whole Unix times are in seconds, milliseconds and microseconds; others are in nanoseconds. Seconds reach
// the year 5138 before they would be read as milliseconds, and the other units begin in March 1973.
const (
	unixSecondsBelow = 100_000_000_000
	unixMillisBelow  = 1000 * unixSecondsBelow
	unixMicrosBelow  = 1000 * unixMillisBelow
)
