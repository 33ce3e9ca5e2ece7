package model

import (
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
)

// windows are where the windows of a key are.
type windows struct {
	kind kind
	// phase is the start of some window, for aligned windows.
	phase int64
	// starts returns the sorted starts of calendar windows around the years of the tests.
	starts []int64
}

// kind is a way in which a key's tokens come back.
type kind int

const (
	bucket kind = iota
	aligned
	firstUse
	calendar
	sliding
	precise
)

// windowsOf returns the windows of a key with a zone, and a day on which they began. The offset of windows by key is a
// property of the name and the key, and the only thing that the model takes from the product.
func windowsOf(p *runtime.Policy, key string, zone *time.Location, since time.Time) windows {
	switch {
	case p.Kind == runtime.TokenBucket:
		return windows{kind: bucket}
	case p.Precise:
		return windows{kind: precise}
	case p.Start.FirstUse():
		return windows{kind: firstUse}
	case p.Calendar.Unit != 0:
		from := p.Calendar.From
		if zone == nil {
			zone, _ = time.LoadLocation(p.Calendar.Zone)
		}
		if p.Calendar.Anniversary {
			from = runtime.DateOf(since)
		}
		of := calendarOf{p.Calendar, zone.String(), from}
		starts, ok := knownStarts.Load(of)
		if !ok {
			starts, _ = knownStarts.LoadOrStore(of, startsOf(p.Calendar, zone, from))
		}
		return windows{kind: calendar, starts: starts.([]int64)}
	}
	w := windows{kind: aligned, phase: meter.RuleOf(p, key).Phase}
	if p.Kind == runtime.SlidingWindow {
		w.kind = sliding
	}
	return w
}

// number counts the windows from some first one to the one that contains an instant.
func (w windows) number(at, period int64) int64 {
	if w.kind == calendar {
		n, found := slices.BinarySearch(w.starts, at)
		if !found {
			n--
		}
		return int64(n)
	}
	return new(big.Int).Div(big.NewInt(at-w.phase), big.NewInt(period)).Int64()
}

// end returns the end of a window by its number.
func (w windows) end(number, period int64) int64 {
	if w.kind == calendar {
		return w.starts[number+1]
	}
	return w.phase + (number+1)*period
}

// knownStarts has the starts of calendars, which take long to find.
var knownStarts sync.Map

type calendarOf struct {
	calendar runtime.Calendar
	zone     string
	from     runtime.Date
}

// startsOf returns the starts of the windows of a calendar from 1996 on, by looking at the clock of the zone.
func startsOf(c runtime.Calendar, zone *time.Location, from runtime.Date) (starts []int64) {
	if from == (runtime.Date{}) {
		from = runtime.Date{Year: 1970, Month: time.January, Day: 1}
		if c.Unit == runtime.Week {
			from.Day = 5
		}
	}
	count := max(1, c.Count)
	for n := 0; ; n++ {
		year, month, day := from.Year, from.Month, from.Day
		switch c.Unit {
		case runtime.Day:
			day += n * count
		case runtime.Week:
			day += 7 * n * count
		case runtime.Month:
			month += time.Month(n * count)
		case runtime.Year:
			year += n * count
		}
		if c.Unit == runtime.Month || c.Unit == runtime.Year {
			last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
			year, month, day = last.Year(), last.Month(), min(day, last.Day())
		}
		midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		clock := midnight.Add(c.At)
		switch {
		case clock.Year() < 1996:
			continue
		case clock.Year() > map[runtime.CalendarUnit]int{runtime.Day: 2005, runtime.Week: 2005, runtime.Month: 2030,
			runtime.Year: 2150}[c.Unit]:
			return starts
		case c.Unit == runtime.Day && count == 1 && firstShown(midnight, zone) == firstShown(midnight.AddDate(0, 0, 1), zone):
			continue // the zone has skipped the day
		}
		if start := firstShown(clock, zone); len(starts) == 0 || start > starts[len(starts)-1] {
			starts = append(starts, start)
		}
	}
}

// firstShown returns the first instant at which the clock of a zone shows a time, given as one of UTC, or a later one.
func firstShown(clock time.Time, zone *time.Location) int64 {
	shown := func(at time.Time) bool {
		_, offset := at.In(zone).Zone()
		return !at.Add(time.Duration(offset) * time.Second).Before(clock)
	}
	at := clock.Add(-16 * time.Hour)
	for _, step := range []time.Duration{15 * time.Minute, time.Minute, time.Second} {
		for !shown(at) {
			at = at.Add(step)
		}
		at = at.Add(-step)
	}
	return at.Add(time.Second).UnixNano()
}
