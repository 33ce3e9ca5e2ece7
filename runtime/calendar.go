package runtime

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// Calendar divides the time of a [FixedWindow] into days, weeks, months or years of a time zone, in place of windows of
// equal length. The zero Calendar divides nothing: windows are then as long as the policy's Period.
//
// The policy's Period must equal [Calendar.Period], the mean length of a window. Between two windows, tokens
// accrue for the number of windows between them, which is the time from one start to the other divided by the mean
// length, and rounded. So a window whose start moves by less than half of that length is still the same window: new
// time zone data, another zone or another anniversary grant nothing by themselves, and the windows of one key begin at
// least half a mean length apart.
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
var calendarUnits [endOfUnits]calendarUnit = [...]calendarUnit{
	Day:  {name: "day", days: 1, mean: 24 * time.Hour},
	Week: {name: "week", days: 7, mean: 7 * 24 * time.Hour},
	// 400 years of the Gregorian calendar have 146,097 days.
	Month: {name: "month", months: 1, mean: 146_097 * 24 * 3600 / 4800 * time.Second},
	Year:  {name: "year", months: 12, mean: 146_097 * 24 * 3600 / 400 * time.Second},
}

type calendarUnit struct {
	name         string
	days, months int
	mean         time.Duration
}

// CalendarUnits returns every unit.
func CalendarUnits() []CalendarUnit { return constants(Day, endOfUnits) }

// String returns the word used in limits.yaml: "month".
func (u CalendarUnit) String() string { return nameOf(entryOf(calendarUnits[:], u).name, u) }

// Length returns the days or the months of the unit; the other number is 0.
func (u CalendarUnit) Length() (days, months int) {
	unit := entryOf(calendarUnits[:], u)
	return unit.days, unit.months
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
		1 <= d.Day && d.Day <= arith.DaysIn(d.Year, d.Month)
}

// Period returns the mean length of a window, 0 for the zero Calendar. It is 24 hours for a day, 30.436875 days for a
// month and 365.2425 days for a year.
func (c Calendar) Period() time.Duration {
	if c.Count < 0 || c.Count > math.MaxInt16 {
		return 0
	}
	return time.Duration(max(1, c.Count)) * entryOf(calendarUnits[:], c.Unit).mean
}

// PerKey reports whether the windows of two keys can differ, because each has its own zone or anniversary.
func (c Calendar) PerKey() bool { return c.ZonePerKey || c.Anniversary }

// zones has the zones that were loaded, by name: loading one reads a file.
var zones sync.Map

// Location returns the Zone, without reading its data again. It has none if it is ZonePerKey.
func (c Calendar) Location() (*time.Location, error) {
	name := c.Zone
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
	if problem := zoneProblem(zone); problem != "" {
		return nil, fmt.Errorf("the time zone %q is %s", name, problem)
	}
	zones.Store(name, zone)
	return zone, nil
}

// zoneProblem returns how far a zone is from UTC, if windows cannot be searched in it, or "". A zone of a program may have
// any offset, such as one that a client has sent.
func zoneProblem(zone *time.Location) string {
	for _, offset := range offsetsOf(zone, time.Now()) {
		if offset < -arith.MaxOffset || offset > arith.MaxOffset {
			return fmt.Sprintf("%v from UTC, and zones are at most %v", time.Duration(offset)*time.Second,
				time.Duration(arith.MaxOffset)*time.Second)
		}
	}
	return ""
}

// offsetsOf returns how many seconds the clock of a zone is ahead of UTC at present, before the last change of it, and
// after the next one. Only data made by hand has other offsets that are out of range, and package meter reads
// these as the largest that is not.
func offsetsOf(zone *time.Location, now time.Time) (offsets [3]int) {
	begin, end := now.In(zone).ZoneBounds()
	for i, at := range [...]time.Time{now, begin.Add(-1), end} {
		if at.Year() <= 1 {
			at = now // there is no such change
		}
		_, offsets[i] = at.In(zone).Zone()
	}
	return offsets
}

// sameZone reports whether two locations are one zone, loaded twice. Zones of other origin can have one name, such as "".
func sameZone(a, b *time.Location) bool {
	if a == nil || b == nil || a.String() != b.String() {
		return false
	}
	now := time.Now()
	return offsetsOf(a, now) == offsetsOf(b, now)
}
