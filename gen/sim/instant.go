package sim

import (
	"strconv"
	"strings"
	"time"
)

// The instants that a trace can hold. Beyond them, the nanoseconds of a limit's period could overflow.
var (
	firstInstant = time.Unix(0, 0)
	lastInstant  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// secondsBelow is the number below which one with a fraction counts seconds since 1970, until the year 2286, as
// logs have them. Larger ones count milliseconds, since April 1970.
const secondsBelow = 10_000_000_000

// instant reads a time: an RFC 3339 string, or a Unix time in milliseconds, or in seconds with a fraction.
func (s *scanner) instant() (int64, error) {
	if s.next() == '"' {
		return s.written()
	}
	start := s.at
	if c := s.next(); c != '-' && !isDigit(c) {
		return 0, s.wrongf(start, "at must be an RFC 3339 time such as \"2030-01-02T15:04:05Z\", or Unix milliseconds, not %s", s.what())
	}
	return s.unix(start)
}

// unix reads a Unix time. Nothing of it is rounded.
func (s *scanner) unix(start int) (int64, error) {
	if s.digits() == start {
		return 0, s.wrongf(start, "at must be a number in plain digits")
	}
	whole, err := strconv.ParseInt(string(s.text[start:s.at]), 10, 64)
	if err != nil {
		return 0, s.wrongf(start, "at is too large a number")
	}
	unit, fraction := int64(time.Millisecond), ""
	if s.at < len(s.text) && s.text[s.at] == '.' {
		from := s.at + 1
		for s.at++; s.at < len(s.text) && isDigit(s.text[s.at]); s.at++ {
		}
		if fraction = string(s.text[from:s.at]); fraction == "" {
			return 0, s.wrongf(start, "at must be a number in plain digits")
		}
		if whole < secondsBelow {
			unit = int64(time.Second)
		}
	}
	switch {
	case s.fractional():
		return 0, s.wrongf(start, "at must be a number in plain digits")
	case whole < 0, s.text[start] == '-' && fraction != "", whole > lastInstant.UnixNano()/unit:
		return 0, s.wrongf(start, "at must be in the years 1970 to 2199, in milliseconds since 1970 UTC, or in seconds with a fraction")
	}
	part := int64(0)
	for _, digit := range []byte(strings.TrimRight(fraction, "0")) {
		if unit /= 10; unit == 0 {
			return 0, s.wrongf(start, "at has more digits than nanoseconds need")
		}
		part += unit * int64(digit-'0')
	}
	if fraction != "" && whole < secondsBelow {
		return whole*int64(time.Second) + part, nil
	}
	return whole*int64(time.Millisecond) + part, nil
}

// written reads a time that is written out.
func (s *scanner) written() (int64, error) {
	start := s.at
	text, err := s.str("at")
	if err != nil {
		return 0, err
	}
	var t time.Time
	switch err := t.UnmarshalText(text); {
	case err != nil || !strict(text):
		return 0, s.wrongf(start, "at is not an RFC 3339 time such as \"2030-01-02T15:04:05Z\"")
	case t.Before(firstInstant) || t.After(lastInstant):
		return 0, s.wrongf(start, "at must be in the years 1970 to 2199")
	}
	return t.UnixNano(), nil
}

// strict reports whether a time that package time can read is one of RFC 3339: the package also takes an hour
// of one digit, a comma before the fraction, and zones a day away.
func strict(text []byte) bool {
	const hourEnd, secondEnd = len("2006-01-02T15"), len("2006-01-02T15:04:05")
	if len(text) <= secondEnd || text[hourEnd] != ':' || text[secondEnd] == ',' {
		return false
	}
	zone := text[max(0, len(text)-len("+15:04")):]
	return text[len(text)-1] == 'Z' || string(zone[1:3]) < "24" && string(zone[4:]) < "60"
}
