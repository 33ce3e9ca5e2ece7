package spec

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// spelling is a way to write a duration that people try: a count, which may be left out, and a word.
var spelling = regexp.MustCompile(`^(?i)(?:every |per |a |an |one )?([0-9]{1,9}|) ?([a-zµ]+)$`)

// spelledUnits are the words that people try for the units.
var spelledUnits = map[string]string{
	"nanosecond": "ns", "microsecond": "us", "millisecond": "ms", "msec": "ms",
	"second": "s", "sec": "s", "secondly": "s", "s": "s", "ms": "ms",
	"minute": "m", "min": "m", "minutely": "m", "m": "m",
	"hour": "h", "hr": "h", "hourly": "h", "h": "h",
	"day": "d", "daily": "d", "d": "d",
	"week": "w", "wk": "w", "weekly": "w", "w": "w",
}

// meantDuration returns the durations that were probably meant by text.
func meantDuration(text string) []string {
	if joined := strings.ReplaceAll(text, " ", ""); len(joined) <= longest && durationForm.MatchString(joined) {
		return []string{joined}
	}
	parts := spelling.FindStringSubmatch(text)
	if parts == nil {
		return nil
	}
	unit, ok := spelledUnits[strings.ToLower(parts[2])]
	if !ok {
		unit, ok = spelledUnits[strings.TrimSuffix(strings.ToLower(parts[2]), "s")]
	}
	switch count := cmp.Or(parts[1], "1"); {
	case !ok:
		return nil
	case unit == "d" && count == "1":
		return []string{"1d", "24h"}
	default:
		return []string{count + unit}
	}
}

var unevenForm = regexp.MustCompile(`^(?i)(?:every |per |a |an |one )?([0-9]{1,4}|) ?(mo|month|months|monthly|y|yr|year|years|yearly)$`)

// unevenUnit reports whether text counts in months or years, which are no fixed time, and returns days that
// are about as long.
func unevenUnit(text string) (unit, days string, ok bool) {
	parts := unevenForm.FindStringSubmatch(text)
	if parts == nil {
		return "", "", false
	}
	unit, length := "years", 365
	if strings.HasPrefix(strings.ToLower(parts[2]), "m") {
		unit, length = "months", 30
	}
	count, _ := strconv.Atoi(cmp.Or(parts[1], "1"))
	return unit, strconv.Itoa(count*length) + "d", true
}
