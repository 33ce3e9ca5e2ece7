package storetest

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// takes returns the clauses about Take and Check on one key.
func takes() []clause {
	return []clause{
		{"Fresh", "a new key is full", func(s *subject) {
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
			// The use of a sliding window has faded after two periods.
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
		{"RetryAfter", "a retry after RetryAfter passes, and one after 99 % of it does not", func(s *subject) {
			for _, p := range kinds() {
				// So that no window begins at the same time as the test.
				s.clock.Add(17 * time.Second)
				s.take(p, "k", 9)
				d := s.decide(p, "k", runtime.Request{Count: 4})
				if d.Allowed || d.RetryAfter <= 0 {
					s.broken("%s: the decision on 4 tokens, with 1 left, is %v", p.Kind, d)
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
				yes := s.decide(p, "k", runtime.Request{Op: runtime.Check, Count: 1})
				no := s.decide(p, "k", runtime.Request{Op: runtime.Check, Count: 2})
				if !yes.Allowed || no.Allowed || no.RetryAfter <= 0 {
					s.broken("%s: with 1 token left, Check of 1 is %v, and of 2 is %v", p.Kind, yes, no)
				}
				s.wantValue(p, "k", 1)
			}
		}},
	}
}

// zeroes returns the clauses about requests for 0 tokens.
func zeroes() []clause {
	all := []runtime.Request{{}, {Reserve: true}, {Op: runtime.Check}, {Op: runtime.Charge}, {Op: runtime.Refund}}
	return []clause{
		{"Zero", "a request for 0 tokens is allowed and takes nothing, even if the key is in debt", func(s *subject) {
			for _, p := range append(append(kinds(), leased()...), shards(runtime.TokenBucket), denyCached()) {
				s.take(p, "k", 10)
				s.take(p, "k", 1)
				s.decide(p, "k", runtime.Request{Op: runtime.Charge, Count: 3})
				for _, q := range all {
					if d := s.decide(p, "k", q); !d.Allowed || d.Delay != 0 || !d.TakenAt.IsZero() {
						s.broken("%s: the decision on %+v with -3 tokens left is %+v", p.Name, q, d)
					}
				}
				s.wantValue(p, "k", -3)
			}
		}},
		{"ZeroFirst", "a request for 0 tokens does not begin a window", func(s *subject) {
			p := window()
			p.Start = runtime.StartFirstUse()
			for _, q := range all {
				s.decide(p, "k", q)
			}
			s.clock.Add(30 * time.Second)
			s.take(p, "k", 10)
			s.clock.Add(45 * time.Second)
			if s.take(p, "k", 1) {
				s.broken("the window did not begin with the first token taken")
			}
		}},
		{"ZeroAmongOthers", "a request for 0 tokens neither helps nor hinders others of its call and its batch", func(s *subject) {
			answers := s.do(
				call(taking(bucket(), "k", 6), taking(window(), "k", 0)),
				call(taking(bucket(), "k", 0)),
				call(taking(bucket(), "k", 4)),
				call(taking(bucket(), "k", 1), taking(bucket(), "k", 0)),
			)
			for i, want := range []bool{true, true, true, false} {
				if answers[i].Allowed() != want {
					s.broken("the answer to call %d is %+v", i, answers[i])
				}
			}
			if each := answers[3].Decisions; each[0].Allowed || !each[1].Allowed {
				s.broken("of 1 and 0 tokens with none left, not only the 1 was denied: %v", each)
			}
			s.wantValue(bucket(), "k", 0)
			s.wantValue(window(), "k", 10)
		}},
	}
}

// operations returns the clauses about the other operations, and reservations, on one key.
func operations() []clause {
	return []clause{
		{"Refund", "a refund returns tokens, up to the capacity", func(s *subject) {
			for _, p := range kinds() {
				s.take(p, "k", 7)
				s.decide(p, "k", runtime.Request{Op: runtime.Refund, Count: 3})
				s.wantValue(p, "k", 6)
				s.decide(p, "k", runtime.Request{Op: runtime.Refund, Count: 100})
				s.wantValue(p, "k", 10)
				// Even then a store must not insert a row beyond the capacity.
				s.decide(p, "new", runtime.Request{Op: runtime.Refund, Count: 1})
				s.wantValue(p, "new", 10)
			}
		}},
		{"Charge", "a charge takes tokens whether they are available or not", func(s *subject) {
			s.decide(bucket(), "k", runtime.Request{Op: runtime.Charge, Count: 100})
			s.wantValue(bucket(), "k", -90)
			s.clock.Add(time.Minute)
			s.wantValue(bucket(), "k", -80)
		}},
		{"UpTo", "TakeUpTo takes as many tokens as there are, at most its count", func(s *subject) {
			policies := append(append(kinds(), leased()...), denyCached())
			for _, kind := range runtime.Kinds() {
				policies = append(policies, shards(kind))
			}
			for _, p := range policies {
				for i, want := range []int64{3, 3, 3, 1, 0, 0} {
					d := s.decide(p, "k", runtime.Request{Op: runtime.TakeUpTo, Count: 3})
					if d.Taken != want || d.Allowed != (want > 0) || d.Allowed == d.TakenAt.IsZero() || d.Allowed == (d.RetryAfter > 0) {
						s.broken("%s: decision %d on up to 3 of 10 tokens is %+v", p.Name, i, d)
					}
				}
				s.wantValue(p, "k", 0)
				if d := s.decide(p, "more", runtime.Request{Op: runtime.TakeUpTo, Count: 1000}); d.Taken != 10 {
					s.broken("%s: the decision on up to 1,000 of 10 tokens is %+v", p.Name, d)
				}
			}
		}},
		{"Reset", "after a reset a key is like a new one, without its debt", func(s *subject) {
			for _, p := range kinds() {
				s.take(p, "k", 10)
				s.take(p, "bystander", 10)
				s.decide(p, "k", runtime.Request{Op: runtime.Reset})
				s.wantValue(p, "k", 10)
				s.wantValue(p, "bystander", 0)
			}
			s.decide(bucket(), "debt", runtime.Request{Count: 15, Reserve: true})
			s.decide(bucket(), "debt", runtime.Request{Op: runtime.Reset})
			s.wantValue(bucket(), "debt", 10)
		}},
		{"Reserve", "a reservation takes tokens before they have accrued, at most MaxReserved of them", func(s *subject) {
			if d := s.decide(bucket(), "k", runtime.Request{Count: 12, Reserve: true}); !d.Allowed || d.Delay != 12*time.Second {
				s.broken("the decision on 12 of 10 tokens, with 10 accruing per minute, is %v", d)
			}
			s.wantValue(bucket(), "k", -2)
			if d := s.decide(bucket(), "k", runtime.Request{Count: 4, Reserve: true}); d.Allowed || d.RetryAfter != 6*time.Second {
				s.broken("the decision on 4 more of -2 tokens, with at most 5 in debt, is %v", d)
			}
			if d := s.decide(bucket(), "k", runtime.Request{Count: 3, Reserve: true}); !d.Allowed || d.Delay != 30*time.Second {
				s.broken("the decision on 3 more of -2 tokens is %v", d)
			}
			if s.take(bucket(), "k", 1) {
				s.broken("a plain call passed in debt")
			}
		}},
		{"MaxDelay", "a reservation due later than MaxDelay is denied", func(s *subject) {
			s.take(bucket(), "k", 10)
			q := runtime.Request{Count: 3, Reserve: true, MaxDelay: 10 * time.Second}
			d := s.decide(bucket(), "k", q)
			if d.Allowed || d.Delay != 18*time.Second || d.RetryAfter != 18*time.Second {
				s.broken("the decision on 3 of 0 tokens within 10s, with 10 accruing per minute, is %+v", d)
			}
			s.wantValue(bucket(), "k", 0)
			s.clock.Add(8 * time.Second)
			if d := s.decide(bucket(), "k", q); !d.Allowed || d.Delay != 10*time.Second {
				s.broken("8s later the decision is %+v", d)
			}
		}},
	}
}

// changes returns the clauses about changes of the clock and the policy.
func changes() []clause {
	return []clause{
		{"ClockBack", "a clock that goes back neither takes nor grants tokens", func(s *subject) {
			for _, p := range kinds() {
				s.take(p, "k", 10)
				for range 10 {
					s.clock.Add(-time.Hour)
					// If this moved the row's instant back, the hour would be counted again.
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
		{"ConfigEdit", "an edited limit keeps what was used of it", func(s *subject) {
			for _, p := range kinds() {
				s.take(p, "k", 8)
				smaller, larger := *p, *p
				smaller.Rate, smaller.Capacity = 3, 3
				larger.Rate, larger.Capacity = 100, 100
				// A take by any of them must not lose the use of the others.
				if s.take(&smaller, "k", 1) {
					s.broken("%s: 8 of 10 were used, and 1 of 3 was taken", p.Kind)
				}
				s.wantValue(&smaller, "k", -5)
				if !s.take(&larger, "k", 1) {
					s.broken("%s: 8 of 10 were used, and 1 of 100 was not taken", p.Kind)
				}
				s.wantValue(&larger, "k", 91)
				s.wantValue(p, "k", 1)
				s.take(p, "k", 1)
				s.wantValue(p, "k", 0)
			}
		}},
	}
}

// sharded returns the clauses about limits with shards.
func sharded() []clause {
	return []clause{
		{"ShardsAdmit", "a limit with shards admits as much as one without", ofShards(func(s *subject, p *runtime.Policy) {
			// Three shards of 10 tokens have 4, 3 and 3: the last tokens are found only by reading all of them.
			for i := range 10 {
				if !s.take(p, "k", 1) {
					s.broken("%s: denied number %d of 10", p.Kind, i+1)
				}
			}
			if d := s.decide(p, "k", runtime.Request{Count: 1}); d.Allowed || d.RetryAfter <= 0 {
				s.broken("%s: the decision on number 11 of 10 is %v", p.Kind, d)
			}
			s.wantValue(p, "k", 0)
			if !s.take(p, "all", 10) || s.take(p, "all", 1) {
				s.broken("%s: not exactly the capacity could be taken at once", p.Kind)
			}
		})},
		{"ShardsRetry", "a retry after RetryAfter passes, with shards too", ofShards(func(s *subject, p *runtime.Policy) {
			for range 4 {
				s.take(p, "k", 2)
			}
			d := s.decide(p, "k", runtime.Request{Count: 8})
			s.clock.Add(d.RetryAfter)
			if d.Allowed || !s.take(p, "k", 8) {
				s.broken("%s: denied after RetryAfter of %v", p.Kind, d)
			}
		})},
		{"ShardsGive", "refund and reset reach all shards", ofShards(func(s *subject, p *runtime.Policy) {
			s.take(p, "k", 10)
			s.decide(p, "k", runtime.Request{Op: runtime.Refund, Count: 7})
			s.wantValue(p, "k", 7)
			s.decide(p, "k", runtime.Request{Op: runtime.Reset})
			s.wantValue(p, "k", 10)
		})},
		{"ShardsReserve", "a limit with shards allows as large reservations as one without", func(s *subject) {
			p := shards(runtime.TokenBucket)
			if d := s.decide(p, "k", runtime.Request{Count: 15, Reserve: true}); !d.Allowed || d.Delay != 30*time.Second {
				s.broken("the decision on 15 of 10 tokens, with 10 accruing per minute, is %v", d)
			}
			if d := s.decide(p, "k", runtime.Request{Count: 1, Reserve: true}); d.Allowed {
				s.broken("the decision on 1 more, with 5 of 5 in debt, is %v", d)
			}
			s.wantValue(p, "k", -5)
		}},
	}
}

// ofShards runs a check for every kind, on a limit with shards.
func ofShards(check func(s *subject, p *runtime.Policy)) func(s *subject) {
	return func(s *subject) {
		for _, kind := range runtime.Kinds() {
			check(s, shards(kind))
		}
	}
}

// leases returns the clauses about tokens that a store has leased to its process. A store without leases passes them too.
func leases() []clause {
	return []clause{
		{"LeaseAdmits", "a leased limit admits as much as one without a lease", ofLeases(func(s *subject, p *runtime.Policy) {
			if n := s.takeAll(p, "k"); n != 10 {
				s.broken("%s: %d of 10 tokens could be taken one by one", p.Name, n)
			}
			// 3 do not fit into the rest of the first block of 4: the store must put the blocks together.
			for i, n := range []int64{3, 3, 4, 1} {
				if s.take(p, "several", n) != (i < 3) {
					s.broken("%s: taking 3, 3, 4 and 1 of 10 tokens, not exactly the first three were allowed", p.Name)
				}
			}
		})},
		{"LeaseEnds", "leased tokens are not spent when the window, or the time of the lease, is over", ofLeases(func(s *subject, p *runtime.Policy) {
			s.take(p, "k", 1)
			s.clock.Add(2 * time.Hour)
			if n := s.takeAll(p, "k"); n != 10 {
				s.broken("%s: two hours later, %d of 10 tokens could be taken", p.Name, n)
			}
		})},
		{"LeaseReset", "leased tokens are not spent after a reset", ofLeases(func(s *subject, p *runtime.Policy) {
			s.take(p, "k", 1)
			s.decide(p, "k", runtime.Request{Op: runtime.Reset})
			if n := s.takeAll(p, "k"); n != 10 {
				s.broken("%s: after a reset, %d of 10 tokens could be taken", p.Name, n)
			}
		})},
		{"LeaseConcurrent", "concurrent requests for leased tokens take exactly the tokens that the limit has", ofLeases(func(s *subject, p *runtime.Policy) {
			p.Rate, p.Capacity, p.MaxReserved = 100, 100, 0
			if admitted := s.race(10, func(int) bool { return s.take(p, "hot", 1) }); admitted != 100 {
				s.broken("%s: %d of 100 admitted", p.Name, admitted)
			}
		})},
	}
}

// denials returns the clauses about denials that a store caches. A store without a cache passes them too.
func denials() []clause {
	return []clause{
		{"DenialDue", "a cached denial ends when its tokens are due", func(s *subject) {
			p := denyCached()
			s.take(p, "k", 10)
			for _, wait := range []time.Duration{12 * time.Second, 5 * time.Second} {
				d := s.decide(p, "k", runtime.Request{Count: 2})
				if d.Allowed || d.RetryAfter != wait {
					s.broken("the decision on 2 of 0 tokens, with 10 accruing per minute and due in %v, is %+v", wait, d)
				}
				s.clock.Add(min(wait, 7*time.Second))
			}
			if !s.take(p, "k", 2) {
				s.broken("denied when the tokens were due")
			}
		}},
		{"DenialOfCount", "a cached denial of a count does not deny a smaller count", func(s *subject) {
			p := denyCached()
			s.take(p, "k", 8)
			if s.take(p, "k", 3) || !s.take(p, "k", 2) {
				s.broken("with 2 tokens left, 3 were not denied, or 2 not allowed")
			}
		}},
		{"DenialGiven", "refunded and reset tokens are available at once, also after a cached denial", func(s *subject) {
			p := denyCached()
			s.take(p, "k", 10)
			for _, give := range []runtime.Request{{Op: runtime.Refund, Count: 1}, {Op: runtime.Reset}} {
				if s.take(p, "k", 1) {
					s.broken("1 of 0 tokens was allowed")
				}
				s.decide(p, "k", give)
				if !s.take(p, "k", 1) {
					s.broken("denied after %+v", give)
				}
				s.take(p, "k", 9)
			}
		}},
		{"DenialOfPolicy", "a cached denial does not deny under an edited policy", func(s *subject) {
			edited := denyCached()
			edited.Rate = 1000
			s.take(denyCached(), "k", 10)
			if s.take(denyCached(), "k", 1) {
				s.broken("1 of 0 tokens was allowed")
			}
			s.clock.Add(time.Second)
			if !s.take(edited, "k", 1) {
				s.broken("1 of 1000/60 tokens was denied")
			}
		}},
	}
}

// leased returns policies of every kind with a lease: blocks of four tokens, for an hour.
func leased() []*runtime.Policy {
	var all []*runtime.Policy
	for _, p := range append(kinds(), shards(runtime.TokenBucket)) {
		// The end of such a window is not known in advance, so that it cannot be leased. Nor can a log.
		if p.Start.FirstUse() || p.Precise {
			continue
		}
		p.Name = "leased " + p.Name
		p.Lease = runtime.Lease{Tokens: 4, For: time.Hour}
		all = append(all, p)
	}
	return all
}

// denyCached returns a bucket whose denials may be cached for an hour.
func denyCached() *runtime.Policy {
	p := bucket()
	p.Name, p.DenyCache = "denyCached", time.Hour
	return p
}

// takeAll takes tokens one by one until a denial, and returns how many it took.
func (s *subject) takeAll(p *runtime.Policy, key string) (taken int) {
	s.Helper()
	for s.take(p, key, 1) {
		taken++
	}
	return taken
}

// ofLeases runs a check for every kind, on a leased limit.
func ofLeases(check func(s *subject, p *runtime.Policy)) func(s *subject) {
	return func(s *subject) {
		for _, p := range leased() {
			check(s, p)
		}
	}
}
