package storetest

import (
	"time"
	_ "time/tzdata" // the zones of the clauses, wherever they run

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// calendar returns a policy of ten tokens for each window of a calendar.
func calendar(name string, c runtime.Calendar) *runtime.Policy {
	return &runtime.Policy{Name: name, Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, Period: c.Period(), Calendar: c}
}

// berlin returns an instant of 2030 by the clock of Berlin.
func berlin(s *subject, month time.Month, day, hour int) time.Time {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		s.Fatal(err)
	}
	return time.Date(2030, month, day, hour, 0, 0, 0, zone)
}

// calendars returns the clauses about windows of a calendar.
func calendars() []clause {
	monthly := runtime.Calendar{Unit: runtime.Month, Zone: "Europe/Berlin"}
	return []clause{
		{"CalendarMonth", "a calendar window begins at the first instant of its day in its zone, and not before", func(s *subject) {
			for _, p := range []*runtime.Policy{calendar("month", monthly), withShards(calendar("sharded month", monthly)), withLease(calendar("leased month", monthly))} {
				s.clock.Set(berlin(s, time.March, 30, 12))
				if n := s.takeAll(p, "k"); n != 10 {
					s.broken("%s: %d of 10 tokens could be taken", p.Name, n)
				}
				d := s.decide(p, "k", runtime.Request{Count: 1})
				// The clock is put forward on 31 March.
				if want := 35 * time.Hour; d.Allowed || d.RetryAfter != want {
					s.broken("%s: %v with RetryAfter %v, want a denial for %v", p.Name, d, d.RetryAfter, want)
				}
				s.clock.Set(berlin(s, time.April, 1, 0).Add(-1))
				if s.take(p, "k", 1) {
					s.broken("%s: allowed a nanosecond before the window", p.Name)
				}
				s.clock.Add(1)
				if n := s.takeAll(p, "k"); n != 10 {
					s.broken("%s: %d of 10 tokens could be taken when the next window began", p.Name, n)
				}
			}
		}},
		{"CalendarRefund", "tokens of a calendar window that has ended are not given back", func(s *subject) {
			p := calendar("month", monthly)
			s.clock.Set(berlin(s, time.March, 30, 12))
			d := s.decide(p, "k", runtime.Request{Count: 6})
			refund := runtime.Request{Op: runtime.Refund, Count: 2, TakenAt: d.TakenAt.UnixNano()}
			s.decide(p, "k", refund)
			s.wantValue(p, "k", 6)
			s.clock.Set(berlin(s, time.April, 2, 0))
			s.take(p, "k", 5)
			s.decide(p, "k", refund)
			s.wantValue(p, "k", 5)
		}},
		{"CalendarPerKey", "a key has the windows of its own zone and anniversary, and no window twice if they change", func(s *subject) {
			p := calendar("own", runtime.Calendar{Unit: runtime.Month, ZonePerKey: true, Anniversary: true})
			take := func(zone *time.Location, day int) runtime.Decision {
				return s.decide(p, "k", runtime.Request{Count: 10, Zone: zone, Anniversary: runtime.Date{Year: 2029, Month: time.January, Day: day}})
			}
			zone := berlin(s, time.March, 1, 0).Location()
			s.clock.Set(berlin(s, time.March, 31, 0).Add(-1))
			if !take(zone, 31).Allowed || take(zone, 31).Allowed {
				s.broken("not exactly one take of all tokens was allowed")
			}
			if d := take(zone, 31); d.RetryAfter != 1 {
				s.broken("the last day of February's window is denied for %v, want 1ns", d.RetryAfter)
			}
			if take(zone, 15).Allowed || take(time.UTC, 15).Allowed || take(time.FixedZone("east", 14*60*60), 10).Allowed {
				s.broken("another zone or anniversary within half of a month granted the tokens again")
			}
			s.clock.Add(1)
			if d := take(zone, 31); !d.Allowed {
				s.broken("denied for %v on the anniversary", d.RetryAfter)
			}
		}},
		{"CalendarIncomplete", "a request without the zone or the anniversary that its key needs is an error", func(s *subject) {
			p := calendar("own", runtime.Calendar{Unit: runtime.Month, ZonePerKey: true, Anniversary: true})
			for _, q := range []runtime.Request{{Count: 1}, {Count: 1, Zone: time.UTC}, {Count: 1, Anniversary: runtime.Date{Year: 2024, Month: 1, Day: 1}}} {
				if a := s.do(call(request(p, "k", q)))[0]; a.Err == nil {
					s.broken("no error for %+v", q)
				}
			}
		}},
	}
}

func withShards(p *runtime.Policy) *runtime.Policy {
	p.Shards = 3
	return p
}

func withLease(p *runtime.Policy) *runtime.Policy {
	p.Lease = runtime.Lease{Tokens: 4, For: time.Hour}
	return p
}
