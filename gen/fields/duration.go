package fields

import (
	"cmp"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

const (
	unitsInWords = "`ns`, `us`, `ms`, `s`, `m`, `h`, `d` (24 hours) and `w` (7 days)"
	unitPattern  = `([0-9]+(\.[0-9]+)?(ns|us|µs|μs|ms|s|m|h|d|w))`
)

var (
	unitForm     = regexp.MustCompile(unitPattern)
	durationForm = regexp.MustCompile(`^` + unitPattern + `+$`)
)

// units are the units of a duration. The micro sign and the Greek letter mu look alike, so both are accepted.
var units = func() map[string]time.Duration {
	units := map[string]time.Duration{"µs": time.Microsecond, "μs": time.Microsecond}
	for _, unit := range words.Units {
		units[unit.Symbol] = unit.Length
	}
	return units
}()

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

// Duration returns the duration that a text such as 1d12h is in limits.yaml, or false if it is none up to
// [runtime.MaxPeriod].
func Duration(text string) (time.Duration, bool) {
	sum, ok := exact(text)
	if !ok || !sum.IsInt() || sum.Num().Cmp(big.NewInt(int64(runtime.MaxPeriod))) > 0 {
		return 0, false
	}
	return time.Duration(sum.Num().Int64()), true
}

// readLength reads a duration from a nanosecond to the longest period. With calendar, it is a period that can also be in
// calendar units.
func (p *parser) readLength(e document.Entry, calendar bool) (time.Duration, bool) {
	sum, ok := exact(e.Value.Value)
	if e.Value.Tag != "!!str" || !ok {
		p.notDuration(e, calendar)
		return 0, false
	}
	length, ok := p.wholeNanoseconds(e, sum)
	if !ok {
		return 0, false
	}
	if length < 1 || length > runtime.MaxPeriod {
		p.doc.Report(e.At, ids.OutOfRange, "", "%s must be 1ns to %s, not %s", e.Name, longestPeriod, diag.Clip(e.Value.Value))
		return 0, false
	}
	return length, true
}

// wholeNanoseconds returns a duration, or reports one with a fraction of a nanosecond.
func (p *parser) wholeNanoseconds(e document.Entry, sum *big.Rat) (time.Duration, bool) {
	if !sum.IsInt() {
		p.doc.Report(e.At, ids.BadDuration, "", "%s is not a whole number of nanoseconds: %s", e.Name, diag.Clip(e.Value.Value))
		return 0, false
	}
	if !sum.Num().IsInt64() {
		// The longest duration is out of range for each caller.
		return math.MaxInt64, true
	}
	return time.Duration(sum.Num().Int64()), true
}

// notDuration reports a value that is not a duration.
func (p *parser) notDuration(e document.Entry, calendar bool) {
	if e.Value.Tag == "!!int" || e.Value.Tag == "!!float" || decimalForm.MatchString(e.Value.Value) {
		p.doc.Report(e.At, ids.BadDuration, durationHelp, "%s must be a duration with a unit, not %s", e.Name,
			document.Describe(e.Value))
		n := strings.ReplaceAll(e.Value.Value, "_", "")
		p.doc.Offer(n+"s", n+"m", n+"ms")
		return
	}
	if count, ok := minutesOrMonths(e.Value.Value); ok {
		help := "write " + plain(count) + "m for minutes, or " + plain(count*30) + "d for months of 30 days"
		if calendar {
			help = "write period: " + plain(count) + "m for minutes, or period: " + unitsOf(count, "month") +
				" and a zone, such as zone: UTC, for months"
		}
		p.doc.Report(e.At, ids.BadDuration, help, "%s may be minutes or months: %s", e.Name, document.Describe(e.Value))
		return
	}
	if count, unit, days, ok := unevenUnit(e.Value.Value); ok {
		_, fits := Duration(days)
		help := e.Name + " has a fixed length, independent of the calendar"
		if e.Name == "period" {
			help = "only a fixed window has a period by the calendar: write a fixed length"
		}
		if calendar && fits {
			help = "write period: " + unitsOf(count, unit) +
				" and a zone, such as zone: UTC, for windows of the calendar, or a fixed length"
		}
		if fits {
			help += ": " + days + " is about as long"
		}
		p.doc.Report(e.At, ids.BadDuration, help, "%s cannot be in %ss, because their lengths differ", e.Name, unit)
		return
	}
	p.doc.Report(e.At, ids.BadDuration, durationHelp, "%s must be a duration, not %s", e.Name, document.Describe(e.Value))
	p.doc.Offer(meantDuration(e.Value.Value)...)
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
	if joined := strings.ReplaceAll(text, " ", ""); len(joined) <= diag.Longest && durationForm.MatchString(joined) {
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

// minutesForm is a number with a letter that ISO 8601 has for months and, in a time, for minutes.
var minutesForm = regexp.MustCompile(`^([1-9][0-9]{0,2}) ?M$`)

// minutesOrMonths returns the number of a text such as 1M.
func minutesOrMonths(text string) (int64, bool) {
	parts := minutesForm.FindStringSubmatch(text)
	if parts == nil {
		return 0, false
	}
	count, _ := strconv.ParseInt(parts[1], 10, 64)
	return count, true
}

// unevenUnit reports whether text counts months or years, whose lengths differ, and returns a similar number of days.
func unevenUnit(text string) (count int64, unit, days string, ok bool) {
	parts := unevenForm.FindStringSubmatch(text)
	if parts == nil {
		return 0, "", "", false
	}
	unit, length := "year", int64(365)
	if strings.HasPrefix(strings.ToLower(parts[2]), "m") {
		unit, length = "month", 30
	}
	count, _ = strconv.ParseInt(cmp.Or(parts[1], "1"), 10, 64)
	return count, unit, plain(count*length) + "d", true
}

// durationReader returns a reader of a positive duration.
func durationReader[D any](place func(*D) *time.Duration) reader[D] {
	return func(p *parser, into *D, e document.Entry) (ok bool) {
		*place(into), ok = p.readLength(e, false)
		return ok
	}
}

// lengthOf completes a field with the place of a positive duration in the policy.
func lengthOf(place func(*runtime.Policy) *time.Duration, f limitField) limitField {
	f.accepts, f.schema = cmp.Or(f.accepts, "a duration, as for `period`"), durationSchema
	f.read = durationReader(func(l *draft) *time.Duration { return place((*runtime.Policy)(&l.policy)) })
	f.effective = func(l *spec.Limit) string { return unlessZero(*place(&l.Policy)) }
	return f
}

// durationSchema is the schema of a positive duration.
var durationSchema = object{"type": "string", "pattern": durationForm.String()}

func unlessZero(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return words.Duration(d)
}
