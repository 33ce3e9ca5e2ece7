package meter

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// windowsOf returns the windows of the calendar, for a valid policy. Those of a calendar that is PerKey are complete
// only after [Rule.For].
func windowsOf(c runtime.Calendar) calendarWindows {
	days, months := c.Unit.Length()
	count := int64(max(1, c.Count))
	w := calendarWindows{
		zone: time.UTC, days: count * int64(days), months: count * int64(months), at: int64(c.At / time.Second),
		zonePerKey: c.ZonePerKey, anniversary: c.Anniversary,
	}
	from := c.From
	switch {
	case from != runtime.Date{}:
	case c.Unit == runtime.Week:
		from = runtime.Date{Year: 1970, Month: time.January, Day: 5}
	default:
		from = runtime.Date{Year: 1970, Month: time.January, Day: 1}
	}
	w.beginOn(from)
	if !c.ZonePerKey {
		zone, err := c.Location()
		if err != nil {
			panic("runtime: the policy is not valid: " + err.Error())
		}
		w.zone = zone
	}
	return w
}

// calendarWindows are the windows of a [runtime.Calendar], numbered from that which begins on its first day, with 0.
// Times on the clock of the zone are in seconds as if the zone was UTC. The zero calendarWindows are those of no
// calendar.
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

func (w *calendarWindows) beginOn(d runtime.Date) {
	w.firstDay = arith.Div(time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Unix(), secondsPerDay)
	w.firstMonth, w.dayOfMonth = 12*int64(d.Year)+int64(d.Month)-1, d.Day
}

const secondsPerDay = 24 * 60 * 60

// around returns the start of the window that contains the instant at, and the start of the next window.
func (w *calendarWindows) around(at int64) (start, end int64) {
	second := arith.Div(at, int64(time.Second))
	n := w.number(second + arith.Offset(w.zone, second))
	from := w.begin(n)
	// The day of the window was skipped, and the next one begins later on its day. No zone skips two days.
	for from > second {
		n--
		from = w.begin(n)
	}
	for {
		to := w.begin(n + 1)
		if to > second {
			return arith.OfSeconds(from), arith.OfSeconds(to)
		}
		// The clock was put back over the start of the next window, which has begun nonetheless; or the zone has skipped a
		// day, which has no window. This happens for at most two windows of a day: a clock shows times within
		// twice MaxOffset.
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
	day := arith.Div(clock-w.at, secondsPerDay)
	if w.months == 0 {
		return arith.Div(day-w.firstDay, w.days)
	}
	year, month, dayOfMonth := time.Unix(day*secondsPerDay, 0).UTC().Date()
	months := 12*int64(year) + int64(month) - 1 - w.firstMonth
	if dayOfMonth < min(w.dayOfMonth, arith.DaysIn(year, month)) {
		months--
	}
	return arith.Div(months, w.months)
}

// begin returns the instant at which a window begins, in seconds since 1970 UTC. The window of a single day that the zone
// has skipped is empty: it begins with the next one.
func (w *calendarWindows) begin(n int64) int64 {
	clock := w.clock(n)
	at := firstAt(w.zone, clock)
	if w.days != 1 || w.at == 0 || at+arith.Offset(w.zone, at) == clock {
		return at
	}
	// The clock has skipped the time of day, and possibly the whole day.
	if day := clock - w.at; firstAt(w.zone, day) == firstAt(w.zone, day+secondsPerDay) {
		return firstAt(w.zone, clock+secondsPerDay)
	}
	return at
}

// clock returns the time on the clock at which a window begins.
func (w *calendarWindows) clock(n int64) int64 {
	if w.months == 0 {
		return (w.firstDay+n*w.days)*secondsPerDay + w.at
	}
	month := w.firstMonth + n*w.months
	year, of := int(arith.Div(month, 12)), time.Month(arith.Mod(month, 12)+1)
	return time.Date(year, of, min(w.dayOfMonth, arith.DaysIn(year, of)), 0, 0, 0, 0, time.UTC).Unix() + w.at
}

// firstAt returns the first instant at which the clock of a zone shows a time or a later one, both in seconds.
//
// [time.Date] does not: for a time that the clock skips or repeats it returns one of two instants, and for the midnight
// at which a clock is put forward, an instant of the day before.
//
// The loop ends after the changes of the clock within twice MaxOffset, of which zones have one or two: before the first
// of these instants the clock cannot show the time yet, and after the last one it shows a later time.
func firstAt(zone *time.Location, clock int64) int64 {
	for at := clock - arith.MaxOffset; ; {
		offset := arith.Offset(zone, at)
		_, bound := time.Unix(at, 0).In(zone).ZoneBounds()
		end := bound.Unix()
		// Package time counts 365 days for leap years beyond the transitions in its data: on 31 December, the end that it
		// returns is not after t. No clock is changed on that day.
		if end <= at {
			end = at + secondsPerDay
		}
		first := max(at, clock-offset)
		if bound.IsZero() || first < end {
			return first
		}
		at = end
	}
}
