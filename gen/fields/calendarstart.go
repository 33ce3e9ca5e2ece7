package fields

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// calendarStart is a start in the words of a calendar.
type calendarStart struct {
	// words are the kinds of words that are given.
	words startWord
	// from has the given parts of the first day, and for a weekday such a day.
	from runtime.Date
	at   time.Duration
}

// startWord is a set of sorts of words. A start has at most one word of each.
type startWord int

const (
	anniversaryWord startWord = 1 << iota
	dateWord
	weekdayWord
	monthWord
	dayWord
	timeWord
)

// anniversary is the start of windows whose keys have their own first day.
const anniversary = "anniversary"

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
		word, sort := strings.ToLower(word), dateWord
		month, isMonth := diag.Named(months, word)
		weekday, isWeekday := diag.Named(weekdays, word)
		switch {
		case word == anniversary:
			sort = anniversaryWord
		case ordinalForm.MatchString(word):
			sort = dayWord
			s.from.Day, _ = strconv.Atoi(word[:len(word)-2])
			if ordinal(s.from.Day) != word {
				return s, false
			}
		case timeOfDayForm.MatchString(word):
			clock, _ := time.Parse("15:04", word)
			sort, s.at = timeWord, time.Duration(clock.Hour())*time.Hour+time.Duration(clock.Minute())*time.Minute
		case isMonth:
			sort, s.from.Month = monthWord, month
		case isWeekday:
			// 4 January 1970 was a Sunday.
			sort, s.from = weekdayWord, runtime.Date{Year: 1970, Month: time.January, Day: 4 + int(weekday)}
		default:
			day, err := time.Parse(time.DateOnly, word)
			if err != nil || day.Year() < 1 {
				return s, false
			}
			s.from = runtime.DateOf(day)
		}
		if s.words&sort != 0 {
			return s, false
		}
		s.words |= sort
	}
	return s, s.words != 0
}

// months and weekdays are words of a start in calendar units, which has at most one of each.
var (
	months = []time.Month{
		time.January, time.February, time.March, time.April, time.May, time.June,
		time.July, time.August, time.September, time.October, time.November, time.December,
	}
	weekdays = []time.Weekday{time.Sunday, time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday, time.Saturday}
)

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

// hourForm is a time of day as people write it.
var hourForm = regexp.MustCompile(`^(?i)([0-9]{1,2})(?::([0-9]{2}))? ?(am|pm)?$`)

// meantCalendarStart returns the start of a calendar that a text probably means, or "".
func meantCalendarStart(c runtime.Calendar, text string) string {
	text = strings.ToLower(text)
	day, err := strconv.Atoi(text)
	switch {
	case text == "midnight":
		return "00:00"
	case text == "noon":
		return "12:00"
	case err == nil && c.Unit == runtime.Month && c.Count < 2 && 1 <= day && day <= 31:
		return ordinal(day)
	case err != nil && hourForm.MatchString(text):
		parts := hourForm.FindStringSubmatch(text)
		hour, _ := strconv.Atoi(parts[1])
		if parts[3] != "" {
			hour %= 12
		}
		if parts[3] == "pm" {
			hour += 12
		}
		if clock := fmt.Sprintf("%02d:%s", hour, cmp.Or(parts[2], "00")); timeOfDayForm.MatchString(clock) {
			return clock
		}
	case c.Unit == runtime.Week && c.Count < 2 && len(text) >= 3:
		for _, weekday := range weekdays {
			if name := strings.ToLower(weekday.String()); strings.HasPrefix(name, text) || text == name+"s" {
				return name
			}
		}
	}
	return ""
}

// startMore explains the starts of calendars in the reference.
const startMore = "For a `period` in calendar units, `start` is a time of day such as `06:00`, or a first day with or without one: a weekday for `week`; " +
	"`15th` for `month`; `april 6th` for `year`; a date such as `2024-04-06` for `3 months` and other numbers of units; or `anniversary`, with which the method has a parameter " +
	"for each key's own first day. Without a date, several units are counted from 1 January 1970, and weeks from 5 January. In months without a 29th, 30th or 31st, windows begin on the last day."

// startForms are the forms of a calendar's start, by unit.
var startForms = map[runtime.CalendarUnit]string{
	runtime.Day:   "a time of day such as 06:00",
	runtime.Week:  "a weekday such as monday, a time of day such as 06:00, both, or anniversary",
	runtime.Month: "a day such as 15th, a time of day such as 06:00, both, or anniversary",
	runtime.Year:  "a day such as april 6th, a time of day such as 06:00, both, or anniversary",
}

// startFormsOf describes the starts of a calendar.
func startFormsOf(c runtime.Calendar) string {
	if c.Count > 1 {
		return "the first day of a window such as 2024-04-06, a time of day such as 06:00, both, or anniversary"
	}
	return startForms[c.Unit]
}

// apply sets the start of a calendar, and reports whether its words fit the unit. Equal windows get equal calendars.
func (s calendarStart) apply(c *runtime.Calendar) (fits bool) {
	c.At = s.at
	several, from := c.Count > 1, s.from
	switch s.words &^ timeWord {
	case 0:
		return true
	case anniversaryWord:
		c.Anniversary = true
		return several || c.Unit != runtime.Day
	case dateWord:
		if fits = several || c.Unit != runtime.Day; several {
			c.From = from
			return fits
		}
	case weekdayWord:
		fits = c.Unit == runtime.Week && !several
	case monthWord, monthWord | dayWord:
		from.Year, from.Day = 1972, max(1, from.Day) // a leap year
		fits = c.Unit == runtime.Year && !several && from.Valid()
	case dayWord:
		from.Year, from.Month = 1970, time.January
		fits = c.Unit == runtime.Month && !several
	}
	c.From = simplest(c.Unit, from)
	return fits
}

// simplest returns the first day of windows of one unit in its simplest form, zero for the default.
func simplest(unit runtime.CalendarUnit, d runtime.Date) runtime.Date {
	switch unit {
	case runtime.Week:
		d = runtime.Date{Year: 1970, Month: time.January, Day: 5 + (int(weekdayOf(d))+6)%7}
		if d.Day == 5 {
			return runtime.Date{}
		}
	case runtime.Month:
		d.Year, d.Month = 1970, time.January
	case runtime.Year:
		if d.Year = 1970; !d.Valid() {
			d.Year = 1972
		}
	case runtime.Day:
		return runtime.Date{}
	}
	if (d == runtime.Date{Year: 1970, Month: time.January, Day: 1}) {
		return runtime.Date{}
	}
	return d
}

func weekdayOf(d runtime.Date) time.Weekday {
	return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Weekday()
}

// effectiveCalendarStart returns the start of a calendar as limits.yaml writes it, "" for the default.
func effectiveCalendarStart(c runtime.Calendar) string {
	var parts []string
	switch from := c.From; {
	case c.Anniversary:
		parts = append(parts, anniversary)
	case from == runtime.Date{}:
	case c.Count > 1:
		parts = append(parts, from.String())
	case c.Unit == runtime.Week:
		parts = append(parts, strings.ToLower(weekdayOf(from).String()))
	case c.Unit == runtime.Month:
		parts = append(parts, ordinal(from.Day))
	default:
		parts = append(parts, strings.ToLower(from.Month.String()), ordinal(from.Day))
	}
	if c.At > 0 {
		parts = append(parts, timeOfDay(time.Time{}.Add(c.At)))
	}
	return strings.Join(parts, " ")
}

// calendarSentences describes when the windows of a calendar begin.
func calendarSentences(c runtime.Calendar) []string {
	zone := " in " + c.Zone
	if c.ZonePerKey {
		zone = " in each key's own time zone"
	}
	day, late := windowDay(c)
	sentences := []string{fmt.Sprintf("Windows begin %sat %s%s.", day, timeOfDay(time.Time{}.Add(c.At)), zone)}
	if late {
		sentences = append(sentences, "In a shorter month, a window begins on the last day.")
	}
	if c.PerKey() {
		changing := "time zone"
		switch {
		case c.ZonePerKey && c.Anniversary:
			changing = "time zone or its anniversary"
		case c.Anniversary:
			changing = "anniversary"
		}
		sentences = append(sentences, fmt.Sprintf("If a key's %s changes, its windows still begin at least %s apart.",
			changing, halfInWords(c)))
	}
	return sentences
}

// windowDay describes the days on which windows begin, and whether some months lack that day.
func windowDay(c runtime.Calendar) (day string, late bool) {
	every := "each " + c.Unit.String()
	if c.Count > 1 {
		every = "every " + calendarPeriod(c)
	}
	from := c.From
	if (from == runtime.Date{}) {
		from = runtime.Date{Year: 1970, Month: time.January, Day: 1}
		if c.Unit == runtime.Week {
			from.Day = 5
		}
	}
	months := c.Unit == runtime.Month || c.Unit == runtime.Year
	switch {
	case c.Anniversary:
		return fmt.Sprintf("on the day of each key's anniversary, and %s before and after it, ", every), months
	case c.Count > 1:
		return fmt.Sprintf("on %s, and %s before and after it, ", from, every), months && from.Day > 28
	case c.Unit == runtime.Week:
		return fmt.Sprintf("on each %s ", weekdayOf(from)), false
	case c.Unit == runtime.Month:
		return fmt.Sprintf("on the %s of each month ", ordinal(from.Day)), from.Day > 28
	case c.Unit == runtime.Year:
		return fmt.Sprintf("on %d %s of each year ", from.Day, from.Month), from.Month == time.February && from.Day > 28
	}
	return "", false
}

// halfInWords returns half of a window's mean length, rounded down to a length that people can read.
func halfInWords(c runtime.Calendar) string {
	half := c.Period() / 2
	if half >= 2*words.Day {
		half = half.Truncate(words.Day)
	}
	return words.Duration(half)
}

// timeOfDay leaves out seconds that are zero.
func timeOfDay(t time.Time) string {
	if t.Second() == 0 && t.Nanosecond() == 0 {
		return t.Format("15:04")
	}
	return t.Format("15:04:05.999999999")
}
