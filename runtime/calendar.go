package runtime

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// Calendar divides the time of a [FixedWindow] into days, weeks, months or years of a time zone, in place of windows of
// equal length. The zero Calendar divides nothing: windows are then as long as the policy's Period.
//
// The policy's Period must be that of [Calendar.Period], the mean length of a window. Between two windows, tokens accrue
// for the number of windows between them, which is the time from one start to the other divided by the mean length, and
// rounded. So a window whose start moves by less than half of that length is still the same window: new time zone data,
// another zone or another anniversary grant nothing by themselves, and the windows of one key begin at least half a
// mean length apart.
type Calendar struct {
	// Unit is the unit of a window's length. 0 means that there is no calendar.
	Unit CalendarUnit
	// Count is how many units a window has: 3 of [Month] are a quarter. 0 and 1 both mean one.
	Count int
	// Zone is the time zone, by its name in the IANA database, such as "Europe/Berlin" or "UTC". The data is that of
	// package time: a program that may run where it is not installed imports time/tzdata.
	Zone string
	// ZonePerKey gives every key a zone of its own, by [Key.In]. Zone is then empty.
	ZonePerKey bool
	// From is the first day of a window. The others begin every Count units before and after it. If From is a 29th, 30th
	// or 31st, windows that would begin in a shorter month begin on its last day. The zero Date is 1 January 1970 or, for
	// weeks, Monday, 5 January 1970.
	From Date
	// Anniversary gives every key a From of its own, by [Key.Since].
	Anniversary bool
	// At is the time of day at which windows begin, in whole seconds and less than 24 hours. On a day on which the clock
	// skips it, they begin when the clock is put forward.
	At time.Duration
}

// CalendarUnit is a unit of the length of a [Calendar]'s windows.
type CalendarUnit uint8

const (
	// Day is from midnight to midnight, in some zones 23 or 25 hours twice a year.
	Day CalendarUnit = iota + 1
	// Week is 7 days.
	Week
	// Month is a month of the Gregorian calendar.
	Month
	// Year is 12 months.
	Year

	endOfUnits // every unit before it has an entry in the table calendarUnits
)

// calendarUnits has an entry for every [CalendarUnit]. One of days and months is 0.
var calendarUnits [endOfUnits]struct {
	name         string
	days, months int
	mean         time.Duration
} = [...]struct {
	name         string
	days, months int
	mean         time.Duration
}{
	Day:  {name: "day", days: 1, mean: 24 * time.Hour},
	Week: {name: "week", days: 7, mean: 7 * 24 * time.Hour},
	// 400 years of the Gregorian calendar have 146,097 days.
	Month: {name: "month", months: 1, mean: 146_097 * 24 * 3600 / 4800 * time.Second},
	Year:  {name: "year", months: 12, mean: 146_097 * 24 * 3600 / 400 * time.Second},
}

// CalendarUnits returns every unit.
func CalendarUnits() []CalendarUnit { return []CalendarUnit{Day, Week, Month, Year} }

// String returns the word used in limits.yaml: "month".
func (u CalendarUnit) String() string {
	if u == 0 || u >= endOfUnits {
		return fmt.Sprintf("CalendarUnit(%d)", uint8(u))
	}
	return calendarUnits[u].name
}

// Date is a day of the Gregorian calendar.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// DateOf returns the day of an instant in the zone of t.
func DateOf(t time.Time) Date {
	year, month, day := t.Date()
	return Date{year, month, day}
}

// String returns the day as it is written in limits.yaml: "2024-04-06".
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day) }

// Valid reports whether the day exists, in the years 1 to 9999.
func (d Date) Valid() bool {
	return 1 <= d.Year && d.Year <= 9999 && time.January <= d.Month && d.Month <= time.December &&
		1 <= d.Day && d.Day <= daysIn(d.Year, d.Month)
}

func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// Period returns the mean length of a window, 0 for the zero Calendar. It is 24 hours for a day, 30.436875 days for a
// month and 365.2425 days for a year.
func (c Calendar) Period() time.Duration {
	if c.Unit == 0 || c.Unit >= endOfUnits || c.Count < 0 || c.Count > math.MaxInt16 {
		return 0
	}
	return time.Duration(max(1, c.Count)) * calendarUnits[c.Unit].mean
}

// PerKey reports whether the windows of two keys can differ, because each has its own zone or anniversary.
func (c Calendar) PerKey() bool { return c.ZonePerKey || c.Anniversary }

// zones has the zones that were loaded, by name: loading one reads a file.
var zones sync.Map

// loadZone returns the zone of a name in the IANA database.
func loadZone(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	// Package time reads these as UTC, and as the zone of the machine, which may be another one in another process.
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("the time zone %q is not a name of the IANA database, such as UTC or Europe/Berlin", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("the time zone %q cannot be loaded: correct the name, or import time/tzdata (%v)", name, err)
	}
	zones.Store(name, zone)
	return zone, nil
}

// windowsOf returns the windows of the calendar, for a valid policy. Those of a calendar that is PerKey are complete only
// after [Rule.For].
func (c Calendar) windowsOf() calendarWindows {
	unit := calendarUnits[c.Unit]
	count := int64(max(1, c.Count))
	w := calendarWindows{
		zone: time.UTC, days: count * int64(unit.days), months: count * int64(unit.months), at: int64(c.At / time.Second),
		zonePerKey: c.ZonePerKey, anniversary: c.Anniversary,
	}
	from := c.From
	switch {
	case from != Date{}:
	case c.Unit == Week:
		from = Date{1970, time.January, 5}
	default:
		from = Date{1970, time.January, 1}
	}
	w.beginOn(from)
	if !c.ZonePerKey {
		zone, err := loadZone(c.Zone)
		if err != nil {
			panic("runtime: the policy is not valid: " + err.Error())
		}
		w.zone = zone
	}
	return w
}

// calendarWindows are the windows of a [Calendar], numbered from that which begins on its first day, with 0. Times on the
// clock of the zone are in seconds as if the zone was UTC. The zero calendarWindows are those of no calendar.
type calendarWindows struct {
	zone *time.Location
	// days or months is the length of a window; the other is 0.
	days, months int64
	// firstDay, for days, is the first day of window 0, counted from 1 January 1970. For months, firstMonth is its month,
	// counted from January of the year 0, and dayOfMonth its day, which may exceed that of a shorter month.
	firstDay, firstMonth int64
	dayOfMonth           int
	// at is the time of day at which windows begin, in seconds.
	at                      int64
	zonePerKey, anniversary bool
}

// exist reports whether there is a calendar.
func (w *calendarWindows) exist() bool { return w.zone != nil }

func (w *calendarWindows) beginOn(d Date) {
	w.firstDay = floorDiv(time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Unix(), secondsPerDay)
	w.firstMonth, w.dayOfMonth = 12*int64(d.Year)+int64(d.Month)-1, d.Day
}

const secondsPerDay = 24 * 60 * 60

// around returns the start of the window that contains the instant at, and that of the next window.
func (w *calendarWindows) around(at int64) (start, end int64) {
	second := floorDiv(at, int64(time.Second))
	_, offset := time.Unix(second, 0).In(w.zone).Zone()
	n := w.number(second + int64(offset))
	from := w.begin(n)
	for {
		to := w.begin(n + 1)
		if to > second {
			return nanosecondsOf(from), nanosecondsOf(to)
		}
		// The clock was put back over the start of the next window, which has begun nonetheless; or the zone has skipped a
		// day, which has no window.
		from, n = to, n+1
	}
}

// start returns the start of the window that contains an instant.
func (w *calendarWindows) start(at int64) int64 {
	start, _ := w.around(at)
	return start
}

// next returns the first start of a window after an instant.
func (w *calendarWindows) next(at int64) int64 {
	_, end := w.around(at)
	return end
}

// number returns the number of the last window that begins at or before a time on the clock.
func (w *calendarWindows) number(clock int64) int64 {
	day := floorDiv(clock-w.at, secondsPerDay)
	if w.months == 0 {
		return floorDiv(day-w.firstDay, w.days)
	}
	year, month, dayOfMonth := time.Unix(day*secondsPerDay, 0).UTC().Date()
	months := 12*int64(year) + int64(month) - 1 - w.firstMonth
	if dayOfMonth < min(w.dayOfMonth, daysIn(year, month)) {
		months--
	}
	return floorDiv(months, w.months)
}

// begin returns the instant at which a window begins, in seconds since 1970 UTC.
func (w *calendarWindows) begin(n int64) int64 { return firstAt(w.zone, w.clock(n)) }

// clock returns the time on the clock at which a window begins.
func (w *calendarWindows) clock(n int64) int64 {
	if w.months == 0 {
		return (w.firstDay+n*w.days)*secondsPerDay + w.at
	}
	month := w.firstMonth + n*w.months
	year, of := int(floorDiv(month, 12)), time.Month(floorMod(month, 12)+1)
	return time.Date(year, of, min(w.dayOfMonth, daysIn(year, of)), 0, 0, 0, 0, time.UTC).Unix() + w.at
}

// maxOffset is more than any zone's distance from UTC has ever been, in seconds.
const maxOffset = 16 * 60 * 60

// firstAt returns the first instant at which the clock of a zone shows a time or a later one, both in seconds.
//
// [time.Date] does not: for a time that the clock skips or repeats it returns one of two instants, and for the midnight
// at which a clock is put forward, an instant of the day before.
func firstAt(zone *time.Location, clock int64) int64 {
	for at := clock - maxOffset; ; {
		t := time.Unix(at, 0).In(zone)
		_, offset := t.Zone()
		_, bound := t.ZoneBounds()
		end := bound.Unix()
		// Package time counts 365 days for leap years beyond the transitions in its data: on 31 December, the end that it
		// returns is not after t. No clock is changed on that day.
		if end <= at {
			end = at + secondsPerDay
		}
		first := max(at, clock-int64(offset))
		if bound.IsZero() || first < end {
			return first
		}
		at = end
	}
}
