package spec

import (
	"cmp"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

const (
	unitsInWords    = "`ns`, `us`, `ms`, `s`, `m`, `h`, `d` (24 hours) and `w` (7 days)"
	unitPattern     = `([0-9]+(\.[0-9]+)?(ns|us|µs|μs|ms|s|m|h|d|w))`
	durationPattern = `^` + unitPattern + `+$`
	offsetPattern   = `^[-+]?` + unitPattern + `+$`
)

var (
	unitForm     = regexp.MustCompile(unitPattern)
	durationForm = regexp.MustCompile(durationPattern)
)

// units are the units of a duration. The micro sign and the Greek letter mu look alike, so both are accepted.
var units = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
	"d": words.Day, "w": words.Week,
}

// longestPeriod is the longest period in days.
var longestPeriod = strconv.FormatInt(int64(runtime.MaxPeriod/words.Day), 10) + "d"

// exact returns the length of a duration such as 1d12h in nanoseconds, without rounding, or false if the text is not a
// duration.
func exact(text string) (*big.Rat, bool) {
	// The bound on the length keeps the arithmetic below fast for hostile files.
	if !durationForm.MatchString(text) || len(text) > 100 {
		return nil, false
	}
	sum := new(big.Rat)
	for _, part := range unitForm.FindAllStringSubmatch(text, -1) {
		number, ok := new(big.Rat).SetString(strings.TrimSuffix(part[1], part[3]))
		if !ok {
			return nil, false
		}
		sum.Add(sum, number.Mul(number, new(big.Rat).SetInt64(int64(units[part[3]]))))
	}
	return sum, true
}

// readDuration returns a reader of a positive duration.
func readDuration[T any](at func(*T) *time.Duration) func(*parser, *T, entry) bool {
	return func(p *parser, into *T, e entry) (ok bool) {
		*at(into), ok = p.length(e)
		return ok
	}
}

// length reads a duration from a nanosecond to the longest period.
func (p *reader) length(e entry) (time.Duration, bool) {
	sum, ok := exact(e.value.Value)
	if e.value.Tag != "!!str" || !ok {
		p.notDuration(e)
		return 0, false
	}
	length, ok := p.wholeNanoseconds(e, sum)
	if !ok {
		return 0, false
	}
	if length < 1 || length > runtime.MaxPeriod {
		p.report(e.at, outOfRange, "", "%s must be 1ns to %s, not %s", e.name, longestPeriod, clip(e.value.Value))
		return 0, false
	}
	return length, true
}

// wholeNanoseconds returns a duration, or reports one with a fraction of a nanosecond.
func (p *reader) wholeNanoseconds(e entry, sum *big.Rat) (time.Duration, bool) {
	if !sum.IsInt() {
		p.report(e.at, badDuration, "", "%s is not a whole number of nanoseconds: %s", e.name, clip(e.value.Value))
		return 0, false
	}
	if !sum.Num().IsInt64() {
		// The longest duration is out of range for each caller.
		return 1<<63 - 1, true
	}
	return time.Duration(sum.Num().Int64()), true
}

// notDuration reports a value that is not a duration.
func (p *reader) notDuration(e entry) {
	if e.value.Tag == "!!int" || e.value.Tag == "!!float" || decimalForm.MatchString(e.value.Value) {
		p.report(e.at, badDuration, durationHelp, "%s must be a duration with a unit, not %s", e.name, describe(e.value))
		n := strings.ReplaceAll(e.value.Value, "_", "")
		p.meant(n+"s", n+"m", n+"ms")
		return
	}
	if unit, days, ok := unevenUnit(e.value.Value); ok {
		help := e.name + " has a fixed length, independent of the calendar"
		if e.name == "period" {
			help = "write period: month or year, and a zone, for windows of the calendar, or a fixed length"
		}
		if sum, _ := exact(days); sum.Cmp(new(big.Rat).SetInt64(int64(runtime.MaxPeriod))) <= 0 {
			help += ": " + days + " is about as long"
		}
		p.report(e.at, badDuration, help, "%s cannot be in %s, because their lengths differ", e.name, unit)
		return
	}
	p.report(e.at, badDuration, durationHelp, "%s must be a duration, not %s", e.name, describe(e.value))
	p.meant(meantDuration(e.value.Value)...)
}

const durationHelp = "write a number and a unit, such as 90s, 5m, 1h or 1d"

// spelling is a way to write a duration that people try: an optional count and a word.
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

// meantDuration returns the durations that text probably means.
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
	// "daily" may mean either: a calendar day is not always 24 hours, but a period of 1d is.
	case unit == "d" && count == "1":
		return []string{"1d", "24h"}
	default:
		return []string{count + unit}
	}
}

var unevenForm = regexp.MustCompile(`^(?i)(?:every |per |a |an |one )?([0-9]{1,4}|) ?(mo|month|months|monthly|y|yr|year|years|yearly)$`)

// unevenUnit reports whether text counts months or years, whose lengths differ, and returns a similar number of days.
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

var (
	// wholeForm is a number that YAML 1.1, YAML 1.2 and people read alike.
	wholeForm   = regexp.MustCompile(`^-?[0-9]+(_[0-9]+)*$`)
	decimalForm = regexp.MustCompile(`^[-+]?[0-9]+$`)
	octalForm   = regexp.MustCompile(`^[-+]?0[0-9]+$`)
)
