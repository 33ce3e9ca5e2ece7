package storetest

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// one are the clauses about one key of one limit.
func one() []clause {
	return []clause{
		{"Fresh", "a key never seen is full", func(s *subject) {
			for _, p := range kinds() {
				s.wantValue(p, "new", 10)
				if !s.take(p, "other", 10) || s.take(p, "other", 1) {
					s.broken("%s: not exactly the capacity could be taken", p.Kind)
				}
			}
		}},
		{"Refill", "tokens come back with time, up to the capacity", func(s *subject) {
			for _, p := range kinds() {
				s.take(p, "k", 10)
			}
			s.clock.Add(time.Hour)
			for _, p := range kinds() {
				s.wantValue(p, "k", 10)
			}
		}},
		{"RefillExact", "a token bucket refills by rate * elapsed / period", func(s *subject) {
			s.take(bucket(), "k", 10)
			s.clock.Add(9 * time.Second)
			s.wantValue(bucket(), "k", 1.5)
			s.take(bucket(), "k", 1)
			s.clock.Add(3 * time.Second)
			s.wantValue(bucket(), "k", 1)
		}},
		{"RetryAfter", "a retry after RetryAfter passes, and a nanosecond in a hundred earlier it does not", func(s *subject) {
			for _, p := range kinds() {
				s.clock.Add(17 * time.Second)
				s.take(p, "k", 9)
				d := s.ask(p, "k", runtime.Request{Count: 4})
				if d.Allowed || d.RetryAfter <= 0 {
					s.broken("%s: 4 tokens of 1: %v", p.Kind, d)
					continue
				}
				early := d.RetryAfter / 100
				s.clock.Add(d.RetryAfter - early)
				if s.take(p, "k", 4) {
					s.broken("%s: passed %v early", p.Kind, early)
					continue
				}
				s.clock.Add(early)
				if !s.take(p, "k", 4) {
					s.broken("%s: denied after RetryAfter %v", p.Kind, d.RetryAfter)
				}
			}
		}},
		{"Denied", "a denied request changes nothing", func(s *subject) {
			for _, p := range kinds() {
				s.take(p, "k", 9)
				for range 3 {
					s.take(p, "k", 2)
				}
				s.wantValue(p, "k", 1)
			}
		}},
		{"Check", "Check and Peek take nothing", func(s *subject) {
			for _, p := range kinds() {
				s.take(p, "k", 9)
				yes := s.ask(p, "k", runtime.Request{Op: runtime.Check, Count: 1})
				no := s.ask(p, "k", runtime.Request{Op: runtime.Check, Count: 2})
				if !yes.Allowed || no.Allowed || no.RetryAfter <= 0 {
					s.broken("%s: Check of 1 and 2 tokens of 1: %v, %v", p.Kind, yes, no)
				}
				s.wantValue(p, "k", 1)
			}
		}},
		{"Refund", "a refund gives back what was taken, up to the capacity", func(s *subject) {
			for _, p := range kinds() {
				s.take(p, "k", 7)
				s.ask(p, "k", runtime.Request{Op: runtime.Refund, Count: 3})
				s.wantValue(p, "k", 6)
				s.ask(p, "k", runtime.Request{Op: runtime.Refund, Count: 100})
				s.wantValue(p, "k", 10)
				s.ask(p, "new", runtime.Request{Op: runtime.Refund, Count: 1})
				s.wantValue(p, "new", 10)
			}
		}},
		{"Charge", "a charge takes tokens whether they are there or not", func(s *subject) {
			s.ask(bucket(), "k", runtime.Request{Op: runtime.Charge, Count: 100})
			s.wantValue(bucket(), "k", -90)
			s.clock.Add(time.Minute)
			s.wantValue(bucket(), "k", -80)
		}},
		{"Reset", "after a reset a key is as if never seen, its debt forgotten", func(s *subject) {
			for _, p := range kinds() {
				s.take(p, "k", 10)
				s.take(p, "bystander", 10)
				s.ask(p, "k", runtime.Request{Op: runtime.Reset})
				s.wantValue(p, "k", 10)
				s.wantValue(p, "bystander", 0)
			}
			s.ask(bucket(), "debt", runtime.Request{Count: 15, Reserve: true})
			s.ask(bucket(), "debt", runtime.Request{Op: runtime.Reset})
			s.wantValue(bucket(), "debt", 10)
		}},
		{"Reserve", "a reservation takes tokens ahead of their time, at most MaxReserved of them", func(s *subject) {
			if d := s.ask(bucket(), "k", runtime.Request{Count: 12, Reserve: true}); !d.Allowed || d.Delay != 12*time.Second {
				s.broken("12 of 10 tokens, 10 a minute: %v", d)
			}
			s.wantValue(bucket(), "k", -2)
			if d := s.ask(bucket(), "k", runtime.Request{Count: 4, Reserve: true}); d.Allowed || d.RetryAfter != 6*time.Second {
				s.broken("4 more of -2, with at most 5 in debt: %v", d)
			}
			if d := s.ask(bucket(), "k", runtime.Request{Count: 3, Reserve: true}); !d.Allowed || d.Delay != 30*time.Second {
				s.broken("3 more of -2: %v", d)
			}
			if s.take(bucket(), "k", 1) {
				s.broken("a plain call passed in debt")
			}
		}},
		{"MaxDelay", "a reservation due later than MaxDelay is refused", func(s *subject) {
			s.take(bucket(), "k", 10)
			q := runtime.Request{Count: 3, Reserve: true, MaxDelay: 10 * time.Second}
			d := s.ask(bucket(), "k", q)
			if d.Allowed || d.Delay != 18*time.Second || d.RetryAfter != 18*time.Second {
				s.broken("3 of 0 tokens, 10 a minute, within 10s: %+v", d)
			}
			s.wantValue(bucket(), "k", 0)
			s.clock.Add(8 * time.Second)
			if d := s.ask(bucket(), "k", q); !d.Allowed || d.Delay != 10*time.Second {
				s.broken("the same 8s later: %+v", d)
			}
		}},
		{"ClockBack", "a clock that goes back neither takes nor gives tokens", func(s *subject) {
			for _, p := range kinds() {
				s.take(p, "k", 10)
				for range 10 {
					s.clock.Add(-time.Hour)
					if s.take(p, "k", 1) {
						s.broken("%s: passed after the clock went back", p.Kind)
					}
					s.clock.Add(time.Hour)
					if s.take(p, "k", 1) {
						s.broken("%s: passed after the clock went back and forth", p.Kind)
					}
				}
			}
		}},
		{"ConfigEdit", "an edited policy keeps the counts, and creates no tokens beyond its capacity", func(s *subject) {
			smaller := bucket()
			smaller.Capacity = 3
			s.take(bucket(), "k", 2)
			s.wantValue(smaller, "k", 3)
			larger := bucket()
			larger.Capacity = 100
			s.wantValue(larger, "k", 8)
		}},
	}
}
