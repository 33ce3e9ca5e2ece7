package meter_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Whatever zone a program passes, each instant is in a window that contains it, and is found.
func TestEveryInstantIsInAWindowOfEveryZone(t *testing.T) {
	d := runtimetest.Roll(54)
	var zones []*time.Location
	for _, name := range allZones(t) {
		zones = append(zones, loaded(t, name))
	}
	for _, rules := range []string{
		"AAA-10BBB-30,M3.2.0,M11.1.0", "AAA30BBB-30,M3.2.0,M11.1.0", "AAA-167", "AAA167BBB-167,0/0,J365/25", "AAA-20BBB-12,M3.2.0/-100,M11.1.0/160",
	} {
		zones = append(zones, runtimetest.ZoneWith(t, rules))
	}
	const hour = 60 * 60
	for _, offset := range []int{57_600, 57_601, -57_601, 17 * hour, -24 * hour, 48 * hour, math.MaxInt32, math.MinInt32, math.MaxInt, math.MinInt} {
		zones = append(zones, time.FixedZone("", offset))
	}
	for range 100 {
		zones = append(zones, time.FixedZone("", d.IntN(400*hour)-200*hour))
	}
	instants := 3
	if runtimetest.Long() {
		instants = 300
	}
	for i := range instants * len(zones) {
		c := runtime.Calendar{
			Unit: runtimetest.Pick(d, runtime.CalendarUnits()...), Count: runtimetest.Pick(d, 0, 1, 1, 3), ZonePerKey: true, Anniversary: true,
			At: runtimetest.Pick(d, 0, 0, 30*time.Minute, 2*time.Hour+30*time.Minute, 23*time.Hour+59*time.Minute+59*time.Second),
		}
		p := runtimetest.Once(c)
		q := take(1)
		q.Zone, q.Anniversary = zones[i%len(zones)], runtime.Date{Year: 1 + d.IntN(9999), Month: time.Month(1 + d.IntN(12)), Day: 1 + d.IntN(28)}
		rule := meter.RuleOf(&p, "").For(q)
		year := time.Date(1800+d.IntN(462), 1, 1, 0, 0, 0, 0, time.UTC)
		now := runtimetest.Pick(d, year.UnixNano()+d.Int64N(int64(366*24*time.Hour)), math.MinInt64+d.Int64N(1e18), math.MaxInt64-d.Int64N(1e18))
		state, decision, err := rule.Step(runtime.State{}, now, q)
		end := rule.WindowEnd(now)
		contains := state.TS <= now && (end > now || end == math.MaxInt64) && rule.WindowEnd(state.TS) == end
		_, denied, second := rule.Step(state, now, q)
		// At the ends of an int64 a window may be cut off, and then its key waits for the last instant.
		if err != nil || second != nil || !decision.Allowed || denied.Allowed || denied.RetryAfter <= 0 || !contains && year.UnixNano() < now && now < 1<<62 {
			t.Fatalf("%v of %+v from %v at %d: the window begins at %d and ends at %d; %v, then %v", q.Zone, c, q.Anniversary, now, state.TS, end, decision, denied)
		}
	}
}

// The bound of offsets changes the clock of no zone that there is.
func TestOffsetsOfAllZonesAreWithinTheBound(t *testing.T) {
	for _, name := range allZones(t) {
		zone := loaded(t, name)
		for at := time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2300; {
			_, offset := at.In(zone).Zone()
			require.EqualValues(t, offset, arith.Offset(zone, at.Unix()), "%v at %v", zone, at)
			_, end := at.In(zone).ZoneBounds()
			// Not from bound to bound alone: see firstAt.
			if next := at.AddDate(0, 6, 0); end.IsZero() || !end.After(at) || end.After(next) {
				end = next
			}
			at = end
		}
	}
}
