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

// readDuration returns a reader of a positive duration.
func readDuration[T any](at func(*T) *time.Duration) func(*parser, *T, entry) bool {
	return func(p *parser, into *T, e entry) (ok bool) {
		*at(into), ok = p.length(e)
		return ok
	}
}

// length reads a duration from a nanosecond to the longest period.
func (p *parser) length(e entry) (time.Duration, bool) {
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
		p.report(e.at, rules.OutOfRange, "", "%s must be 1ns to %s, not %s", e.name, longestPeriod, diag.Clip(e.value.Value))
		return 0, false
	}
	return length, true
}

// wholeNanoseconds returns a duration, or reports one with a fraction of a nanosecond.
func (p *parser) wholeNanoseconds(e entry, sum *big.Rat) (time.Duration, bool) {
	if !sum.IsInt() {
		p.report(e.at, rules.BadDuration, "", "%s is not a whole number of nanoseconds: %s", e.name, diag.Clip(e.value.Value))
		return 0, false
	}
	if !sum.Num().IsInt64() {
		// The longest duration is out of range for each caller.
		return 1<<63 - 1, true
	}
	return time.Duration(sum.Num().Int64()), true
}

// notDuration reports a value that is not a duration.
func (p *parser) notDuration(e entry) {
	if e.value.Tag == "!!int" || e.value.Tag == "!!float" || decimalForm.MatchString(e.value.Value) {
		p.report(e.at, rules.BadDuration, durationHelp, "%s must be a duration with a unit, not %s", e.name, describe(e.value))
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
		p.report(e.at, rules.BadDuration, help, "%s cannot be in %s, because their lengths differ", e.name, unit)
		return
	}
	p.report(e.at, rules.BadDuration, durationHelp, "%s must be a duration, not %s", e.name, describe(e.value))
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

// readTokens returns a reader of a number of tokens.
func readTokens[T any](least int64, at func(*T) *int64) func(*parser, *T, entry) bool {
	return func(p *parser, into *T, e entry) (ok bool) {
		*at(into), ok = p.number(e, least, runtime.MaxTokens, "")
		return ok
	}
}

// rate reads a rate, which people also write as "10 per minute".
func (p *parser) rate(limit *draft, e entry) bool {
	help, implies := rateHelp(e.value.Value, limit.writtenPeriod)
	n, ok := p.number(e, 1, runtime.MaxTokens, help)
	limit.policy.Rate = n
	// The remedy contains the period, so that it need not be reported as missing.
	limit.impliesPeriod = limit.impliesPeriod || !ok && implies
	return ok
}

// unboundedWord is the maxReserved of a limit whose reservations have no bound. It must be written out, because such a
// limit has no worst case.
const unboundedWord = "unbounded"

// mostReserved is the largest maxReserved that is a number: the next one means unbounded.
const mostReserved = runtime.Unbounded - 1

// unboundedSynonyms are the words for it in other limiters.
var unboundedSynonyms = []string{"unlimited", "infinite", "infinity", "inf", ".inf", "any", "no bound", "nobound"}

// reserved reads a maxReserved.
func (p *parser) reserved(into *int64, e entry) (ok bool) {
	switch {
	case isWord(e.value, unboundedWord):
		*into = runtime.Unbounded
		return true
	case p.meantInstead(e, unboundedWord, unboundedSynonyms):
		return false
	}
	*into, ok = p.number(e, 0, mostReserved, "")
	return ok
}

// unlimited is the rate of a plan without a limit, or of overrides that can lift the limit.
const unlimited = "unlimited"

// unlimitedSynonyms are words for a rate without a bound.
var unlimitedSynonyms = []string{"none", "off", "infinite", "infinity", ".inf", "inf", "unbounded", "no limit", "nolimit", "any", "all", "-1"}

func isWord(value *yaml.Node, word string) bool { return isString(value) && value.Value == word }

// meantInstead reports a value that probably means a word in place of a number, and returns whether it does.
func (p *parser) meantInstead(e entry, word string, synonyms []string) bool {
	text := strings.ToLower(e.value.Value)
	isScalar := e.value.Kind == yaml.ScalarNode && e.value.Tag != "!!null"
	if !isScalar || !slices.Contains(synonyms, text) && diag.Nearest(text, []string{word}) == "" {
		return false
	}
	p.report(e.at, rules.NotWhole, "", "%s must be a whole number or %s, not %s", e.name, word, strings.TrimPrefix(describe(e.value), "the number "))
	p.meant(word)
	return true
}

func (p *parser) shards(limit *draft, e entry) bool {
	n, ok := p.number(e, 1, runtime.MaxShards, "")
	limit.policy.Shards = int(n)
	return ok
}

// number reads a whole number from least to most. The help is for a value that is not a whole number.
func (p *parser) number(e entry, least, most int64, help string) (int64, bool) {
	plain := strings.ReplaceAll(e.value.Value, "_", "")
	number := e.value.Tag == "!!int" || e.value.Tag == "!!float"
	switch {
	// wholeForm matches 010 too, so this case must come first.
	case number && octalForm.MatchString(plain):
		p.leadingZero(e, plain)
	case number && wholeForm.MatchString(e.value.Value):
		if n, err := strconv.ParseInt(plain, 10, 64); err == nil && least <= n && n <= most {
			return n, true
		}
		larger := ""
		if most == mostReserved && !strings.HasPrefix(plain, "-") {
			larger = "write " + unboundedWord + " for reservations without a bound"
		}
		p.report(e.at, rules.OutOfRange, larger, "%s must be %s to %s, not %s", e.name, words.Number(least), words.Number(most), diag.Clip(e.value.Value))
	case e.value.Tag == "!!int":
		p.report(e.at, rules.NotWhole, "", "%s must be written in decimal digits, with optional _ between them, not %s", e.name, diag.Clip(e.value.Value))
		p.meant(inDecimal(plain))
	default:
		p.report(e.at, rules.NotWhole, help, "%s must be a whole number, not %s", e.name,
			strings.TrimPrefix(describe(e.value), "the number "))
		p.meant(meantNumber(e.value))
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
func (p *parser) leadingZero(e entry, plain string) {
	decimal, _ := new(big.Int).SetString(plain, 10)
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil && n != 0 {
		// 07 is 7 in either base, so only one reading is offered.
		if octal := strconv.FormatInt(n, 10); octal != decimal.String() {
			p.report(e.at, rules.LeadingZero, "", "%s is written %s, which YAML reads as octal %d", e.name, diag.Clip(e.value.Value), n)
			p.meant(decimal.String(), octal)
			return
		}
	}
	p.report(e.at, rules.LeadingZero, "", "%s is written %s, with a leading zero", e.name, diag.Clip(e.value.Value))
	p.meant(decimal.String())
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

// docText reads the author's text. It becomes a comment in generated code, where some lines would be build constraints.
func (p *parser) docText(into *string, e entry) bool {
	text, ok := p.text(e, "text")
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
		p.report(p.docLine(e, i), rules.BadDoc, "write it in other words", "%s", problem)
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
func (p *parser) docLine(e entry, i int) diag.Span {
	// The YAML reader keeps the lines of literal text only.
	if !isLiteral(e.value) {
		return e.at
	}
	return p.src.WholeLine(min(e.value.Line+1+i, len(p.src.Lines)))
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

// spokenCount returns a positive number as people write it: 1,000 or 1.5k. It is false for numbers that no rate has.
func spokenCount(text, scale string) (*big.Rat, bool) {
	if text = strings.NewReplacer("_", "", ",", "").Replace(text); !floatForm.MatchString(text) {
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
	odd := n.Denom().Int64() > mostTimes && n.Num().Int64() > 1
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

// periodText returns the text of the period among the entries of a limit, or "".
func periodText(entries []entry) string {
	for _, e := range entries {
		if e.name == "period" && e.value.Kind == yaml.ScalarNode {
			return e.value.Value
		}
	}
	return ""
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
	"disabled": runtime.ModeOff, "false": runtime.ModeOff, "none": runtime.ModeOff, "allow": runtime.ModeOff, "unlimited": runtime.ModeOff,
	"deny": runtime.ModeBlock, "blocked": runtime.ModeBlock, "reject": runtime.ModeBlock,
}

// durabilitySynonyms are the words for a durability in databases.
var durabilitySynonyms = map[string]runtime.Durability{
	"off": runtime.DurabilityRelaxed, "normal": runtime.DurabilityRelaxed, "async": runtime.DurabilityRelaxed,
	"relax": runtime.DurabilityRelaxed, "false": runtime.DurabilityRelaxed,
	"on": runtime.DurabilityFull, "extra": runtime.DurabilityFull, "sync": runtime.DurabilityFull,
	"strict": runtime.DurabilityFull, "true": runtime.DurabilityFull,
}

// atMost is the only name in the map of a number that callers give: rate: {at most: 10_000}. No plan can have it.
const atMost = "at most"

// isAtMost reports whether a value is the map of a number that callers give.
func isAtMost(value *yaml.Node) bool {
	if value.Kind == yaml.MappingNode {
		for i := 0; i < len(value.Content); i += 2 {
			if isWord(value.Content[i], atMost) {
				return true
			}
		}
	}
	return false
}

// meantAtMost returns "at most" for a name that means it, and otherwise "".
func meantAtMost(name string) string {
	switch strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(name)) {
	case "atmost", "most", "max", "maximum", "upto", "limit":
		return atMost
	}
	return ""
}

func atMostHelp(field string) string { return "write " + field + ": {" + atMost + ": 10_000}" }

// mostOf returns where a policy has the number of a field, and the most that callers can give.
func (p *unchecked) mostOf(field string) (number, most *int64) {
	switch field {
	case "rate":
		return &p.Rate, &p.AtMost.Rate
	case "capacity":
		return &p.Capacity, &p.AtMost.Capacity
	case "maxReserved":
		return &p.MaxReserved, &p.AtMost.MaxReserved
	}
	return nil, nil
}

// readAtMost reads the most of a number that callers give, by the reader of the number.
func (p *parser) readAtMost(limit *draft, e entry, read func(*parser, *draft, entry) bool) bool {
	number, most := limit.policy.mostOf(e.name)
	if number == nil {
		p.report(e.at, rules.BadNumbers, "give one "+e.name+", or one for each plan", "callers cannot give the %s", e.name)
		return false
	}
	before := len(p.found)
	entries, _ := p.entries(e.value, e.at, e.name, "")
	for _, of := range entries {
		switch {
		case of.name != atMost:
			p.report(of.named, rules.BadNumbers, atMostHelp(e.name), "%s is either by plan or from callers: beside %q, it has nothing else", e.name, atMost)
		case of.again || p.muted[of.value]:
		case isWord(of.value, unlimited) || isWord(of.value, unboundedWord):
			p.report(of.at, rules.BadNumbers, atMostHelp(e.name), "the most that callers can give is a number, not %s", of.value.Value)
		default:
			of.name = e.name
			if read(p, limit, of) && *number == 0 {
				p.report(of.at, rules.BadNumbers, "leave "+e.name+" out, or write "+e.name+": 0", "callers can give a number only if it can be 1 or more")
			}
		}
	}
	*most = *number
	return len(p.found) == before
}
