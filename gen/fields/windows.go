package fields

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// start reads when windows begin.
func (p *parser) start(limit *draft, e entry) (ok bool) {
	text := e.value.Value
	start, inWords := parseCalendarStart(text)
	switch {
	case e.value.Kind != yaml.ScalarNode || e.value.Tag == "!!null":
		p.wrongType(e, startInWords, "")
		return false
	case inWords:
		// Kept until the period is known.
		limit.calendarStart = start
		return true
	case limit.written.is(runtime.TokenBucket, runtime.InFlight):
		// The kind has no start, whatever the value.
		return true
	case text == firstUse:
		limit.policy.Start = runtime.StartFirstUse()
		return true
	// Zero needs no unit.
	case text == "0":
		limit.policy.Start = runtime.StartOffset(0)
		return true
	}
	if c, ok := limit.written.calendar(); ok && !instantForm.MatchString(text) && !offsetForm.MatchString(text) {
		p.report(e.at, rules.BadStart, "write "+startFormsOf(c), "start %s does not fit period: %s", strings.TrimPrefix(describe(e.value), "the number "), calendarPeriod(c))
		p.meant(meantCalendarStart(c, text))
		return false
	}
	if dateForm.MatchString(text) {
		limit.policy.Start, ok = p.instant(e)
	} else {
		limit.policy.Start, ok = p.offset(e, limit.written.slides())
	}
	return ok
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
		month, isMonth := named(months, word)
		weekday, isWeekday := named(weekdays, word)
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

// months and weekdays are the words of which a start in calendar units has at most one each.
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

// perKey is the zone of windows whose keys have their own.
const perKey = "per key"

// period reads a duration, or a number of calendar units.
func (p *parser) period(limit *draft, e entry) (ok bool) {
	calendar, ok := parseCalendar(e.value.Value)
	if !isString(e.value) || !ok {
		e.calendar = limit.written.is(runtime.FixedWindow)
		limit.policy.Period, ok = p.length(e)
		return ok
	}
	if calendar.Period() > runtime.MaxPeriod {
		p.report(e.at, rules.OutOfRange, "", "period must be at most %s, not %s", longestPeriod, diag.Clip(e.value.Value))
		return false
	}
	limit.policy.Calendar.Unit, limit.policy.Calendar.Count = calendar.Unit, calendar.Count
	limit.policy.Period = calendar.Period()
	return true
}

//go:embed zones.txt
var zoneList string

// zoneNames returns the names of the IANA time zone database, with the name that each is a link to, or "". They are not
// read from the machine, so that a file is valid on all machines or on none.
var zoneNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(zoneList) {
		name, target, _ := strings.Cut(strings.TrimSpace(line), " ")
		names[name] = target
	}
	return names
})

// CanonicalZone returns the name that the name of a time zone is a link to in the IANA database: "Europe/Kyiv" for
// "Europe/Kiev". It returns "" for a name that is not a link.
func CanonicalZone(zone string) string { return zoneNames()[zone] }

// zone reads the name of a time zone.
func (p *parser) zone(limit *draft, e entry) bool {
	name, ok := p.text(e, "the name of a time zone, or per key")
	if !ok {
		return false
	}
	if name == perKey {
		limit.policy.Calendar.ZonePerKey = true
		return true
	}
	if _, ok := zoneNames()[name]; !ok {
		p.report(e.at, rules.BadZone, "write a name of the IANA database such as UTC or Europe/Berlin, or per key", "unknown time zone %s", diag.Quote(name))
		p.meant(p.meantZone(name))
		return false
	}
	limit.policy.Calendar.Zone = name
	return true
}

// meantZone returns the zone that a name probably means: a similar one, or the only one of that city.
func (d *document) meantZone(text string) string {
	if !d.described() {
		return ""
	}
	// A map has no order, and two names may be equally near.
	all := slices.Sorted(maps.Keys(zoneNames()))
	var sameCity []string
	for _, name := range all {
		if i := strings.LastIndex(name, "/"); i >= 0 && string(diag.Fold(name[i+1:])) == string(diag.Fold(text)) {
			sameCity = append(sameCity, name)
		}
	}
	if len(sameCity) == 1 {
		return sameCity[0]
	}
	return d.nearest(text, func() []string { return append(all, perKey) })
}

// startMore explains the starts of calendars in the reference.
const startMore = "For a `period` in calendar units, `start` is a time of day such as `06:00`, or a first day with or without one: a weekday for `week`; " +
	"`15th` for `month`; `april 6th` for `year`; a date such as `2024-04-06` for `3 months` and other numbers of units; or `anniversary`, with which the method has a parameter " +
	"for each key's own first day. Without a date, several units are counted from 1 January 1970, and weeks from 5 January. In months without a 29th, 30th or 31st, windows begin on the last day."

// zoneSchema lists all zones, so that editors complete them.
func zoneSchema() object {
	return object{"enum": append([]string{perKey}, slices.Sorted(maps.Keys(zoneNames()))...)}
}

// ifCalendar are the schemas of limits with a period in calendar units, which must have a zone, and of others, which
// have none.
func ifCalendar() []any {
	calendar := object{"type": "string", "pattern": calendarForm.String()}
	return []any{
		object{"if": having("period", calendar), "then": object{"type": "object", "required": []string{"zone"}}},
		object{
			"if": having("period", object{"not": calendar}),
			"then": object{
				"type": "object", "properties": object{"zone": false},
				"errorMessage": "A zone needs a period of calendar days, weeks, months or years.",
			},
		},
	}
}

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

// settleCalendar reports a zone or a start that does not fit the period, and completes the calendar.
func (s settler) settleCalendar() {
	period, hasPeriod := s.given["period"]
	start, hasStart := s.given["start"]
	zone, hasZone := s.given["zone"]
	c := &s.of.policy.Calendar
	switch {
	case !hasPeriod:
	case c.Unit == 0 && hasZone:
		help := "write period: day, week, month or year, or leave zone out"
		if units := aboutUnits[s.of.policy.Period]; units != 0 {
			help = fmt.Sprintf("write period: %s for calendar %[1]ss in that zone, or leave zone out: %s is a fixed length", units, period.value.Value)
		}
		s.report(zone.at, rules.NotForPeriod, help, "a period of fixed length has no zone")
		s.note(period.at, "period is given here")
	case c.Unit == 0 && hasStart && s.of.calendarStart.words != 0:
		// A date without a time is more likely an instant.
		if dateForm.MatchString(start.value.Value) {
			s.instant(start)
			return
		}
		help := startHelp(true)
		if s.of.policy.Kind == runtime.FixedWindow {
			help = startHelp(false) + "; or period: day, week, month or year, and a zone"
		}
		s.report(start.at, rules.NotForPeriod, help,
			"start %s needs a period of calendar days, weeks, months or years", diag.Clip(start.value.Value))
		s.note(period.at, "period is given here")
	case c.Unit == 0:
	case !hasZone && !s.of.gaveZone:
		s.report(period.at, rules.MissingField, "add zone: Europe/Berlin, zone: UTC, or zone: per key; or write a fixed length such as "+fixedLength(*c),
			"zone is missing: a %s begins at different instants in different time zones", c.Unit)
	case hasStart && (s.of.calendarStart.words == 0 || !s.of.calendarStart.apply(c)):
		s.report(start.at, rules.NotForPeriod, "write "+startFormsOf(*c), "start %s does not fit period: %s", diag.Clip(start.value.Value), calendarPeriod(*c))
	}
}

// aboutUnits are the lengths that people write for a unit of the calendar.
var aboutUnits = map[time.Duration]runtime.CalendarUnit{
	words.Day: runtime.Day, words.Week: runtime.Week, 30 * words.Day: runtime.Month, 31 * words.Day: runtime.Month, 365 * words.Day: runtime.Year,
}

// fixedLength is a duration that is about as long as a window.
func fixedLength(c runtime.Calendar) string {
	days := map[runtime.CalendarUnit]int{runtime.Day: 1, runtime.Week: 7, runtime.Month: 30, runtime.Year: 365}
	return strconv.Itoa(days[c.Unit]*max(1, c.Count)) + "d"
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

func calendarPeriod(c runtime.Calendar) string {
	if c.Count > 1 {
		return fmt.Sprintf("%d %ss", c.Count, c.Unit)
	}
	return c.Unit.String()
}

// having is the schema of limits with a field that has a schema.
func having(field string, schema object) object {
	return object{"type": "object", "properties": object{field: schema}, "required": []string{field}}
}
