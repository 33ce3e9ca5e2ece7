package fields

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// values reads the scalar values of a document: durations, numbers, instants and text. It reports those that are none.
type values struct{ *document }

const (
	unitsInWords = "`ns`, `us`, `ms`, `s`, `m`, `h`, `d` (24 hours) and `w` (7 days)"
	unitPattern  = `([0-9]+(\.[0-9]+)?(ns|us|µs|μs|ms|s|m|h|d|w))`
)

var (
	unitForm     = regexp.MustCompile(unitPattern)
	durationForm = regexp.MustCompile(`^` + unitPattern + `+$`)
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

// Duration returns the duration that a text such as 1d12h is in limits.yaml, or false if it is none up to [runtime.MaxPeriod].
func Duration(text string) (time.Duration, bool) {
	sum, ok := exact(text)
	if !ok || !sum.IsInt() || sum.Num().Cmp(big.NewInt(int64(runtime.MaxPeriod))) > 0 {
		return 0, false
	}
	return time.Duration(sum.Num().Int64()), true
}

// length reads a duration from a nanosecond to the longest period.
func (v values) length(e entry) (time.Duration, bool) {
	sum, ok := exact(e.value.Value)
	if e.value.Tag != "!!str" || !ok {
		v.notDuration(e)
		return 0, false
	}
	length, ok := v.wholeNanoseconds(e, sum)
	if !ok {
		return 0, false
	}
	if length < 1 || length > runtime.MaxPeriod {
		v.report(e.at, rules.OutOfRange, "", "%s must be 1ns to %s, not %s", e.name, longestPeriod, diag.Clip(e.value.Value))
		return 0, false
	}
	return length, true
}

// wholeNanoseconds returns a duration, or reports one with a fraction of a nanosecond.
func (v values) wholeNanoseconds(e entry, sum *big.Rat) (time.Duration, bool) {
	if !sum.IsInt() {
		v.report(e.at, rules.BadDuration, "", "%s is not a whole number of nanoseconds: %s", e.name, diag.Clip(e.value.Value))
		return 0, false
	}
	if !sum.Num().IsInt64() {
		// The longest duration is out of range for each caller.
		return math.MaxInt64, true
	}
	return time.Duration(sum.Num().Int64()), true
}

// notDuration reports a value that is not a duration.
func (v values) notDuration(e entry) {
	if e.value.Tag == "!!int" || e.value.Tag == "!!float" || decimalForm.MatchString(e.value.Value) {
		v.report(e.at, rules.BadDuration, durationHelp, "%s must be a duration with a unit, not %s", e.name, describe(e.value))
		n := strings.ReplaceAll(e.value.Value, "_", "")
		v.meant(n+"s", n+"m", n+"ms")
		return
	}
	if count, ok := minutesOrMonths(e.value.Value); ok {
		help := "write " + plain(count) + "m for minutes, or " + plain(count*30) + "d for months of 30 days"
		if e.calendar {
			help = "write period: " + plain(count) + "m for minutes, or period: " + unitsOf(count, "month") + " and a zone, such as zone: UTC, for months"
		}
		v.report(e.at, rules.BadDuration, help, "%s may be minutes or months: %s", e.name, describe(e.value))
		return
	}
	if count, unit, days, ok := unevenUnit(e.value.Value); ok {
		_, fits := Duration(days)
		help := e.name + " has a fixed length, independent of the calendar"
		if e.name == "period" {
			help = "only a fixed window has a period by the calendar: write a fixed length"
		}
		if e.calendar && fits {
			help = "write period: " + unitsOf(count, unit) + " and a zone, such as zone: UTC, for windows of the calendar, or a fixed length"
		}
		if fits {
			help += ": " + days + " is about as long"
		}
		v.report(e.at, rules.BadDuration, help, "%s cannot be in %ss, because their lengths differ", e.name, unit)
		return
	}
	v.report(e.at, rules.BadDuration, durationHelp, "%s must be a duration, not %s", e.name, describe(e.value))
	v.meant(meantDuration(e.value.Value)...)
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

// unitsOf is a number of calendar units as a period has it.
func unitsOf(count int64, unit string) string {
	if count == 1 {
		return unit
	}
	return plain(count) + " " + unit + "s"
}

var calendarForm = regexp.MustCompile(`^(day|week|month|year|[1-9][0-9]{0,3} (days?|weeks?|months?|years?))$`)

// parseCalendar returns the calendar of a period such as "month" or "3 months", or false for another text.
func parseCalendar(text string) (c runtime.Calendar, ok bool) {
	if !calendarForm.MatchString(text) {
		return c, false
	}
	count, unit, several := strings.Cut(text, " ")
	if !several {
		count, unit = "1", text
	}
	// One unit has one form, so that equal limits have equal policies.
	if c.Count, _ = strconv.Atoi(count); c.Count == 1 {
		c.Count = 0
	}
	c.Unit, _ = named(runtime.CalendarUnits(), strings.TrimSuffix(unit, "s"))
	return c, true
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

var (
	// wholeForm is a number that YAML 1.1, YAML 1.2 and people read alike.
	wholeForm   = regexp.MustCompile(`^-?[0-9]+(_[0-9]+)*$`)
	decimalForm = regexp.MustCompile(`^[-+]?[0-9]+$`)
	octalForm   = regexp.MustCompile(`^[-+]?0[0-9]+$`)
)

// unboundedWord is the maxReserved of a limit whose reservations have no bound. It must be written out, because such a
// limit has no worst case.
const unboundedWord = "unbounded"

// mostReserved is the largest maxReserved that is a number: the next one means unbounded.
const mostReserved = runtime.Unbounded - 1

// unboundedSynonyms are the words for it in other limiters.
var unboundedSynonyms = []string{"unlimited", "infinite", "infinity", "inf", ".inf", "any", "no bound", "nobound"}

// reserved reads a maxReserved.
func (v values) reserved(into *int64, e entry) (ok bool) {
	switch {
	case isWord(e.value, unboundedWord):
		*into = runtime.Unbounded
		return true
	case v.meantInstead(e, unboundedWord, unboundedSynonyms):
		return false
	}
	help := ""
	if slices.Contains([]string{"none", "off", "no", "never"}, string(diag.Fold(e.value.Value))) {
		help = "leave maxReserved out for no reservations, or write " + unboundedWord
	}
	*into, ok = v.number(e, 0, mostReserved, help)
	return ok
}

// unlimited is the rate of a plan without a limit, or of overrides that can lift the limit.
const unlimited = "unlimited"

// unlimitedSynonyms are words for a rate without a bound.
var unlimitedSynonyms = []string{"none", "off", "infinite", "infinity", ".inf", "inf", "unbounded", "no limit", "nolimit", "any", "all", "-1"}

// boundless are the words for no bound, folded, which cannot stand for a required number.
var boundless = []string{"unlimited", "unbounded", "none", "off", "infinite", "infinity", ".inf", "inf", "nolimit", "any", "all", "never", "null"}

func isWord(value *yaml.Node, word string) bool { return isString(value) && value.Value == word }

// meantInstead reports a value that probably means a word in place of a number, and returns whether it does.
func (v values) meantInstead(e entry, word string, synonyms []string) bool {
	text := strings.ToLower(e.value.Value)
	isScalar := e.value.Kind == yaml.ScalarNode && e.value.Tag != "!!null"
	if !isScalar || !slices.Contains(synonyms, text) && diag.Nearest(text, []string{word}) == "" {
		return false
	}
	v.report(e.at, rules.NotWhole, "", "%s must be a whole number or %s, not %s", e.name, word, strings.TrimPrefix(describe(e.value), "the number "))
	v.meant(word)
	return true
}

// number reads a whole number from least to most. The help is for a value that is not a whole number.
func (v values) number(e entry, least, most int64, help string) (int64, bool) {
	plain := strings.ReplaceAll(e.value.Value, "_", "")
	number := e.value.Tag == "!!int" || e.value.Tag == "!!float"
	switch {
	// wholeForm matches 010 too, so this case must come first.
	case number && octalForm.MatchString(plain):
		v.leadingZero(e, plain)
	case number && wholeForm.MatchString(e.value.Value):
		if n, err := strconv.ParseInt(plain, 10, 64); err == nil && least <= n && n <= most {
			return n, true
		}
		larger := ""
		if most == mostReserved && !strings.HasPrefix(plain, "-") {
			larger = "write " + unboundedWord + " for reservations without a bound"
		}
		v.report(e.at, rules.OutOfRange, larger, "%s must be %s to %s, not %s", e.name, words.Number(least), words.Number(most), diag.Clip(e.value.Value))
	case e.value.Tag == "!!int":
		v.report(e.at, rules.NotWhole, "", "%s must be written in decimal digits, with optional _ between them, not %s", e.name, diag.Clip(e.value.Value))
		v.meant(inDecimal(plain))
	default:
		if help == "" && slices.Contains(boundless, string(diag.Fold(e.value.Value))) {
			help = "write a number, at most " + underscored(most)
		}
		v.report(e.at, rules.NotWhole, help, "%s must be a whole number, not %s", e.name,
			strings.TrimPrefix(describe(e.value), "the number "))
		v.meant(meantNumber(e.value))
	}
	return 0, false
}

// inDecimal returns an integer in the syntax of Go, such as 0x10, in decimal digits; "" for other text.
func inDecimal(text string) string {
	n, ok := new(big.Int).SetString(text, 0)
	if !ok {
		return ""
	}
	return n.String()
}

// leadingZero reports a number such as 010, which is 8 in YAML but 10 for most readers.
func (v values) leadingZero(e entry, plain string) {
	decimal, _ := new(big.Int).SetString(plain, 10)
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil && n != 0 {
		// 07 is 7 in either base, so only one reading is offered.
		if octal := strconv.FormatInt(n, 10); octal != decimal.String() {
			v.report(e.at, rules.LeadingZero, "", "%s is written %s, which YAML reads as octal %d", e.name, diag.Clip(e.value.Value), n)
			v.meant(decimal.String(), octal)
			return
		}
	}
	v.report(e.at, rules.LeadingZero, "", "%s is written %s, with a leading zero", e.name, diag.Clip(e.value.Value))
	v.meant(decimal.String())
}

var (
	floatForm  = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{0,18})?([eE]\+?[0-9]{1,2})?$`)
	commasForm = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+$`)
	scaledForm = regexp.MustCompile(`^([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([kKM])$`)
)

// meantNumber returns the whole number that a value probably means, or "".
func meantNumber(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	text := strings.ReplaceAll(n.Value, "_", "")
	switch {
	case n.Tag == "!!str" && decimalForm.MatchString(text):
		return text
	case floatForm.MatchString(text):
		return wholeNumber(text)
	case commasForm.MatchString(text):
		return strings.ReplaceAll(text, ",", "_")
	case scaledForm.MatchString(text):
		parts := scaledForm.FindStringSubmatch(text)
		if n, ok := spokenCount(parts[1], parts[2]); ok && n.IsInt() {
			return underscored(n.Num().Int64())
		}
	}
	return ""
}

// wholeNumber returns a number without its fraction and exponent; "" if it is not whole.
func wholeNumber(text string) string {
	n, ok := new(big.Rat).SetString(text)
	if !ok || !n.IsInt() || n.Num().Cmp(big.NewInt(math.MaxInt64)) > 0 {
		return ""
	}
	return n.Num().String()
}

var instantForm = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[-+][0-9]{2}:[0-9]{2})$`)

// The first and the last instant that an int64 of nanoseconds since 1970 can represent.
var (
	firstInstant = time.Unix(0, math.MinInt64)
	lastInstant  = time.Unix(0, math.MaxInt64)
)

var (
	offsetForm = regexp.MustCompile(`^[-+]?` + unitPattern + `+$`)
	dateForm   = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}`)
)

// firstUse is the start of windows that begin at each key's first request.
const firstUse = "first use"

const startInWords = "an instant, an offset or first use"

// startHelp is the remedy for a start of windows of fixed length. Sliding windows cannot start at the first use.
func startHelp(sliding bool) string {
	const instant, offset = "write an instant such as 2006-01-02T15:04:05Z", "an offset from 0:00 UTC such as 8h"
	if sliding {
		return instant + ", or " + offset
	}
	return instant + ", " + offset + ", or " + firstUse
}

// instant reads an RFC 3339 instant.
func (v values) instant(e entry) (runtime.Start, bool) {
	text := e.value.Value
	t, err := time.Parse(time.RFC3339Nano, text)
	switch {
	// time.Parse accepts more than RFC 3339, such as a comma before the fraction.
	case !instantForm.MatchString(text):
		v.report(e.at, rules.BadStart, "write an instant such as 2006-01-02T15:04:05Z", "start must be an instant with a time and a zone, not %s", diag.Quote(text))
		v.meant(meantInstant(text))
	case err != nil:
		v.report(e.at, rules.BadStart, "", "start is a time that does not exist: %s", diag.Clip(text))
	case t.Before(firstInstant), t.After(lastInstant):
		v.report(e.at, rules.BadStart, "", "start must be between the years 1678 and 2262, not %s", diag.Clip(text))
	default:
		return runtime.StartAt(t), true
	}
	return runtime.Start{}, false
}

// meantInstant returns the instant in UTC that a date or a time without a zone probably means, or "".
func meantInstant(text string) string {
	for _, layout := range []string{time.DateOnly, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Format(time.RFC3339)
		}
	}
	return ""
}

// offset reads an offset from 0:00 UTC on 1 January 1970.
func (v values) offset(e entry, sliding bool) (runtime.Start, bool) {
	text := e.value.Value
	// Without this, a misspelled "first use" would be reported as a wrong duration.
	if !sliding && diag.Nearest(text, []string{firstUse, "first request"}) != "" {
		v.report(e.at, rules.BadStart, "", "start must be %s, not %s", startInWords, describe(e.value))
		v.meant(firstUse)
		return runtime.Start{}, false
	}
	unsigned, negative := strings.CutPrefix(text, "-")
	sum, ok := exact(strings.TrimPrefix(unsigned, "+"))
	if !offsetForm.MatchString(text) || !ok || e.value.Tag != "!!str" {
		v.notOffset(e, sliding)
		return runtime.Start{}, false
	}
	length, ok := v.wholeNanoseconds(e, sum)
	if ok && length > runtime.MaxPeriod {
		v.report(e.at, rules.OutOfRange, "", "start must be an offset of at most %s, not %s", longestPeriod, diag.Clip(text))
		return runtime.Start{}, false
	}
	if negative {
		length = -length
	}
	return runtime.StartOffset(length), ok
}

func (v values) notOffset(e entry, sliding bool) {
	forms := startInWords
	if sliding {
		forms = "an instant or an offset"
	}
	v.report(e.at, rules.BadStart, startHelp(sliding), "start must be %s, not %s", forms, describe(e.value))
	if e.value.Tag == "!!int" || e.value.Tag == "!!float" {
		n := strings.ReplaceAll(e.value.Value, "_", "")
		v.meant(n+"s", n+"m", n+"h")
		return
	}
	v.meant(meantDuration(e.value.Value)...)
}

// docText reads the author's text. It becomes a comment in generated code, where some lines would be build constraints.
func (v values) docText(into *string, e entry) bool {
	text, ok := v.text(e, "text")
	if !ok {
		return false
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
		problem := docProblem(line)
		if problem == "" {
			continue
		}
		v.report(v.docLine(e, i), rules.BadDoc, "write it in other words", "%s", problem)
		if ok = false; !isLiteral(e.value) {
			// Errors of the other lines would have the same place.
			break
		}
	}
	*into = strings.TrimRight(strings.Join(lines, "\n"), "\n")
	return ok
}

// IsBuildLine reports whether gofmt treats a line of a comment as an old build constraint, which it moves to the top of
// the file. The line may begin with slashes.
func IsBuildLine(line string) bool {
	bare := strings.TrimLeftFunc(line, func(r rune) bool { return r == '/' || unicode.IsSpace(r) })
	return strings.HasPrefix(bare, "+build")
}

// docProblem returns the reason why a line cannot be part of a Go comment, or "".
func docProblem(line string) string {
	for _, r := range line {
		if Illegible(r) || r == utf8.RuneError {
			return fmt.Sprintf("doc has the character %U, which is not allowed in a Go comment", r)
		}
	}
	if IsBuildLine(line) {
		return "a line of doc cannot begin with +build, which is a build constraint in Go"
	}
	return ""
}

func isLiteral(n *yaml.Node) bool { return n.Style&yaml.LiteralStyle != 0 }

// docLine returns the place of a line of the text, or of the whole text if it is not literal.
func (v values) docLine(e entry, i int) diag.Span {
	// The YAML reader keeps the lines of literal text only.
	if !isLiteral(e.value) {
		return e.at
	}
	return v.src.WholeLine(min(e.value.Line+1+i, len(v.src.Lines)))
}

// People write a rate as they say it: "5/s", "10 requests per minute", "20rpm", "0.5" or "1k". The hints below name the
// rate and the period that mean the same.

const (
	// spokenNumber is a number with or without a fraction, separators and a scale.
	spokenNumber = `([0-9][0-9_,]{0,17}(?:\.[0-9]{1,9})?) ?([kKM]?)`
	// spokenUnit is the counted thing.
	spokenUnit = `(?:requests?|reqs?|r|tokens?|calls?|queries|messages|times|x)?`
)

var (
	perForm = regexp.MustCompile(`^` + spokenNumber + ` ?` + spokenUnit + ` ?(?:/|per |every |each |an? )(.*)$`)
	// shortForm is a number of requests, queries or tokens per time: 20rps.
	shortForm = regexp.MustCompile(`^` + spokenNumber + ` ?(?i:[rqt]p([smhd]))$`)
	timedForm = regexp.MustCompile(`^[0-9]{1,18}[smhdw]$`)
)

// rateHelp returns the remedy for a rate that is not a whole number of tokens, such as "10/s", "20rpm" or 0.5, beside a
// period, which may be "", and whether the rate itself implies one.
func rateHelp(text, period string) (help string, implies bool) {
	if parts := shortForm.FindStringSubmatch(text); parts != nil {
		return spokenRate(parts[1], parts[2], parts[3])
	}
	if parts := perForm.FindStringSubmatch(text); parts != nil {
		return spokenRate(parts[1], parts[2], strings.TrimSpace(parts[3]))
	}
	if timedForm.MatchString(text) {
		count := strings.TrimRight(text, "mhdwsM")
		return "write rate: " + count + " and period: 1" + text[len(count):] + ", or a number with all its zeros", false
	}
	n, ok := spokenCount(text, "")
	if !ok || n.IsInt() {
		return "", false
	}
	if rate, times, ok := wholeRate(n, period); ok {
		return "tokens are whole: write rate: " + rate + " and period: " + times, false
	}
	if denominator := n.Denom().Int64(); denominator <= mostTimes {
		return "tokens are whole: write rate: " + plain(n.Num().Int64()) + ", and " + n.Denom().String() + " times the period", false
	}
	return "", false
}

// spokenRate is rateHelp for a count per time.
func spokenRate(count, scale, per string) (help string, implies bool) {
	n, ok := spokenCount(count, scale)
	if !ok {
		return "", false
	}
	lengths := meantDuration(per)
	if len(lengths) == 0 {
		if !n.IsInt() {
			return "", false
		}
		return "write rate: " + plain(n.Num().Int64()) + ", and the time as period", false
	}
	rate, period, ok := wholeRate(n, lengths[0])
	if !ok {
		return "", false
	}
	return "write rate: " + rate + " and period: " + period, true
}

// separators drops what people write between the digits of a large number.
var separators = strings.NewReplacer("_", "", ",", "")

// spokenCount returns a positive number as people write it: 1,000 or 1.5k. It is false for numbers that no rate has.
func spokenCount(text, scale string) (*big.Rat, bool) {
	if text = separators.Replace(text); !floatForm.MatchString(text) {
		return nil, false
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, false
	}
	n.Mul(n, new(big.Rat).SetInt64(map[string]int64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6}[scale]))
	inRange := n.Num().IsInt64() && n.Denom().IsInt64() && n.Sign() > 0 && n.Num().Int64() <= runtime.MaxTokens
	return n, inRange
}

// mostTimes is by how much a hint multiplies a period.
const mostTimes = 1000

// wholeRate returns the smallest whole rate, and the period with which it grants n tokens per period. It is false if the
// period is not a duration, or such a period would be odd.
func wholeRate(n *big.Rat, period string) (rate, times string, ok bool) {
	length, ok := exact(period)
	// 1 per 10,000 seconds is a rate that people may mean, but 333,333 per 1,000,000 seconds is a rounded one.
	odd := n.Denom().Int64() > mostTimes && n.Num().Int64() > mostTimes
	if !ok || !length.IsInt() || odd {
		return "", "", false
	}
	if n.IsInt() {
		return plain(n.Num().Int64()), period, true // as it was written
	}
	long := length.Mul(length, new(big.Rat).SetInt(n.Denom()))
	if long.Cmp(new(big.Rat).SetInt64(int64(runtime.MaxPeriod))) > 0 {
		return "", "", false
	}
	return plain(n.Num().Int64()), words.Duration(time.Duration(long.Num().Int64())), true
}

func plain(n int64) string { return strconv.FormatInt(n, 10) }

// underscored is a number as files write large ones: 40_000.
func underscored(n int64) string { return strings.ReplaceAll(words.Number(n), ",", "_") }

// onErrorSynonyms are the words for an onError in other limiters.
var onErrorSynonyms = map[string]runtime.OnError{
	"allow": runtime.FailOpen, "pass": runtime.FailOpen, "true": runtime.FailOpen,
	"memory": runtime.FailLocal, "inmemory": runtime.FailLocal, "fallback": runtime.FailLocal, "insurance": runtime.FailLocal,
	"deny": runtime.FailClosed, "block": runtime.FailClosed, "false": runtime.FailClosed,
}

// modeSynonyms are the words for a mode in other limiters.
var modeSynonyms = map[string]runtime.Mode{
	"on": runtime.ModeEnforce, "enforced": runtime.ModeEnforce, "enabled": runtime.ModeEnforce, "true": runtime.ModeEnforce, "live": runtime.ModeEnforce,
	"dryrun": runtime.ModeShadow, "dry_run": runtime.ModeShadow, "dry-run": runtime.ModeShadow, "dry run": runtime.ModeShadow,
	"log": runtime.ModeShadow, "log_only": runtime.ModeShadow, "monitor": runtime.ModeShadow, "report": runtime.ModeShadow,
	"disabled": runtime.ModeOff, "false": runtime.ModeOff, "no": runtime.ModeOff, "none": runtime.ModeOff, "allow": runtime.ModeOff, "unlimited": runtime.ModeOff,
	"deny": runtime.ModeBlock, "blocked": runtime.ModeBlock, "reject": runtime.ModeBlock,
}

// durabilitySynonyms are the words for a durability in databases.
var durabilitySynonyms = map[string]runtime.Durability{
	"off": runtime.DurabilityRelaxed, "normal": runtime.DurabilityRelaxed, "async": runtime.DurabilityRelaxed,
	"relax": runtime.DurabilityRelaxed, "false": runtime.DurabilityRelaxed,
	"on": runtime.DurabilityFull, "extra": runtime.DurabilityFull, "sync": runtime.DurabilityFull,
	"strict": runtime.DurabilityFull, "true": runtime.DurabilityFull,
}
