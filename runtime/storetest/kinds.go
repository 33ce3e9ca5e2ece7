package storetest

import (
	"slices"
	"time"
	_ "time/tzdata" // the zones of the clauses, wherever they run

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var (
	monthly = runtime.Calendar{Unit: runtime.Month, Zone: "Europe/Berlin"}
	// perKey needs a zone and an anniversary in each request.
	perKey = runtime.Calendar{Unit: runtime.Month, ZonePerKey: true, Anniversary: true}
)

// calendar returns a policy of ten tokens for each window of a calendar.
func calendar(name string, c runtime.Calendar) *runtime.Policy {
	return &runtime.Policy{Name: name, Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, Period: c.Period(), Calendar: c}
}

// berlin returns an instant of 2030 by the clock of Berlin.
func berlin(month time.Month, day, hour int) time.Time {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err) // tzdata is imported
	}
	return time.Date(2030, month, day, hour, 0, 0, 0, zone)
}

// calendars returns the clauses about windows of a calendar.
func calendars() []clause {
	split := calendar("sharded month", monthly)
	split.Shards = 3
	own := one(calendar("own", perKey))
	zone, born := berlin(time.March, 1, 0).Location(), runtime.Date{Year: 2029, Month: time.January, Day: 31}
	return []clause{
		{
			name: "CalendarMonth", rule: "a calendar window begins at the first instant of its day in its zone, and not before",
			policies: []*runtime.Policy{calendar("month", monthly), split, withLease(calendar("leased month", monthly))},
			check: func(s *subject, p *runtime.Policy) {
				s.clock.Set(berlin(time.March, 30, 12))
				// The clock is put forward on 31 March.
				s.play(p, script(drained, []step{take(1).deniedFor(35 * time.Hour)}))
				s.clock.Set(berlin(time.April, 1, 0).Add(-1))
				s.play(p, script([]step{take(1).denied(), pause(1)}, drained))
			},
		},
		{name: "CalendarRefund", rule: "tokens of a calendar window that has ended are not given back", policies: one(calendar("month", monthly)), check: func(s *subject, p *runtime.Policy) {
			s.clock.Set(berlin(time.March, 30, 12))
			refund := runtime.Request{Op: runtime.Refund, Count: 2, TakenAt: s.decide(p, runtime.Request{Count: 6}).TakenAt.UnixNano()}
			s.decide(p, refund)
			s.wantValue(p, 6)
			s.clock.Set(berlin(time.April, 2, 0))
			s.take(p, 5)
			s.decide(p, refund)
			s.wantValue(p, 5)
		}},
		{name: "CalendarPerKey", rule: "a key has the windows of its own zone and anniversary, and no window twice if they change", policies: own, check: func(s *subject, p *runtime.Policy) {
			s.clock.Set(berlin(time.March, 31, 0).Add(-1))
			s.play(p, []step{
				take(10).in(zone, born), take(10).in(zone, born).deniedFor(1),
				take(10).in(zone, runtime.Date{Year: 2029, Month: time.January, Day: 15}).denied(),
				take(10).in(time.UTC, runtime.Date{Year: 2029, Month: time.January, Day: 15}).denied(),
				take(10).in(time.FixedZone("east", 14*60*60), runtime.Date{Year: 2029, Month: time.January, Day: 10}).denied(),
				pause(1), take(10).in(zone, born),
			})
		}},
		{name: "CalendarIncomplete", rule: "a request without the zone or the anniversary that its key needs is an error", policies: own, script: []step{
			take(1).fails(runtime.ErrInvalidKey), take(1).in(time.UTC, runtime.Date{}).fails(runtime.ErrInvalidKey),
			take(1).in(nil, born).fails(runtime.ErrInvalidKey),
		}},
		{name: "CalendarOfTwoZones", rule: "a call with two zones of one key is an error, whatever their names, and one with a zone that was loaded twice is not", policies: own, script: []step{
			all(take(1).in(time.FixedZone("", 3_600), born), take(1).in(time.FixedZone("", 7_200), born).fails(runtime.ErrInvalidCall)),
			all(take(1).in(zone, born), take(1).in(time.UTC, born).fails(runtime.ErrInvalidCall)),
			all(take(1).in(zone, born), take(1).in(berlin(time.March, 1, 0).Location(), born)),
			all(take(1).in(time.FixedZone("", 3_600), born), take(1).in(time.FixedZone("", 3_600), born)), left(6).in(zone, born),
		}},
		{name: "CalendarZoneOutOfRange", rule: "a zone more than 16 hours from UTC is an error, and none up to that", policies: own, script: []step{
			take(1).in(time.FixedZone("", 57_601), born).fails(runtime.ErrInvalidKey), take(1).in(time.FixedZone("", -57_601), born).fails(runtime.ErrInvalidKey),
			take(1).in(time.FixedZone("", 48*60*60), born).fails(runtime.ErrInvalidKey), take(5).in(time.FixedZone("", 57_600), born),
			take(5).in(time.FixedZone("", -57_600), born), left(0).in(zone, born),
		}},
	}
}

// logs returns the clauses about precise sliding windows.
func logs() []clause {
	p := one(precise())
	return []clause{
		{
			name: "PreciseBoundary", rule: "a token of a precise limit is available again exactly a period after it was taken", policies: p,
			script: script(slices.Repeat([]step{take(1), pause(time.Second)}, 10), []step{
				// A nanosecond before the first token is available again.
				pause(50*time.Second - 1), take(1).deniedFor(1), take(4).deniedFor(3*time.Second + 1), pause(1), take(1), take(1).denied(),
			}),
		},
		{name: "PreciseRefund", rule: "a refund gives tokens back that were taken at its instant or before, and none that were taken later", policies: p, check: func(s *subject, p *runtime.Policy) {
			first := s.decide(p, runtime.Request{Count: 4})
			s.play(p, []step{pause(30 * time.Second), take(6)})
			s.decide(p, runtime.Request{Op: runtime.Refund, Count: 9, TakenAt: first.TakenAt.UnixNano()})
			s.play(p, []step{left(4), pause(30 * time.Second), left(4), pause(30 * time.Second), left(10)})
		}},
		{name: "PreciseWithShards", rule: "a call takes from a log and from shards, or from neither", policies: p, check: func(s *subject, p *runtime.Policy) {
			// The shards need a new transaction when two cannot decide.
			split := sized(15, shards(runtime.TokenBucket))
			allowed := 0
			for range 20 {
				s.clock.Add(100 * time.Millisecond)
				alone := request(split, runtime.Request{Count: 1})
				if s.do(call(request(p, runtime.Request{Count: 1}), alone), call(alone))[0].Allowed() {
					allowed++
				}
			}
			// Both calls take from 15 tokens, so that the eighth pair finds one.
			if allowed != 8 {
				s.broken("%d of 20 calls were allowed, want 8", allowed)
			}
			s.wantValue(p, 2)
		}},
	}
}
