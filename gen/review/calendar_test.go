package review

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func calendarOf(unit runtime.CalendarUnit, zone string) runtime.Policy {
	c := runtime.Calendar{Unit: unit, Zone: zone}
	return runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, Period: c.Period(), Calendar: c}
}

// randomCalendar returns a limit of a calendar.
func (d dice) randomCalendar() runtime.Policy {
	p := calendarOf(choose(d, runtime.CalendarUnits()...), choose(d, "UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo"))
	p.Rate = choose[int64](d, 1, 10, 300)
	p.Capacity = choose(d, p.Rate, p.Rate, 2*p.Rate, (p.Rate+1)/2)
	if p.Calendar.Unit == runtime.Month && d.IntN(2) == 0 {
		p.Calendar.From = runtime.Date{Year: 1970, Month: time.January, Day: 1 + d.IntN(31)}
	}
	if d.IntN(4) == 0 {
		p.Calendar.At = 6 * time.Hour
	}
	if d.IntN(4) == 0 {
		p.Calendar.Count = 2 + d.IntN(2)
		p.Period = p.Calendar.Period()
	}
	return p
}

// No key that is exhausted under the old rule has more tokens under the new one than the review says, at any instant of
// some years.
func TestCarriedByCalendarIsNotExceeded(t *testing.T) {
	d := roll(61)
	for range pairs() / 2 {
		old, new := d.randomCalendar(), d.randomCalendar()
		switch d.IntN(4) {
		case 0:
			old = runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, Period: choose(d, 24*time.Hour, 30*24*time.Hour)}
		case 1:
			new = runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, Period: choose(d, 24*time.Hour, 30*24*time.Hour)}
		}
		most := Carried(limitOf(old, true), limitOf(new, true))
		require.LessOrEqual(t, most, new.Capacity)
		for range 300 {
			key := choose(d, "a", "b", "c", "d", "e")
			before, after := old.Rule(key), new.Rule(key)
			at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() + d.Int64N(int64(2*365*24*time.Hour))
			state, _, err := before.Step(runtime.State{}, at, runtime.Request{Count: old.Capacity})
			require.NoError(t, err)
			_, empty, err := before.Step(state, at, runtime.Request{Op: runtime.Check, Count: 1})
			require.NoError(t, err)
			now := at + d.Int64N(max(1, int64(empty.RetryAfter)))
			_, carried, err := after.Step(state, now, runtime.Request{Op: runtime.Peek})
			require.NoError(t, err)
			require.LessOrEqual(t, carried.Remaining, most, "%+v\nto %+v at %v", old, new, time.Unix(0, now).UTC())
		}
	}
}

// No interval of a real calendar has more tokens than the bound, and the bound of two windows is reached or, outside UTC,
// missed only by the hours that it allows for clock changes.
func TestWithinBoundsCalendars(t *testing.T) {
	d := rand.New(rand.NewPCG(62, 1))
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia"} {
		for _, unit := range runtime.CalendarUnits() {
			for _, from := range []runtime.Date{{}, {Year: 2001, Month: time.March, Day: 31}} {
				p := calendarOf(unit, zone)
				p.Calendar.From = from
				rule := p.Rule("")
				var starts []int64
				for at := rule.WindowEnd(time.Date(1996, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()); len(starts) < 1500 && at < time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(); at = rule.WindowEnd(at) {
					starts = append(starts, at)
				}
				for n := range 30 {
					shortest := int64(1 << 62)
					for i := range len(starts) - n {
						shortest = min(shortest, starts[i+n]-starts[i])
					}
					span := int64(bounds.ShortestSpan(p.Calendar, int64(n)))
					if zone == "Pacific/Apia" && unit == runtime.Day {
						shortest += int64(24 * time.Hour) // a day was skipped: one window fewer began
					}
					require.LessOrEqual(t, span, shortest, "%d windows of %+v", n, p.Calendar)
					if zone == "UTC" {
						require.Equal(t, shortest, span, "%d windows of %+v", n, p.Calendar)
					}
				}
				for range 200 {
					i, n := d.IntN(len(starts)-20), 1+d.IntN(12)
					// All tokens just before a window begins, and those of the next windows at their starts.
					length := starts[i+n-1] - (starts[i] - 1)
					used := p.Capacity + int64(n)*p.Rate
					require.LessOrEqual(t, used, bounds.Within(&p, time.Duration(length)), "%+v", p.Calendar)
				}
			}
		}
	}
}
