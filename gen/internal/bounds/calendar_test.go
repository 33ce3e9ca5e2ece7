package bounds

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

func calendarPolicy(c runtime.Calendar) *runtime.Policy {
	return &runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, Period: c.Period(), Calendar: c}
}

// calendars are a sample of the calendars of the tests: zones that change their clocks by an hour, by half of one and by
// three, that have skipped a day, and that do not change them.
func calendars() (list []runtime.Calendar) {
	for _, zone := range []string{
		"UTC", "Asia/Tokyo", "Europe/Berlin", "America/Santiago", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Tehran",
		"Australia/Lord_Howe", "Antarctica/Troll", "Antarctica/Casey", "Pacific/Apia",
	} {
		list = append(list,
			runtime.Calendar{Unit: runtime.Day, Zone: zone},
			runtime.Calendar{Unit: runtime.Day, Zone: zone, At: 2*time.Hour + 30*time.Minute},
			runtime.Calendar{Unit: runtime.Day, Zone: zone, Count: 3},
			runtime.Calendar{Unit: runtime.Week, Zone: zone},
			runtime.Calendar{Unit: runtime.Month, Zone: zone, From: runtime.Date{Year: 2024, Month: time.January, Day: 31}},
			runtime.Calendar{Unit: runtime.Month, Zone: zone, Count: 3},
			runtime.Calendar{Unit: runtime.Year, Zone: zone},
			runtime.Calendar{Unit: runtime.Year, Zone: zone, From: runtime.Date{Year: 2024, Month: time.April, Day: 6}},
			runtime.Calendar{Unit: runtime.Year, Zone: zone, Count: 3, From: runtime.Date{Year: 2024, Month: time.February, Day: 29}},
		)
	}
	return sample(list)
}

// A zone per key can be any zone: the slack for its clock changes covers all of them.
func TestSlackCoversTheClockChangesOfAllZones(t *testing.T) {
	list, err := os.ReadFile("../../fields/zones.txt")
	require.NoError(t, err)
	back, forward := int64(0), int64(0)
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		offsets := offsetsOf(zone)
		for i := range offsets {
			for j := range i {
				back, forward = max(back, offsets[j]-offsets[i]), max(forward, offsets[i]-offsets[j])
			}
		}
	}
	assert.Equal(t, putBack, time.Duration(back)*time.Second)
	assert.Equal(t, putForward(runtime.Calendar{Unit: runtime.Week}, 2), time.Duration(forward)*time.Second)
}

// offsetsOf returns by how many seconds the clock of a zone differs from UTC, in order, from 2000 on.
func offsetsOf(zone *time.Location) (list []int64) {
	for at := time.Date(1999, time.December, 30, 0, 0, 0, 0, time.UTC); at.Year() < 2262; {
		_, offset := at.In(zone).Zone()
		list = append(list, int64(offset))
		_, bound := at.In(zone).ZoneBounds()
		if bound.IsZero() {
			break
		}
		// On 31 December of a leap year, the end that package time returns is not after at.
		if at = at.Add(time.Hour); bound.After(at) {
			at = bound
		}
	}
	return list
}

// Every anniversary has the windows of one of the series.
func TestStartsOfAnniversariesAreThoseOfTheRuntime(t *testing.T) {
	t.Parallel()
	for _, c := range []runtime.Calendar{
		{Unit: runtime.Week, Zone: "Europe/Berlin", Anniversary: true}, {Unit: runtime.Month, Zone: "Europe/Berlin", Anniversary: true},
		{Unit: runtime.Month, Count: 3, Zone: "America/Santiago", Anniversary: true}, {Unit: runtime.Year, Zone: "Europe/Berlin", Anniversary: true},
		{Unit: runtime.Year, Count: 2, ZonePerKey: true, Anniversary: true},
	} {
		series := map[string]bool{}
		for _, starts := range startsOf(c) {
			series[fmt.Sprint(starts)] = true
		}
		var days []time.Time
		for day := time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2026; day = day.AddDate(0, 0, 8) {
			days = append(days, day)
		}
		for _, from := range sample(days) {
			require.True(t, series[fmt.Sprint(ofKey(c, runtime.DateOf(from)))], "%+v since %v", c, from)
		}
		leapDay := runtime.Date{Year: 2024, Month: time.February, Day: 29}
		require.True(t, series[fmt.Sprint(ofKey(c, leapDay))], "%+v since a leap day", c)
	}
}

// ofKey returns the starts of the windows of a key with an anniversary.
func ofKey(c runtime.Calendar, anniversary runtime.Date) []int64 {
	p := calendarPolicy(c)
	return windowStarts(meter.RuleOf(p, "").For(runtime.Request{Policy: p, Anniversary: anniversary, Zone: time.UTC}))
}

// The longest delay is the longest that the runtime answers at any start of a window.
func TestLongestDelayOfCalendarsIsReached(t *testing.T) {
	t.Parallel()
	for _, c := range calendars() {
		for _, reserved := range []int64{3, 25} {
			p := calendarPolicy(c)
			p.MaxReserved = reserved
			rule, longest := meter.RuleOf(p, ""), time.Duration(0)
			starts := windowStarts(rule)
			last := starts[len(starts)-1]
			// From 2040 on, zones change their clocks alike every year: for short windows, some years are enough.
			if n := len(starts) - 10_000; n > 10_000 {
				starts = append(starts[:16_000:16_000], starts[n:]...)
			}
			for _, start := range starts {
				_, d, err := rule.Step(runtime.State{}, start, runtime.Request{Count: p.Capacity + p.MaxReserved, Reserve: true})
				require.NoError(t, err)
				// Later windows have no start that an instant can have.
				if start <= last-int64(d.UsableAfter) {
					longest = max(longest, d.UsableAfter)
				}
			}
			assert.Equal(t, longest, LongestDelay(p), "%d reserved of %+v", reserved, c)
		}
	}
}

// What a key can use in an interval is what it can use if it takes all just before a window and then all of each window,
// or, with reservations, if everything that it can reserve is due when the interval begins.
func TestWithinOfCalendarsIsReached(t *testing.T) {
	t.Parallel()
	for _, c := range calendars() {
		for _, reserved := range []int64{0, 3, 25} {
			p := calendarPolicy(c)
			p.MaxReserved = reserved
			starts := windowStarts(meter.RuleOf(p, ""))
			for _, length := range []time.Duration{0, 1, 23 * time.Hour, 24 * time.Hour, Interval(p), Interval(p) + 1, 366 * 24 * time.Hour, 9 * 365 * 24 * time.Hour} {
				// Both ends of an interval are part of it. The windows after the one in which all is taken at once begin in it.
				first, early := int64(0), (reserved+p.Rate-1)/p.Rate
				if reserved == 0 {
					first = 1 // the interval begins just before the first window
				}
				most, end := int64(0), 0
				for i, start := range starts {
					for end < len(starts) && starts[end] <= start-first+int64(length) {
						end++
					}
					if i < end && end < len(starts) {
						// The runtime counts windows by their mean length.
						granted := (starts[end-1] - start + int64(p.Period)/2) / int64(p.Period)
						most = max(most, granted+first)
					}
				}
				want := p.Capacity + p.Rate*(most+early)
				assert.Equal(t, want, Within(p, length), "%d reserved in %v of %+v", reserved, length, c)
			}
		}
	}
}
