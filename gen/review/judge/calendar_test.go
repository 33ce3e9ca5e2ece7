package judge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
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
		// The zone of a key is the same before and after the edit.
		zone := ""
		if compare.HasCalendar(&old) && compare.HasCalendar(&new) && d.IntN(3) == 0 {
			zone = choose(d, "UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo")
			for _, p := range []*runtime.Policy{&old, &new} {
				p.Calendar.Zone, p.Calendar.ZonePerKey = "", true
			}
		}
		most := compare.Carried(limitOf(old, true), limitOf(new, true))
		require.LessOrEqual(t, most, new.Full())
		of := func(p runtime.Policy) *runtime.Policy {
			if zone != "" {
				p.Calendar.Zone, p.Calendar.ZonePerKey = zone, false
			}
			return &p
		}
		for range 300 {
			key := choose(d, "a", "b", "c", "d", "e")
			before, after := meter.RuleOf(of(old), key), meter.RuleOf(of(new), key)
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

// An exhausted key stays exhausted by an edit of the numbers only, also if its zone or its first day is its own.
func TestNothingIsCarriedIfOnlyNumbersOfACalendarChange(t *testing.T) {
	for _, unit := range runtime.CalendarUnits() {
		for _, perKey := range []func(c *runtime.Calendar){
			func(*runtime.Calendar) {},
			func(c *runtime.Calendar) { c.Zone, c.ZonePerKey = "", true },
			func(c *runtime.Calendar) { c.Anniversary = true },
			func(c *runtime.Calendar) { c.Zone, c.ZonePerKey, c.Anniversary = "", true, true },
		} {
			old := calendarOf(unit, "UTC")
			perKey(&old.Calendar)
			if unit == runtime.Day {
				old.Calendar.Anniversary = false
			}
			new := old
			new.Rate, new.Capacity = 5, 5
			require.Zero(t, compare.Carried(limitOf(old, true), limitOf(new, true)), "%+v", old.Calendar)
		}
	}
}

// No key that has used the whole old capacity, in a window that was there before the edit and is after it, has no token
// for longer than the review says, and some have none for as long.
func TestUsedUpKeyIsEmptyForAsLongAsTheReviewSays(t *testing.T) {
	d := roll(67)
	for range pairs() {
		old := d.policy()
		if d.IntN(2) == 0 {
			old = d.randomCalendar()
		}
		if old.Kind == runtime.InFlight {
			continue
		}
		old.MaxReserved = 0
		if old.Kind == runtime.FixedWindow && old.Capacity < old.Rate {
			old.Capacity = old.Rate
		}
		new := old
		new.Rate = max(1, old.Rate/choose[int64](d, 1, 2, 3))
		if new.Capacity = max(1, old.Capacity/choose[int64](d, 2, 3)); old.Kind == runtime.SlidingWindow {
			new.Rate = new.Capacity
		}
		if new.Capacity == old.Capacity || new.Shards > 1 {
			continue
		}
		before, after := meter.RuleOf(&old, "key"), meter.RuleOf(&new, "key")
		longest := time.Duration(0)
		at := bounds.LongestWindow(&old)
		if !compare.HasCalendar(&old) {
			at = before.Phase + 40*before.Period
		}
		starts := []int64{at, at + before.Grain() + 1}
		for range 400 {
			starts = append(starts, at+d.Int64N(max(1, before.Period)))
			if compare.HasCalendar(&old) && at < time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() {
				at = before.WindowEnd(at)
				starts = append(starts, at)
			}
		}
		for _, at := range starts {
			state, _, err := before.Step(runtime.State{}, at, runtime.Request{Count: old.Full()})
			require.NoError(t, err)
			_, check, err := after.Step(state, at, runtime.Request{Op: runtime.Check, Count: 1})
			require.NoError(t, err)
			longest = max(longest, check.RetryAfter)
		}
		require.Equal(t, bounds.EmptyFor(&new, old.Full()), longest, "%+v\nto %+v", old, new)
	}
}
