// Package words writes numbers, durations and lists the way that all texts for people do: diagnostics, doc comments,
// explanations, reviews and replays.
package words

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The units of a duration that package time lacks.
const (
	Day  = 24 * time.Hour
	Week = 7 * Day
)

// Number returns n with its digits in groups of three: 40,000.
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	start := len(text) % 3
	if start == 0 || text[:start] == "-" {
		start += 3
	}
	for i := start; i < len(text); i += 4 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Underscored returns n as files and Go write large numbers: 40_000.
func Underscored(n int64) string { return strings.ReplaceAll(Number(n), ",", "_") }

// Bound is a number of things that may have no bound, which is [math.MaxInt64].
func Bound(n int64) string {
	if n == math.MaxInt64 {
		return "no bound"
	}
	return Number(n)
}

// Count returns a number of things: "1 token", "40,000 tokens".
func Count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Number(n) + " " + thing + "s"
}

// List joins items with commas, and the last two with a conjunction: "a, b and c".
func List(items []string, conjunction string) string {
	n := len(items)
	if n < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:n-1], ", ") + " " + conjunction + " " + items[n-1]
}

// Of returns a text for each element of a list.
func Of[T any](list []T, text func(T) string) []string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = text(one)
	}
	return texts
}

// Holder names the holder of one count, given the parts of a limit's key: "one userID and team", or "all callers
// together" for a limit without a key.
func Holder(keyParts []string) string {
	if len(keyParts) == 0 {
		return "all callers together"
	}
	return "one " + List(keyParts, "and")
}

// Clip returns text, or its first most-1 runes and "…" if it has more than most.
func Clip(text string, most int) string {
	if len(text) <= most || utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// Unit is a unit of a duration.
type Unit struct {
	Length time.Duration
	// Name is "minute", and Symbol "m", as in limits.yaml.
	Name, Symbol string
}

// Units are all units, the longest first.
var Units = []Unit{
	{Week, "week", "w"}, {Day, "day", "d"}, {time.Hour, "hour", "h"}, {time.Minute, "minute", "m"}, {time.Second, "second", "s"},
	{time.Millisecond, "millisecond", "ms"}, {time.Microsecond, "microsecond", "us"}, {time.Nanosecond, "nanosecond", "ns"},
}

// Period returns a positive duration in its largest whole unit, as it reads after "per": "minute", "90 seconds",
// "2 weeks".
func Period(d time.Duration) string {
	i := 0
	for d%Units[i].Length != 0 {
		i++
	}
	if unit := Units[i]; d != unit.Length {
		return Count(int64(d/unit.Length), unit.Name)
	}
	return Units[i].Name
}

// Duration returns the exact duration in the syntax of limits.yaml: "1d12h", "1m30s", or "2w" for whole weeks.
func Duration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	used := Units
	if d%Week != 0 {
		used = Units[1:] // 8d, not 1w1d
	}
	text := ""
	if d < 0 {
		text, d = "-", -d
	}
	for _, unit := range used {
		if n := d / unit.Length; n > 0 {
			text += strconv.FormatInt(int64(n), 10) + unit.Symbol
			d %= unit.Length
		}
	}
	return text
}

// Length writes a duration with about three digits, rounded up, because nanoseconds do not matter beside hours.
func Length(d time.Duration) string {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond} {
		if d >= 100*unit {
			return Duration((d + unit - 1) / unit * unit)
		}
	}
	return Duration(d)
}
