package spec

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// start reads when windows begin.
func (p *reader) start(limit *draft, e entry) (ok bool) {
	text := e.value.Value
	words, inWords := parseCalendarStart(text)
	switch {
	case e.value.Kind != yaml.ScalarNode || e.value.Tag == "!!null":
		p.wrongType(e, startInWords, "")
		return false
	case inWords:
		// Kept until the period is known.
		limit.calendarStart = words
		return true
	case text == firstUse:
		limit.policy.Start = runtime.StartFirstUse()
		return true
	// Zero needs no unit.
	case text == "0":
		limit.policy.Start = runtime.StartOffset(0)
		return true
	case dateForm.MatchString(text):
		limit.policy.Start, ok = p.instant(e)
	default:
		limit.policy.Start, ok = p.offset(e)
	}
	return ok
}

const startInWords = "an instant, an offset or first use"

// firstUse is the start of windows that begin at each key's first request.
const firstUse = "first use"

// anniversary is the start of windows whose keys have their own first day.
const anniversary = "anniversary"

const instantPattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[-+][0-9]{2}:[0-9]{2})$`

// The first and the last instant that an int64 of nanoseconds since 1970 can represent.
var (
	firstInstant = time.Unix(0, math.MinInt64)
	lastInstant  = time.Unix(0, math.MaxInt64)
)

var (
	instantForm = regexp.MustCompile(instantPattern)
	offsetForm  = regexp.MustCompile(offsetPattern)
	dateForm    = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}`)
)

// instant reads an RFC 3339 instant.
func (p *reader) instant(e entry) (runtime.Start, bool) {
	text := e.value.Value
	t, err := time.Parse(time.RFC3339Nano, text)
	switch {
	// time.Parse accepts more than RFC 3339, such as a comma before the fraction.
	case !instantForm.MatchString(text):
		p.report(e.at, badStart, "write an instant such as 2006-01-02T15:04:05Z", "start must be an instant with a time and a zone, not %s", quote(text))
		p.meant(meantInstant(text))
	case err != nil:
		p.report(e.at, badStart, "", "start is a time that does not exist: %s", clip(text))
	case t.Before(firstInstant), t.After(lastInstant):
		p.report(e.at, badStart, "", "start must be between the years 1678 and 2262, not %s", clip(text))
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
func (p *reader) offset(e entry) (runtime.Start, bool) {
	text := e.value.Value
	// Without this, a misspelled "first use" would be reported as a wrong duration.
	if Nearest(text, []string{firstUse, "first request"}) != "" {
		p.report(e.at, badStart, "", "start must be %s, not %s", startInWords, describe(e.value))
		p.meant(firstUse)
		return runtime.Start{}, false
	}
	unsigned, negative := strings.CutPrefix(text, "-")
	sum, ok := exact(strings.TrimPrefix(unsigned, "+"))
	if !offsetForm.MatchString(text) || !ok || e.value.Tag != "!!str" {
		p.notOffset(e)
		return runtime.Start{}, false
	}
	length, ok := p.wholeNanoseconds(e, sum)
	if ok && length > runtime.MaxPeriod {
		p.report(e.at, outOfRange, "", "start must be an offset of at most %s, not %s", longestPeriod, clip(text))
		return runtime.Start{}, false
	}
	if negative {
		length = -length
	}
	return runtime.StartOffset(length), ok
}

func (p *reader) notOffset(e entry) {
	p.report(e.at, badStart, "write an instant such as 2006-01-02T15:04:05Z, an offset from 0:00 UTC such as 8h, or first use",
		"start must be %s, not %s", startInWords, describe(e.value))
	if e.value.Tag == "!!int" || e.value.Tag == "!!float" {
		n := strings.ReplaceAll(e.value.Value, "_", "")
		p.meant(n+"s", n+"m", n+"h")
		return
	}
	p.meant(meantDuration(e.value.Value)...)
}

// calendarStartPattern is for editors: the forms that [parseCalendarStart] reads, with more combinations of them.
const calendarStartPattern = `^(anniversary|monday|tuesday|wednesday|thursday|friday|saturday|sunday|` +
	`((january|february|march|april|may|june|july|august|september|october|november|december)( |$))?([0-9]{1,2}(st|nd|rd|th))?|` +
	`[0-9]{4}-[0-9]{2}-[0-9]{2})( ?([01][0-9]|2[0-3]):[0-5][0-9])?$`

var (
	ordinalForm   = regexp.MustCompile(`^([1-9]|[12][0-9]|3[01])(st|nd|rd|th)$`)
	timeOfDayForm = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)
)

// parseCalendarStart reads words such as "15th 06:00". It returns false if one is unknown or of a sort that is given twice.
func parseCalendarStart(text string) (s calendarStart, ok bool) {
	for word := range strings.FieldsSeq(text) {
		word, was := strings.ToLower(word), s
		switch {
		case word == anniversary:
			s.anniversary = true
		case ordinalForm.MatchString(word):
			s.day, _ = strconv.Atoi(word[:len(word)-2])
			if ordinal(s.day) != word {
				return s, false
			}
		case timeOfDayForm.MatchString(word):
			s.at = word
		case monthNamed(word) > 0:
			s.month = monthNamed(word)
		case weekdayNamed(word) >= 0:
			s.weekday = word
		default:
			day, err := time.Parse(time.DateOnly, word)
			if err != nil || day.Year() < 1 {
				return s, false
			}
			s.date = runtime.DateOf(day)
		}
		if again := was != (calendarStart{}) && was == s; again {
			return s, false
		}
	}
	return s, s != calendarStart{}
}

func monthNamed(word string) time.Month {
	for month := time.January; month <= time.December; month++ {
		if strings.ToLower(month.String()) == word {
			return month
		}
	}
	return 0
}

func weekdayNamed(word string) time.Weekday {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.ToLower(day.String()) == word {
			return day
		}
	}
	return -1
}

// ordinal returns "1st", "2nd", "15th".
func ordinal(n int) string {
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
