package runtime_test

import (
	"archive/zip"
	"context"
	"fmt"
	"go/build"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// calendarPolicy is a limit of one token for each window of a calendar.
func calendarPolicy(c runtime.Calendar) runtime.Policy {
	return runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 1, Capacity: 1, Period: c.Period(), Calendar: c}
}

func inZone(unit runtime.CalendarUnit, zone string) runtime.Calendar {
	return runtime.Calendar{Unit: unit, Zone: zone}
}

// local returns an instant by the clock of a zone.
func local(t testing.TB, zone, clock string) time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	at, err := time.ParseInLocation("2006-01-02 15:04:05", clock, loc)
	require.NoError(t, err)
	return at
}

// The quota of a month, in a zone whose clock is put back on 25 October 2026.
func TestMonthByExample(t *testing.T) {
	p := calendarPolicy(inZone(runtime.Month, "Europe/Berlin"))
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
		next, d, err := rule.Step(state, local(t, "Europe/Berlin", step.at).UnixNano(), take(step.count))
		require.NoError(t, err)
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
		p := calendarPolicy(inZone(runtime.Day, row.zone))
		loc, err := time.LoadLocation(row.zone)
		require.NoError(t, err)
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
				"2024-11-30 2024-12-31 2025-01-31 2025-02-28 2025-03-31 2025-04-30 2025-05-31 2025-06-30 2025-07-31 2025-08-31 2025-09-30 2025-10-31 " +
				"2025-11-30 2025-12-31 2026-01-31 2026-02-28 2026-03-31 2026-04-30 2026-05-31 2026-06-30 2026-07-31 2026-08-31 2026-09-30 2026-10-31 " +
				"2026-11-30 2026-12-31 2027-01-31 2027-02-28 2027-03-31"},
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
			p := calendarPolicy(row.calendar)
			require.NoError(t, p.Validate())
			from, err := time.Parse(time.DateOnly, row.from)
			require.NoError(t, err)
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
	c := inZone(runtime.Day, "America/New_York")
	c.At = 2*time.Hour + 30*time.Minute
	p := calendarPolicy(c)
	starts := windowStarts(&p, local(t, c.Zone, "2026-03-07 00:00:00"), local(t, c.Zone, "2026-03-10 00:00:00"))
	require.Equal(t, "[2026-03-07T07:30:00Z 2026-03-08T07:00:00Z 2026-03-09T06:30:00Z]", inUTC(starts))
	c.At = 90 * time.Minute
	p = calendarPolicy(c)
	starts = windowStarts(&p, local(t, c.Zone, "2026-10-31 00:00:00"), local(t, c.Zone, "2026-11-03 00:00:00"))
	require.Equal(t, "[2026-10-31T05:30:00Z 2026-11-01T05:30:00Z 2026-11-02T06:30:00Z]", inUTC(starts))
}

func inUTC(all []time.Time) string {
	var texts []string
	for _, at := range all {
		texts = append(texts, at.UTC().Format(time.RFC3339))
	}
	return fmt.Sprint(texts)
}

// allZones returns the names of all zones in the data of the Go installation.
func allZones(t testing.TB) (names []string) {
	t.Helper()
	z, err := zip.OpenReader(filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip"))
	require.NoError(t, err)
	defer z.Close()
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	return names
}

// zoneData returns the data of a zone in the Go installation.
func zoneData(t testing.TB, name string) []byte {
	t.Helper()
	z, err := zip.OpenReader(filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip"))
	require.NoError(t, err)
	defer z.Close()
	f, err := z.Open(name)
	require.NoError(t, err)
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	return data
}

// unusualZones are the zones of a sample: those with clock changes at midnight, of other than an hour, or of a day.
var unusualZones = []string{
	"UTC", "America/New_York", "America/Santiago", "Africa/Cairo", "Asia/Beirut", "America/Havana", "Australia/Lord_Howe",
	"Pacific/Apia", "America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Pacific/Kwajalein", "Pacific/Kiritimati",
	"Africa/Casablanca", "Asia/Pyongyang", "Africa/Monrovia", "America/Scoresbysund", "Asia/Gaza",
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
// are counted exactly. time.Date would be another instant 1,314 times.
func TestEveryDayOfEveryZone(t *testing.T) {
	names, from, to := unusualZones, 2005, 2014
	if *long {
		names, from, to = allZones(t), 1970, 2037
	}
	type result struct{ days, otherThanDate, dayBefore, skipped int }
	var mu sync.Mutex
	var all result
	var wg sync.WaitGroup
	work := make(chan string)
	for range 2 {
		wg.Go(func() {
			for name := range work {
				var r result
				zone, err := time.LoadLocation(name)
				if err != nil {
					t.Error(err)
					continue
				}
				rule, counting := dayRules(name)
				first := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)
				last := time.Date(to+1, 1, 1, 0, 0, 0, 0, time.UTC)
				window := rule.WindowEnd(firstSecond(zone, first.Unix())*int64(time.Second) - 1)
				begin, nominal := window, int64(0)
				for day := first; day.Before(last); day = day.AddDate(0, 0, 1) {
					r.days++
					want := firstSecond(zone, day.Unix()) * int64(time.Second)
					if date := time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, zone); date.UnixNano() != want {
						r.otherThanDate++
						if date.Day() != day.Day() {
							r.dayBefore++
						}
					}
					if day.After(first) && want == window {
						r.skipped++ // the window begins with the day after
						nominal++
						continue
					}
					if day.After(first) {
						next := rule.WindowEnd(window)
						if got := windowsBetween(&counting, window, next); got != 1 {
							t.Errorf("%s: %d windows from %v to %v", name, got, time.Unix(0, window).UTC(), time.Unix(0, next).UTC())
						}
						window = next
						nominal++
					}
					if window != want {
						t.Errorf("%s: the window of %s begins at %v, and the day at %v", name, day.Format(time.DateOnly), time.Unix(0, window).UTC(), time.Unix(0, want).UTC())
						window = want
					}
					// Over many days, a skipped day counts, because the clock has passed it.
					if got := windowsBetween(&counting, begin, window); got != nominal && got != nominal-int64(r.skipped) {
						t.Errorf("%s: %d windows to %v, not %d", name, got, day, nominal)
					}
				}
				mu.Lock()
				all.days, all.otherThanDate = all.days+r.days, all.otherThanDate+r.otherThanDate
				all.dayBefore, all.skipped = all.dayBefore+r.dayBefore, all.skipped+r.skipped
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	wg.Wait()
	t.Logf("%d zones: %+v", len(names), all)
	require.Positive(t, all.otherThanDate, "the sample must have days on which time.Date fails")
	require.Positive(t, all.skipped)
}

// dayRules returns the rule of days in a zone, and one whose tokens count the windows.
func dayRules(zone string) (rule, counting meter.Rule) {
	p := calendarPolicy(inZone(runtime.Day, zone))
	q := p
	q.Capacity = 1_000_000
	return meter.RuleOf(&p, ""), meter.RuleOf(&q, "")
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

// For every day of the month as the first one, the months between any two starts within 1,300 months are counted exactly.
func TestEveryPairOfMonthsIsCountedExactly(t *testing.T) {
	days, most := []int{1, 15, 28, 29, 30, 31}, 130
	if *long {
		days, most = nil, 1300
		for day := 1; day <= 31; day++ {
			days = append(days, day)
		}
	}
	for _, day := range days {
		c := inZone(runtime.Month, "UTC")
		c.From = runtime.Date{Year: 1970, Month: time.January, Day: day}
		p := calendarPolicy(c)
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

// withCalendar returns p with a random calendar.
func (d dice) withCalendar(p runtime.Policy) runtime.Policy {
	c := runtime.Calendar{
		Unit: pick(d, runtime.CalendarUnits()...), Count: pick(d, 0, 1, 1, 2, 3), Zone: pick(d, unusualZones...),
		At: pick(d, 0, 0, 2*time.Hour+30*time.Minute, 23*time.Hour+59*time.Minute),
	}
	if d.IntN(2) == 0 {
		c.From = runtime.Date{Year: 1960 + d.IntN(80), Month: time.Month(1 + d.IntN(12)), Day: 1 + d.IntN(31)}
		if !c.From.Valid() {
			c.From.Day = 28
		}
	}
	p.Calendar, p.Period, p.Start = c, c.Period(), runtime.Start{}
	return p
}

// calendarStartByHand returns the start of the window that contains now, found by trying windows one after the other.
func calendarStartByHand(p *runtime.Policy, now int64) int64 {
	c := p.Calendar
	zone, err := time.LoadLocation(c.Zone)
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
		return firstSecond(zone, at.Unix()+int64(c.At/time.Second)) * int64(time.Second)
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
	d := roll(51)
	for range randomSteps() / 10 {
		p := d.withCalendar(calendarPolicy(inZone(runtime.Month, "UTC")))
		require.NoError(t, p.Validate())
		rule := meter.RuleOf(&p, "")
		now := time.Date(1972+d.IntN(60), time.Month(1+d.IntN(12)), 1+d.IntN(31), d.IntN(24), d.IntN(60), d.IntN(60), d.IntN(1e9), time.UTC).UnixNano()
		end := rule.WindowEnd(now)
		require.Greater(t, end, now)
		start := calendarStartByHand(&p, now)
		require.Equal(t, end, rule.WindowEnd(start), "%+v at %d", p.Calendar, now)
		require.Equal(t, start, rule.WindowEnd(start-1), "%+v at %d", p.Calendar, now)
		state, _, err := rule.Step(runtime.State{}, now, take(1))
		require.NoError(t, err)
		require.Equal(t, start, state.TS)
	}
}

func TestCalendarAtTheEndsOfTime(t *testing.T) {
	for _, unit := range runtime.CalendarUnits() {
		p := calendarPolicy(inZone(unit, "America/New_York"))
		rule := meter.RuleOf(&p, "")
		for _, now := range []int64{-1 << 63, -1<<63 + 1, 1<<63 - 1<<58, 0} {
			state, d, err := rule.Step(runtime.State{}, now, take(1))
			require.NoError(t, err)
			require.True(t, d.Allowed)
			_, d, err = rule.Step(state, now, take(1))
			require.NoError(t, err)
			require.False(t, d.Allowed)
			require.GreaterOrEqual(t, rule.WindowEnd(now), now)
		}
	}
}

// A key that changes its zone every hour, for a year: its windows begin at least half a day apart, and it gets at most
// two windows' tokens for each day.
func TestKeyThatChangesItsZoneEveryHour(t *testing.T) {
	zones := make([]*time.Location, 0, 40)
	for _, name := range append(slices.Clone(unusualZones), "Pacific/Pago_Pago", "Etc/GMT+12", "Asia/Tokyo", "Europe/London", "America/Anchorage") {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		zones = append(zones, zone)
	}
	for _, unit := range []runtime.CalendarUnit{runtime.Day, runtime.Week, runtime.Month} {
		for seed := range uint64(travels()) {
			d := rand.New(rand.NewPCG(seed, 3))
			now := epoch
			limits := limiter.New(&memstore.Store{Clock: func() time.Time { return now }})
			c := runtime.Calendar{Unit: unit, ZonePerKey: true}
			p := calendarPolicy(c)
			allowed := 0
			for range 365 * 24 {
				zone := zones[d.IntN(len(zones))]
				if seed%2 == 0 { // the zone in which the next window begins first
					key := runtime.KeyOf(runtime.String("traveller"))
					for range 4 {
						z := zones[d.IntN(len(zones))]
						if ok, err := limits.Limit(&p, key.In(z)).Check(t.Context()); err == nil && ok.Allowed {
							zone = z
						}
					}
				}
				ok, err := limits.Limit(&p, runtime.KeyOf(runtime.String("traveller")).In(zone)).Allow(t.Context())
				require.NoError(t, err)
				if ok.Allowed {
					allowed++
				}
				now = now.Add(time.Hour)
			}
			year := 365 * 24 * time.Hour
			most := 1 + int(2*(year+c.Period()*13/10)/c.Period()) + 1
			require.LessOrEqual(t, allowed, most)
			if seed%2 == 0 && unit == runtime.Day {
				require.Greater(t, allowed, 400, "the traveller gains some windows")
			}
			if unit != runtime.Day {
				require.LessOrEqual(t, allowed, int(year/c.Period())+3, "zones are at most 26 hours apart")
			}
		}
	}
}

// travels returns how many years a test travels.
func travels() int {
	if *long {
		return 20
	}
	return 2
}

// The tokens of two windows of one key were granted at starts that are at least half of a window's mean length apart,
// whatever zones and anniversaries its requests have.
func TestWindowsOfOneKeyBeginHalfAPeriodApart(t *testing.T) {
	d := roll(52)
	for range randomSteps() / 200 {
		c := runtime.Calendar{Unit: pick(d, runtime.CalendarUnits()...), ZonePerKey: true, Anniversary: true}
		if c.Unit == runtime.Day {
			c.Anniversary = false
		}
		p := calendarPolicy(c)
		var state runtime.State
		now := epoch.UnixNano()
		for range 200 {
			q := take(1)
			q.Zone = loaded(t, pick(d, unusualZones...))
			q.Anniversary = runtime.Date{Year: 2000, Month: time.Month(1 + d.IntN(12)), Day: 1 + d.IntN(28)}
			rule := meter.RuleOf(&p, "").For(q)
			next, decision, err := rule.Step(state, now, q)
			require.NoError(t, err)
			if decision.Allowed && state.Exists {
				require.GreaterOrEqual(t, next.TS-state.TS, int64(c.Period()/2))
			}
			if !decision.Allowed {
				_, retried, err := rule.Step(next, now+int64(decision.RetryAfter), q)
				require.NoError(t, err)
				require.True(t, retried.Allowed)
			}
			state = next
			now += d.Int64N(int64(c.Period()) / 4)
		}
	}
}

var loadedZones sync.Map

func loaded(t testing.TB, name string) *time.Location {
	if zone, ok := loadedZones.Load(name); ok {
		return zone.(*time.Location)
	}
	zone, err := time.LoadLocation(name)
	require.NoError(t, err)
	loadedZones.Store(name, zone)
	return zone
}

// Each key has its own billing day, which the 31st of a short month is moved from and back to.
func TestAnniversary(t *testing.T) {
	now := local(t, "Europe/Berlin", "2026-01-31 12:00:00")
	limits := limiter.New(&memstore.Store{Clock: func() time.Time { return now }})
	c := inZone(runtime.Month, "Europe/Berlin")
	c.Anniversary = true
	p := calendarPolicy(c)
	// 23:30 UTC on the 30th is the 31st in Berlin.
	since := time.Date(2024, 10, 30, 23, 30, 0, 0, time.UTC)
	limit := limits.Limit(&p, runtime.KeyOf(runtime.Int64(1)).Since(since))
	for _, next := range []string{"2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"} {
		d, err := limit.Allow(t.Context())
		require.NoError(t, err)
		require.True(t, d.Allowed)
		d, err = limit.Allow(t.Context())
		require.NoError(t, err)
		require.Equal(t, local(t, c.Zone, next+" 00:00:00").Sub(now), d.RetryAfter)
		now = now.Add(d.RetryAfter)
	}
}

func TestCalendarOfAKeyIsRequired(t *testing.T) {
	ctx := context.Background()
	limits := limiter.New(&memstore.Store{})
	own := runtime.Calendar{Unit: runtime.Month, ZonePerKey: true, Anniversary: true}
	p := calendarPolicy(own)
	since := time.Date(2024, 1, 31, 0, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		key  runtime.Key
		want string
	}{
		"no zone":            {runtime.Key{}.Since(since), "the time zone of the key is missing or nil: pass a *time.Location"},
		"a nil zone":         {runtime.Key{}.Since(since).In(nil), "the time zone of the key is missing or nil: pass a *time.Location"},
		"no anniversary":     {runtime.Key{}.In(time.UTC), "the anniversary of the key is missing, zero, or not in the years 1 to 9999: pass a time.Time"},
		"a zero anniversary": {runtime.Key{}.In(time.UTC).Since(time.Time{}), "the anniversary of the key is missing, zero, or not in the years 1 to 9999: pass a time.Time"},
	} {
		_, err := limits.Limit(&p, row.key).Allow(ctx)
		require.ErrorIs(t, err, runtime.ErrInvalidKey, name)
		require.ErrorContains(t, err, row.want, name)
	}
	_, err := limits.Limit(&p, runtime.Key{}.In(time.UTC).Since(since)).Allow(ctx)
	require.NoError(t, err)
	two := runtime.KeyOf(runtime.Int64(1)).Since(since)
	tokyo := loaded(t, "Asia/Tokyo")
	_, err = limits.All(ctx, limits.Limit(&p, two.In(time.UTC)), limits.Limit(&p, two.In(tokyo)))
	require.ErrorIs(t, err, runtime.ErrInvalidCall)
	again, err := time.LoadLocation("Asia/Tokyo")
	require.NoError(t, err)
	p.Rate, p.Capacity = 2, 2
	ds, err := limits.All(ctx, limits.Limit(&p, two.In(again)), limits.Limit(&p, two.In(tokyo)))
	require.NoError(t, err)
	require.True(t, ds.Allowed, "two pointers to one zone")
}

// A start that moves by an hour, as after an update of the zone data, is not another window. Each process of such a
// deploy has its own data.
func TestProcessesWithDifferentZoneDataGrantNoWindowTwice(t *testing.T) {
	// Egypt has put its clocks forward since 2023, and did not before.
	old, err := time.LoadLocationFromTZData("Africa/Cairo", zoneData(t, "Africa/Tripoli"))
	require.NoError(t, err)
	new, err := time.LoadLocationFromTZData("Africa/Cairo", zoneData(t, "Africa/Cairo"))
	require.NoError(t, err)
	for _, unit := range runtime.CalendarUnits() {
		c := runtime.Calendar{Unit: unit, ZonePerKey: true}
		p := calendarPolicy(c)
		for seed := range uint64(travels()) {
			d := rand.New(rand.NewPCG(seed, 9))
			now := epoch
			store := &memstore.Store{Clock: func() time.Time { return now }}
			limits := limiter.New(store)
			allowed := 0
			for now.Before(epoch.AddDate(2, 0, 0)) {
				for _, zone := range []*time.Location{old, new} {
					ok, err := limits.Limit(&p, runtime.Key{}.In(zone)).Allow(t.Context())
					require.NoError(t, err)
					if ok.Allowed {
						allowed++
					}
				}
				_, err := store.Sweep(t.Context(), &p)
				require.NoError(t, err)
				now = now.Add(time.Duration(d.Int64N(int64(2 * time.Hour))))
			}
			days := map[runtime.CalendarUnit]int{runtime.Day: 730, runtime.Week: 105, runtime.Month: 24, runtime.Year: 2}
			require.InDelta(t, days[unit], allowed, 1, "%v, seed %d", unit, seed)
		}
	}
}

// A row is swept only when its key is full in every zone and by every anniversary that it may have.
func TestSweepWithoutTheCalendarOfTheKey(t *testing.T) {
	d := roll(53)
	swept := 0
	for range randomSteps() / 10 {
		c := runtime.Calendar{Unit: pick(d, runtime.CalendarUnits()...), Count: pick(d, 1, 2), ZonePerKey: true}
		c.Anniversary = c.Unit != runtime.Day && d.IntN(2) == 0
		p := calendarPolicy(c)
		p.MaxReserved = pick[int64](d, 0, 3)
		q := reserve(1 + p.MaxReserved)
		q.Reserve = p.MaxReserved > 0
		q.Zone = loaded(t, pick(d, unusualZones...))
		q.Anniversary = runtime.Date{Year: 2000, Month: time.Month(1 + d.IntN(12)), Day: 1 + d.IntN(28)}
		rule, now := meter.RuleOf(&p, "").For(q), epoch.UnixNano()+d.Int64N(1e17)
		state, _, err := rule.Step(runtime.State{}, now, q)
		require.NoError(t, err)
		now += d.Int64N(6 * int64(c.Period()))
		_, balance, err := rule.Step(state, now-int64(24*time.Hour), peek())
		require.NoError(t, err)
		if meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Name: p.Name}, state, now) {
			swept++
			require.Equal(t, p.Capacity, balance.Remaining, "%+v", c)
		}
		require.True(t, meter.Sweepable([]*runtime.Policy{&p}, runtime.Row{Name: p.Name}, state, now+9*int64(c.Period())))
	}
	require.Positive(t, swept)
}

func TestInvalidCalendars(t *testing.T) {
	good := calendarPolicy(inZone(runtime.Month, "Europe/Berlin"))
	require.NoError(t, good.Validate())
	for want, change := range map[string]func(p *runtime.Policy){
		"only a fixed window can have a Calendar, not a token bucket":             func(p *runtime.Policy) { p.Kind = runtime.TokenBucket },
		"the calendar's unit CalendarUnit(9) is not Day, Week, Month or Year":     func(p *runtime.Policy) { p.Calendar.Unit = 9 },
		"a window of -1 times a month is not between 1 of them and 87600h0m0s":    func(p *runtime.Policy) { p.Calendar.Count = -1 },
		"a window of 120 times a month is not between 1 of them and 87600h0m0s":   func(p *runtime.Policy) { p.Calendar.Count = 120 },
		"the period must be the mean length of a window, 730h29m6s, not 720h0m0s": func(p *runtime.Policy) { p.Period = 720 * time.Hour },
		"a calendar has From and At: leave Start out":                             func(p *runtime.Policy) { p.Start = runtime.StartFirstUse() },
		"the day 2023-02-29 does not exist in the years 1 to 9999":                func(p *runtime.Policy) { p.Calendar.From = runtime.Date{Year: 2023, Month: 2, Day: 29} },
		"a calendar with an Anniversary has no From: each key has its own":        func(p *runtime.Policy) { p.Calendar.Anniversary, p.Calendar.From = true, runtime.DateOf(epoch) },
		"a calendar of single days has no Anniversary: every day begins alike": func(p *runtime.Policy) {
			*p = calendarPolicy(inZone(runtime.Day, "UTC"))
			p.Calendar.Anniversary = true
		},
		"the time of day 24h0m0s is not a number of whole seconds below 24h":            func(p *runtime.Policy) { p.Calendar.At = 24 * time.Hour },
		"a calendar with ZonePerKey has no Zone: each key has its own":                  func(p *runtime.Policy) { p.Calendar.ZonePerKey = true },
		`the time zone "" is not a name of the IANA database`:                           func(p *runtime.Policy) { p.Calendar.Zone = "" },
		`the time zone "Local" is not a name of the IANA database`:                      func(p *runtime.Policy) { p.Calendar.Zone = "Local" },
		`the time zone "Europe/Atlantis" cannot be loaded: correct the name, or import`: func(p *runtime.Policy) { p.Calendar.Zone = "Europe/Atlantis" },
	} {
		p := good
		change(&p)
		err := p.Validate()
		require.ErrorIs(t, err, runtime.ErrInvalidPolicy)
		require.ErrorContains(t, err, want)
	}
}

func BenchmarkStepOfACalendar(b *testing.B) {
	p := calendarPolicy(inZone(runtime.Month, "Europe/Berlin"))
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
