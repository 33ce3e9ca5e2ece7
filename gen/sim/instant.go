package sim

import "time"

// The instants that a trace can hold. Beyond them, the nanoseconds of a limit's period could overflow.
var (
	firstInstant = time.Unix(0, 0)
	lastInstant  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// instant reads a time: an RFC 3339 string, or whole Unix milliseconds.
func (s *scanner) instant() (int64, error) {
	if s.next() == '"' {
		return s.written()
	}
	start := s.at
	if c := s.next(); c != '-' && !isDigit(c) {
		return 0, s.wrongf(start, "at must be an RFC 3339 time such as \"2030-01-02T15:04:05Z\", or Unix milliseconds, not %s", s.what())
	}
	ms, err := s.integer("at")
	if err != nil {
		return 0, err
	}
	if ms < 0 || ms > lastInstant.UnixMilli() {
		return 0, s.wrongf(start, "at must be in the years 1970 to 2199, in milliseconds since 1970 UTC")
	}
	return ms * int64(time.Millisecond), nil
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
