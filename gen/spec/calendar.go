package spec

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // so that this program has the zones of its Go version on every machine

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

const (
	calendarPattern = `^(day|week|month|year|[1-9][0-9]{0,3} (days?|weeks?|months?|years?))$`
	// perKey is the zone of windows whose keys have their own.
	perKey = "per key"
)

var calendarForm = regexp.MustCompile(calendarPattern)

// period reads a duration, or a number of calendar units.
func (p *reader) period(limit *draft, e entry) (ok bool) {
	text := e.value.Value
	if !isString(e.value) || !calendarForm.MatchString(text) {
		limit.policy.Period, ok = p.length(e)
		return ok
	}
	count, unit, several := strings.Cut(text, " ")
	if !several {
		count, unit = "1", text
	}
	n, _ := strconv.Atoi(count)
	calendar := runtime.Calendar{Unit: unitNamed(strings.TrimSuffix(unit, "s")), Count: n}
	if calendar.Period() > runtime.MaxPeriod {
		p.report(e.at, outOfRange, "", "period must be at most %s, not %s", longestPeriod, clip(text))
		return false
	}
	// One unit has one form, so that equal limits have equal policies.
	if n == 1 {
		calendar.Count = 0
	}
	limit.policy.Calendar.Unit, limit.policy.Calendar.Count = calendar.Unit, calendar.Count
	limit.policy.Period = calendar.Period()
	return true
}

func unitNamed(name string) runtime.CalendarUnit {
	for _, unit := range runtime.CalendarUnits() {
		if unit.String() == name {
			return unit
		}
	}
	panic("spec: no calendar unit is named " + name)
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
func (p *reader) zone(limit *draft, e entry) bool {
	name, ok := p.text(e, "the name of a time zone, or per key")
	if !ok {
		return false
	}
	if name == perKey {
		limit.policy.Calendar.ZonePerKey = true
		return true
	}
	if _, ok := zoneNames()[name]; !ok {
		p.report(e.at, badZone, "write a name of the IANA database such as UTC or Europe/Berlin, or per key", "unknown time zone %s", quote(name))
		if !p.full() {
			p.meant(meantZone(name))
		}
		return false
	}
	limit.policy.Calendar.Zone = name
	return true
}

// meantZone returns the zone that a name probably means: a similar one, or the only one of that city.
func meantZone(text string) string {
	all := make([]string, 0, len(zoneNames()))
	var sameCity []string
	for name := range zoneNames() {
		all = append(all, name)
		if _, city, ok := cutLast(name, "/"); ok && string(fold(city)) == string(fold(text)) {
			sameCity = append(sameCity, name)
		}
	}
	if len(sameCity) == 1 {
		return sameCity[0]
	}
	// A map has no order, and two names may be equally near.
	slices.Sort(all)
	return Nearest(text, append(all, perKey))
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// startMore explains the starts of calendars in the reference.
const startMore = "For a `period` in calendar units, `start` is a time of day such as `06:00`, or a first day with or without one: a weekday for `week`; " +
	"`15th` for `month`; `april 6th` for `year`; a date such as `2024-04-06` for `3 months` and other numbers of units; or `anniversary`, with which the method has a parameter " +
	"for each key's own first day. Without a date, several units are counted from 1 January 1970, and weeks from 5 January. In months without a 29th, 30th or 31st, windows begin on the last day."

// zoneSchema lists all zones, so that editors complete them.
func zoneSchema() object {
	names := []string{perKey}
	for line := range strings.Lines(zoneList) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		names = append(names, name)
	}
	return object{"enum": names}
}

// ifCalendar are the schemas of limits with a period in calendar units, which must have a zone, and of others, which
// have none.
func ifCalendar() []any {
	having := func(period object) object {
		return object{"type": "object", "properties": object{"period": period}, "required": []string{"period"}}
	}
	calendar := object{"type": "string", "pattern": calendarPattern}
	return []any{
		object{"if": having(calendar), "then": object{"type": "object", "required": []string{"zone"}}},
		object{
			"if": having(object{"not": calendar}),
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
func (p *checker) settleCalendar(limit *draft, given map[string]entry) {
	period, hasPeriod := given["period"]
	start, hasStart := given["start"]
	zone, hasZone := given["zone"]
	c := &limit.policy.Calendar
	switch {
	case !hasPeriod:
	case c.Unit == 0 && hasZone:
		p.report(zone.at, notForPeriod, "write period: day, week, month or year, or leave zone out", "a period of fixed length has no zone")
		p.note(period.at, "period is given here")
	case c.Unit == 0 && hasStart && limit.calendarStart != calendarStart{}:
		// A date without a time is more likely an instant.
		if dateForm.MatchString(start.value.Value) {
			p.instant(start)
			return
		}
		p.report(start.at, notForPeriod, "write an instant such as 2006-01-02T15:04:05Z, an offset from 0:00 UTC such as 8h, or first use; or period: day, week, month or year",
			"start %s needs a period of calendar days, weeks, months or years", clip(start.value.Value))
		p.note(period.at, "period is given here")
	case c.Unit == 0:
	case !hasZone && !limit.gaveZone:
		p.report(period.at, missingField, "add zone: Europe/Berlin, zone: UTC, or zone: per key; or write a fixed length such as "+fixedLength(*c),
			"zone is missing: a %s begins at different instants in different time zones", c.Unit)
	case hasStart && (limit.calendarStart == calendarStart{}):
		p.report(start.at, notForPeriod, "write "+startFormsOf(*c), "start %s does not fit period: %s", clip(start.value.Value), calendarPeriod(*c))
	case hasStart:
		if !limit.calendarStart.apply(c) {
			p.report(start.at, notForPeriod, "write "+startFormsOf(*c), "start %s does not fit period: %s", clip(start.value.Value), calendarPeriod(*c))
		}
	}
}

// fixedLength is a duration that is about as long as a window.
func fixedLength(c runtime.Calendar) string {
	days := map[runtime.CalendarUnit]int{runtime.Day: 1, runtime.Week: 7, runtime.Month: 30, runtime.Year: 365}
	return strconv.Itoa(days[c.Unit]*max(1, c.Count)) + "d"
}

// apply sets the start of a calendar, and reports whether its words fit the unit. Equal windows get equal calendars.
func (s calendarStart) apply(c *runtime.Calendar) bool {
	if s.at != "" {
		clock, _ := time.Parse("15:04", s.at)
		c.At = time.Duration(clock.Hour())*time.Hour + time.Duration(clock.Minute())*time.Minute
	}
	several, months := c.Count > 1, c.Unit == runtime.Month || c.Unit == runtime.Year
	days := 0
	for _, given := range []bool{s.anniversary, s.date != runtime.Date{}, s.weekday != "", s.month != 0 || s.day != 0} {
		if given {
			days++
		}
	}
	switch {
	case days > 1:
		return false
	case s.anniversary:
		c.Anniversary = true
		return c.Unit != runtime.Day || several
	case s.date != runtime.Date{}:
		c.From = s.date
		if !several {
			c.From = simplest(c.Unit, s.date)
		}
		return several || c.Unit != runtime.Day
	case s.weekday != "":
		// 4 January 1970 was a Sunday.
		c.From = simplest(c.Unit, runtime.Date{Year: 1970, Month: time.January, Day: 4 + int(weekdayNamed(s.weekday))})
		return c.Unit == runtime.Week && !several
	case s.month != 0:
		from := runtime.Date{Year: 1972, Month: s.month, Day: max(1, s.day)}
		c.From = simplest(c.Unit, from)
		return c.Unit == runtime.Year && !several && from.Valid()
	case s.day != 0:
		c.From = simplest(c.Unit, runtime.Date{Year: 1970, Month: time.January, Day: s.day})
		return months && c.Unit == runtime.Month && !several
	}
	return true
}

// simplest returns the first day of windows of one unit in its simplest form, zero for the default.
func simplest(unit runtime.CalendarUnit, d runtime.Date) runtime.Date {
	switch unit {
	case runtime.Week:
		weekday := time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Weekday()
		d = runtime.Date{Year: 1970, Month: time.January, Day: 5 + (int(weekday)+6)%7}
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

func calendarPeriod(c runtime.Calendar) string {
	if c.Count > 1 {
		return fmt.Sprintf("%d %ss", c.Count, c.Unit)
	}
	return c.Unit.String()
}
