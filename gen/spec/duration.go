package spec

import (
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

// units are the units of a duration in nanoseconds. The micro sign and the Greek letter mu look alike.
var units = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
	"d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// longestPeriod is the longest period in days.
var longestPeriod = strconv.FormatInt(int64(runtime.MaxPeriod/words.Day), 10) + "d"

// exact returns the length of a duration such as 1d12h in nanoseconds, without rounding. It is false if
// the text is not a duration.
func exact(text string) (*big.Rat, bool) {
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

func (p *parser) period(limit *Limit, e entry) (ok bool) {
	limit.Policy.Period, ok = p.length(e)
	return ok
}

func (p *parser) timeout(limit *Limit, e entry) (ok bool) {
	limit.Policy.Timeout, ok = p.length(e)
	return ok
}

func (p *parser) denyCache(limit *Limit, e entry) (ok bool) {
	limit.Policy.DenyCache, ok = p.length(e)
	return ok
}

// length reads a duration that is longer than nothing and no longer than a period may be.
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
		p.report(e.at, outOfRange, "", "%s must be 1ns to %s, not %s", e.name, longestPeriod, clip(e.value.Value))
		return 0, false
	}
	return length, true
}

// wholeNanoseconds returns a duration, or reports that it has a part of a nanosecond. One that is too long
// is cut to the longest.
func (p *parser) wholeNanoseconds(e entry, sum *big.Rat) (time.Duration, bool) {
	if !sum.IsInt() {
		p.report(e.at, badDuration, "", "%s is not a whole number of nanoseconds: %s", e.name, clip(e.value.Value))
		return 0, false
	}
	if !sum.Num().IsInt64() {
		return 1<<63 - 1, true
	}
	return time.Duration(sum.Num().Int64()), true
}

// notDuration reports a value that is no duration.
func (p *parser) notDuration(e entry) {
	if e.value.Tag == "!!int" || e.value.Tag == "!!float" || decimalForm.MatchString(e.value.Value) {
		p.report(e.at, badDuration, durationHelp, "%s must be a duration with a unit, not %s", e.name, describe(e.value))
		n := strings.ReplaceAll(e.value.Value, "_", "")
		p.meant(n+"s", n+"m", n+"ms")
		return
	}
	if unit, days, ok := unevenUnit(e.value.Value); ok {
		help := e.name + " has a fixed length and does not follow the calendar"
		if sum, _ := exact(days); sum.Cmp(new(big.Rat).SetInt64(int64(runtime.MaxPeriod))) <= 0 {
			help += ": " + days + " is about as long"
		}
		p.report(e.at, badDuration, help, "%s cannot be counted in %s, whose lengths differ", e.name, unit)
		return
	}
	p.report(e.at, badDuration, durationHelp, "%s must be a duration, not %s", e.name, describe(e.value))
	p.meant(meantDuration(e.value.Value)...)
}

const durationHelp = "write a number and a unit, such as 90s, 5m, 1h or 1d"
