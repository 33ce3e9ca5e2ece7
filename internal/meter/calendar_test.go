package meter_test

import (
	"archive/zip"
	"fmt"
	"go/build"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func inZone(unit runtime.CalendarUnit, zone string) runtime.Calendar {
	return runtime.Calendar{Unit: unit, Zone: zone}
}

// local returns an instant by the clock of a zone.
func local(t testing.TB, zone, clock string) time.Time {
	t.Helper()
	return must(time.ParseInLocation("2006-01-02 15:04:05", clock, loaded(t, zone)))
}

// The quota of a month, in a zone whose clock is put back on 25 October 2026.
func TestMonthByExample(t *testing.T) {
	p := runtimetest.Once(inZone(runtime.Month, "Europe/Berlin"))
	p.Rate, p.Capacity = 100, 100
	rule, state := meter.RuleOf(&p, "org"), runtime.State{}
	for _, step := range []struct {
		at         string
		count      int64
		allowed    bool
		remaining  int64
		retryAfter time.Duration
	}{
		{"2026-10-01 00:00:00", 60, true, 40, 0},
		{"2026-10-24 12:00:00", 40, true, 0, 0},
		{"2026-10-25 00:00:00", 1, false, 0, 7*24*time.Hour + time.Hour},
		{"2026-10-31 23:59:59", 1, false, 0, time.Second},
		{"2026-11-01 00:00:00", 1, true, 99, 0},
		{"2026-11-30 00:00:00", 99, true, 0, 0},
		{"2026-11-30 12:00:00", 1, false, 0, 12 * time.Hour},
		{"2027-03-01 00:00:00", 100, true, 0, 0}, // unused tokens of three months are not carried over
		{"2027-03-28 01:59:59", 1, false, 0, 3*24*time.Hour + 21*time.Hour + time.Second},
	} {
		next, d := must2(rule.Step(state, local(t, "Europe/Berlin", step.at).UnixNano(), take(step.count)))
		state = next
		require.Equal(t, step.allowed, d.Allowed, step.at)
		require.Equal(t, step.remaining, d.Remaining, step.at)
		require.Equal(t, step.retryAfter, d.RetryAfter, step.at)
	}
}

// windowStarts lists the starts of the windows that begin from one instant to another.
func windowStarts(p *runtime.Policy, from, to time.Time) (starts []time.Time) {
	rule := meter.RuleOf(p, "")
	for at := rule.WindowEnd(from.UnixNano() - 1); at < to.UnixNano(); at = rule.WindowEnd(at) {
		starts = append(starts, time.Unix(0, at))
	}
	return starts
}

// The days of these years that are not 24 hours long, or do not begin at 0:00.
func TestDaysWithAClockChange(t *testing.T) {
	for _, row := range []struct {
		zone string
		year int
		want string
	}{
		{"America/New_York", 2026, "Mar 8 00:00 23h, Nov 1 00:00 25h"},
		{"America/Santiago", 2026, "Apr 4 00:00 25h, Sep 6 01:00 23h"},
		{"Africa/Cairo", 2026, "Apr 24 01:00 23h, Oct 29 00:00 25h"},
		{"Asia/Beirut", 2026, "Mar 29 01:00 23h, Oct 24 00:00 25h"},
		{"America/Havana", 2026, "Mar 8 01:00 23h, Nov 1 00:00 25h"},
		{"Australia/Lord_Howe", 2026, "Apr 5 00:00 24.5h, Oct 4 00:00 23.5h"},
		{"Pacific/Apia", 2011, "Apr 2 00:00 25h, Sep 24 00:00 23h"},
		{"America/St_Johns", 2010, "Mar 14 00:00 23h, Nov 7 00:00 25h"},
		{"Europe/Berlin", 2028, "Mar 26 00:00 23h, Oct 29 00:00 25h"}, // a leap year, whose last day package time miscounts
		{"Europe/Berlin", 2026, "Mar 29 00:00 23h, Oct 25 00:00 25h"},
		{"UTC", 2026, ""},
	} {
		p := runtimetest.Once(inZone(runtime.Day, row.zone))
		loc := loaded(t, row.zone)
		starts := windowStarts(&p, time.Date(row.year, 1, 1, 12, 0, 0, 0, loc), time.Date(row.year+1, 1, 2, 12, 0, 0, 0, loc))
		var uneven []string
		for i, start := range starts[:len(starts)-1] {
			length := starts[i+1].Sub(start)
			clock := start.In(loc).Format("15:04")
			if length != 24*time.Hour || clock != "00:00" {
				uneven = append(uneven, fmt.Sprintf("%s %gh", start.In(loc).Format("Jan 2 15:04"), length.Hours()))
			}
		}
		require.Equal(t, row.want, strings.Join(uneven, ", "), row.zone)
		if row.zone == "Pacific/Apia" {
			require.Len(t, starts, 364+1, "30 December 2011 was skipped, and has no window")
		}
	}
}

func TestStartsOfWindows(t *testing.T) {
	type Calendar = runtime.Calendar
	for _, row := range []struct {
		name     string
		calendar Calendar
		from     string
		want     string
	}{
		{"the 31st, in a leap year too", Calendar{Unit: runtime.Month, Zone: "UTC", From: runtime.Date{Year: 2024, Month: time.January, Day: 31}}, "2023-11-15",
			"2023-11-30 2023-12-31 2024-01-31 2024-02-29 2024-03-31 2024-04-30 2024-05-31 2024-06-30 2024-07-31 2024-08-31 2024-09-30 2024-10-31 " +
				"2024-11-30 2024-12-31 2025-01-31 2025-02-28 2025-03-31"},
		{"the 15th", Calendar{Unit: runtime.Month, Zone: "UTC", From: runtime.Date{Year: 1970, Month: time.January, Day: 15}}, "2026-01-15", "2026-01-15 2026-02-15"},
		{"quarters", Calendar{Unit: runtime.Month, Count: 3, Zone: "UTC"}, "2026-01-02", "2026-04-01 2026-07-01 2026-10-01 2027-01-01"},
		{"quarters from the end of November", Calendar{Unit: runtime.Month, Count: 3, Zone: "UTC", From: runtime.Date{Year: 2025, Month: time.November, Day: 30}}, "2026-01-02", "2026-02-28 2026-05-30 2026-08-30"},
		{"weeks", Calendar{Unit: runtime.Week, Zone: "UTC"}, "2026-11-20", "2026-11-23 2026-11-30"},
		{"weeks from Sunday", Calendar{Unit: runtime.Week, Zone: "UTC", From: runtime.Date{Year: 1970, Month: time.January, Day: 4}}, "2026-11-20", "2026-11-22 2026-11-29"},
		{"every other week", Calendar{Unit: runtime.Week, Count: 2, Zone: "UTC", From: runtime.Date{Year: 2026, Month: time.November, Day: 23}}, "2026-11-01", "2026-11-09 2026-11-23 2026-12-07"},
		{"years", Calendar{Unit: runtime.Year, Zone: "UTC"}, "2023-06-01", "2024-01-01 2025-01-01"},
		{"years from 6 April", Calendar{Unit: runtime.Year, Zone: "UTC", From: runtime.Date{Year: 1970, Month: time.April, Day: 6}}, "2023-06-01", "2024-04-06 2025-04-06"},
		{"years from 29 February", Calendar{Unit: runtime.Year, Zone: "UTC", From: runtime.Date{Year: 2024, Month: time.February, Day: 29}}, "2023-01-01", "2023-02-28 2024-02-29 2025-02-28"},
		{"10 days", Calendar{Unit: runtime.Day, Count: 10, Zone: "UTC", From: runtime.Date{Year: 2026, Month: time.January, Day: 1}}, "2025-12-20", "2025-12-22 2026-01-01 2026-01-11"},
		{"before 1970", Calendar{Unit: runtime.Month, Zone: "UTC"}, "1969-11-30", "1969-12-01 1970-01-01 1970-02-01"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := runtimetest.Once(row.calendar)
			require.NoError(t, p.Validate())
			from := must(time.Parse(time.DateOnly, row.from))
			want := strings.Fields(row.want)
			var got []string
			for _, start := range windowStarts(&p, from, from.AddDate(5, 0, 0))[:len(want)] {
				got = append(got, start.UTC().Format(time.DateOnly))
			}
			require.Equal(t, want, got)
		})
	}
}

// The time of day of a window may be skipped, and then the window begins when the clock is put forward; or it may come
// twice, and then the window begins at the first time.
func TestWindowsAtATimeOfDay(t *testing.T) {
	for _, row := range []struct {
		zone, at, day string
		want          string
	}{
		{"America/New_York", "2h30m", "2026-03-07", "2026-03-07T07:30:00Z 2026-03-08T07:00:00Z 2026-03-09T06:30:00Z"},
		{"America/New_York", "1h30m", "2026-10-31", "2026-10-31T05:30:00Z 2026-11-01T05:30:00Z 2026-11-02T06:30:00Z"},
		// 30 December 2011 and 21 August 1993 do not exist there, and have no window, not even one up to the time of day.
		{"Pacific/Apia", "30m", "2011-12-28", "2011-12-28T10:30:00Z 2011-12-29T10:30:00Z 2011-12-30T10:30:00Z"},
		{"Pacific/Apia", "23h30m", "2011-12-28", "2011-12-29T09:30:00Z 2011-12-30T09:30:00Z"},
		{"Pacific/Kwajalein", "30m", "1993-08-19", "1993-08-19T12:30:00Z 1993-08-20T12:30:00Z 1993-08-21T12:30:00Z"},
	} {
		c := inZone(runtime.Day, row.zone)
		at := must(time.ParseDuration(row.at))
		c.At = at
		p, from := runtimetest.Once(c), local(t, c.Zone, row.day+" 00:00:00")
		var got []string
		for _, start := range windowStarts(&p, from, from.Add(71*time.Hour)) {
			got = append(got, start.UTC().Format(time.RFC3339))
		}
		require.Equal(t, row.want, strings.Join(got, " "))
	}
}

// allZones returns the names of all zones in the data of the Go installation.
func allZones(t testing.TB) (names []string) {
	t.Helper()
	z := must(zip.OpenReader(filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip")))
	defer z.Close()
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	return names
}

// firstSecond finds the first second from which a zone's clock shows a time or a later one by looking at every minute
// around it, and then at every second of one of them. near is the result if the clock is not changed around it.
func firstSecond(zone *time.Location, clock int64) int64 {
	shows := func(at int64) int64 {
		_, offset := time.Unix(at, 0).In(zone).Zone()
		return at + int64(offset)
	}
	const day = 24 * 60 * 60
	near := clock - (shows(clock) - clock)
	// Most clocks are not changed for days before and after: then the time is where it seems to be.
	begin, end := time.Unix(near, 0).In(zone).ZoneBounds()
	if (begin.IsZero() || near-begin.Unix() > 2*day) && (end.IsZero() || end.Unix()-near > 2*day) && shows(near) == clock {
		return near
	}
	for at := near - 2*day; ; at += 60 {
		if shows(at) < clock {
			continue
		}
		for second := at - 60; ; second++ {
			if shows(second) >= clock {
				return second
			}
		}
	}
}

// In every zone, windows of a day begin at the first instant of the local day, and the windows between any two of them
// are counted exactly. time.Date would be another instant on some of them.
func TestEveryDayOfEveryZone(t *testing.T) {
	names, from, to := runtimetest.UnusualZones, 2005, 2014
	if runtimetest.Long() {
		names, from, to = allZones(t), 1970, 2037
	}
	otherThanDate, skipped := 0, 0
	for _, name := range names {
		other, skips := everyDay(t, loaded(t, name), from, to)
		otherThanDate, skipped = otherThanDate+other, skipped+skips
	}
	require.Positive(t, otherThanDate, "the sample must have days on which time.Date fails")
	require.Positive(t, skipped)
}

// everyDay compares the windows of a zone with its days. It returns on how many days time.Date fails, and how many days
// the zone has skipped.
func everyDay(t *testing.T, zone *time.Location, from, to int) (otherThanDate, skipped int) {
	p := runtimetest.Once(inZone(runtime.Day, zone.String()))
	rule := meter.RuleOf(&p, "")
	p.Capacity = 1_000_000
	counting := meter.RuleOf(&p, "")
	first, end := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(to+1, 1, 1, 0, 0, 0, 0, time.UTC)
	begin := firstSecond(zone, first.Unix()) * int64(time.Second)
	window := rule.WindowEnd(begin - 1)
	require.Equal(t, begin, window, zone)
	for day := first.AddDate(0, 0, 1); day.Before(end); day = day.AddDate(0, 0, 1) {
		want := firstSecond(zone, day.Unix()) * int64(time.Second)
		if time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, zone).UnixNano() != want {
			otherThanDate++
		}
		if want == window {
			skipped++ // the window begins with the day after
			continue
		}
		next := rule.WindowEnd(window)
		require.Equal(t, want, next, "%v: the day %v", zone, day)
		require.EqualValues(t, 1, windowsBetween(&counting, window, next), "%v: the day before %v", zone, day)
		window = next
		// Over many days, a skipped day counts, because the clock has passed it.
		days := int64(day.Sub(first) / (24 * time.Hour))
		require.Contains(t, []int64{days, days - int64(skipped)}, windowsBetween(&counting, begin, window), "%v: windows to %v", zone, day)
	}
	return otherThanDate, skipped
}

// windowsBetween returns how many windows the runtime counts between two starts: the tokens that a drained key gets.
func windowsBetween(counting *meter.Rule, from, to int64) int64 {
	drained, _, err := counting.Step(runtime.State{}, from, take(int64(counting.Capacity)))
	if err != nil {
		panic(err)
	}
	_, d, err := counting.Step(drained, to, peek())
	if err != nil {
		panic(err)
	}
	return d.Remaining
}

// For every day of the month as the first one, the months between any two starts within 1,300 months are counted
// exactly.
func TestEveryPairOfMonthsIsCountedExactly(t *testing.T) {
	days, most := []int{1, 15, 28, 29, 30, 31}, 130
	if runtimetest.Long() {
		days, most = nil, 1300
		for day := 1; day <= 31; day++ {
			days = append(days, day)
		}
	}
	for _, day := range days {
		c := inZone(runtime.Month, "UTC")
		c.From = runtime.Date{Year: 1970, Month: time.January, Day: day}
		p := runtimetest.Once(c)
		starts := windowStarts(&p, time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1970, time.Month(2+most), 1, 0, 0, 0, 0, time.UTC))
		p.Capacity = 1_000_000
		counting := meter.RuleOf(&p, "")
		for i := range starts {
			for j := i; j < len(starts); j++ {
				got := windowsBetween(&counting, starts[i].UnixNano(), starts[j].UnixNano())
				require.Equal(t, int64(j-i), got, "from %v to %v", starts[i], starts[j])
			}
		}
	}
}

// calendarStartByHand returns the start of the window that contains now, found by trying windows one after the other.
func calendarStartByHand(p *runtime.Policy, now int64) int64 {
	c := p.Calendar
	zone, err := c.Location()
	if err != nil {
		panic(err)
	}
	from := c.From
	if from == (runtime.Date{}) {
		from = runtime.Date{Year: 1970, Month: time.January, Day: 1}
		if c.Unit == runtime.Week {
			from.Day = 5
		}
	}
	count := max(1, c.Count)
	begin := func(n int) int64 {
		at := time.Date(from.Year, from.Month, from.Day, 0, 0, 0, 0, time.UTC)
		switch c.Unit {
		case runtime.Day:
			at = at.AddDate(0, 0, n*count)
		case runtime.Week:
			at = at.AddDate(0, 0, 7*n*count)
		default:
			months := n * count
			if c.Unit == runtime.Year {
				months *= 12
			}
			first := time.Date(from.Year, from.Month+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
			last := first.AddDate(0, 1, -1)
			at = first.AddDate(0, 0, min(from.Day, last.Day())-1)
		}
		second := at.Unix()
		// A day that the zone has skipped has no window of its own.
		if single := c.Unit == runtime.Day && count == 1; single && firstSecond(zone, second) == firstSecond(zone, second+24*60*60) {
			second += 24 * 60 * 60
		}
		return firstSecond(zone, second+int64(c.At/time.Second)) * int64(time.Second)
	}
	first := time.Date(from.Year, from.Month, from.Day, 0, 0, 0, 0, time.UTC)
	// Float64 seconds, because a Duration overflows after 292 years.
	n := int(float64(now/int64(time.Second)-first.Unix())/c.Period().Seconds()) + 2
	for begin(n) > now {
		n--
	}
	return begin(n)
}

func TestWindowsOfRandomCalendars(t *testing.T) {
	d := runtimetest.Roll(51)
	for range runtimetest.Steps() / 10 {
		p := d.WithCalendar(runtimetest.Once(inZone(runtime.Month, "UTC")))
		require.NoError(t, p.Validate())
		rule := meter.RuleOf(&p, "")
		now := time.Date(1972+d.IntN(60), time.Month(1+d.IntN(12)), 1+d.IntN(31), d.IntN(24), d.IntN(60), d.IntN(60), d.IntN(1e9), time.UTC).UnixNano()
		end := rule.WindowEnd(now)
		require.Greater(t, end, now)
		start := calendarStartByHand(&p, now)
		require.Equal(t, end, rule.WindowEnd(start), "%+v at %d", p.Calendar, now)
		require.Equal(t, start, rule.WindowEnd(start-1), "%+v at %d", p.Calendar, now)
		state, _ := must2(rule.Step(runtime.State{}, now, take(1)))
		require.Equal(t, start, state.TS)
	}
}

func TestCalendarAtTheEndsOfTime(t *testing.T) {
	for _, unit := range runtime.CalendarUnits() {
		p := runtimetest.Once(inZone(unit, "America/New_York"))
		rule := meter.RuleOf(&p, "")
		for _, now := range []int64{-1 << 63, -1<<63 + 1, 1<<63 - 1<<58, 0} {
			state, d := must2(rule.Step(runtime.State{}, now, take(1)))
			require.True(t, d.Allowed)
			_, d = must2(rule.Step(state, now, take(1)))
			require.False(t, d.Allowed)
			require.GreaterOrEqual(t, rule.WindowEnd(now), now)
		}
	}
}

// The tokens of two windows of one key were granted at starts that are at least half of a window's mean length apart,
// whatever zones and anniversaries its requests have.
func TestWindowsOfOneKeyBeginHalfAPeriodApart(t *testing.T) {
	d := runtimetest.Roll(52)
	for range runtimetest.Steps() / 200 {
		c := runtime.Calendar{Unit: runtimetest.Pick(d, runtime.CalendarUnits()...), ZonePerKey: true, Anniversary: true}
		if c.Unit == runtime.Day {
			c.Anniversary = false
		}
		p := runtimetest.Once(c)
		var state runtime.State
		now := epoch.UnixNano()
		for range 200 {
			q := take(1)
			q.Zone = loaded(t, runtimetest.Pick(d, runtimetest.UnusualZones...))
			q.Anniversary = runtime.Date{Year: 2000, Month: time.Month(1 + d.IntN(12)), Day: 1 + d.IntN(28)}
			rule := meter.RuleOf(&p, "").For(q)
			next, decision := must2(rule.Step(state, now, q))
			if decision.Allowed && state.Exists {
				require.GreaterOrEqual(t, next.TS-state.TS, int64(c.Period()/2))
			}
			if !decision.Allowed {
				_, retried := must2(rule.Step(next, now+int64(decision.RetryAfter), q))
				require.True(t, retried.Allowed)
			}
			state = next
			now += d.Int64N(int64(c.Period()) / 4)
		}
	}
}

func loaded(t testing.TB, name string) *time.Location {
	t.Helper()
	return must(inZone(runtime.Day, name).Location())
}

// A row is swept only when its key is full in every zone and by every anniversary that it may have.
func TestSweepWithoutTheCalendarOfTheKey(t *testing.T) {
	d := runtimetest.Roll(53)
	swept := 0
	for range runtimetest.Steps() / 10 {
		c := runtime.Calendar{Unit: runtimetest.Pick(d, runtime.CalendarUnits()...), Count: runtimetest.Pick(d, 1, 2), ZonePerKey: true}
		c.Anniversary = c.Unit != runtime.Day && d.IntN(2) == 0
		p := runtimetest.Once(c)
		p.MaxReserved = runtimetest.Pick[int64](d, 0, 3)
		q := reserve(1 + p.MaxReserved)
		q.Reserve = p.MaxReserved > 0
		q.Zone = loaded(t, runtimetest.Pick(d, runtimetest.UnusualZones...))
		q.Anniversary = runtime.Date{Year: 2000, Month: time.Month(1 + d.IntN(12)), Day: 1 + d.IntN(28)}
		rule, now := meter.RuleOf(&p, "").For(q), epoch.UnixNano()+d.Int64N(1e17)
		state, _ := must2(rule.Step(runtime.State{}, now, q))
		now += d.Int64N(6 * int64(c.Period()))
		_, balance := must2(rule.Step(state, now-int64(24*time.Hour), peek()))
		if meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Name: p.Name}, state, now) {
			swept++
			require.Equal(t, p.Capacity, balance.Remaining, "%+v", c)
		}
		require.True(t, meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Name: p.Name}, state, now+9*int64(c.Period())))
	}
	require.Positive(t, swept)
}

func BenchmarkStepOfACalendar(b *testing.B) {
	p := runtimetest.Once(inZone(runtime.Month, "Europe/Berlin"))
	p.Rate, p.Capacity = 1_000_000_000, 1_000_000_000
	state := runtime.State{}
	rule := meter.RuleOf(&p, "key")
	for b.Loop() {
		next, _, err := rule.Step(state, epoch.UnixNano(), take(1))
		if err != nil {
			b.Fatal(err)
		}
		state = next
	}
}
