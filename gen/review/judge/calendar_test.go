package judge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
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
		most := compare.Carried(limitOf(old, true), limitOf(new, true))
		require.LessOrEqual(t, most, new.Full())
		for range 300 {
			key := choose(d, "a", "b", "c", "d", "e")
			before, after := meter.RuleOf(&old, key), meter.RuleOf(&new, key)
			at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() + d.Int64N(int64(2*365*24*time.Hour))
			state, _, err := before.Step(runtime.State{}, at, runtime.Request{Count: old.Full()})
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
