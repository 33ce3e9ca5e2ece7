package storetest

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// leasing returns a policy of every kind that can have a lease: blocks of four tokens, for an hour.
func leasing() []*runtime.Policy {
	var all []*runtime.Policy
	for _, p := range append(kinds(), shards(runtime.TokenBucket)) {
		if p.Start.FirstUse() {
			continue
		}
		p.Name = "leased " + p.Name
		p.Lease = runtime.Lease{Tokens: 4, For: time.Hour}
		all = append(all, p)
	}
	return all
}

// remembering returns a bucket whose denials may be remembered for an hour.
func remembering() *runtime.Policy {
	p := bucket()
	p.Name, p.DenyCache = "remembering", time.Hour
	return p
}

// takeAll takes one token after the other until it is denied, and returns how many there were.
func (s *subject) takeAll(p *runtime.Policy, key string) (taken int) {
	s.Helper()
	for s.take(p, key, 1) {
		taken++
	}
	return taken
}

// kept are the clauses about what a store may keep in its process, of limits that ask for it: tokens that it has
// leased, and denials that it remembers. A store that keeps nothing passes too.
func kept() []clause {
	return []clause{
		{"LeaseAdmits", "a leased limit admits as much as one without a lease", ofLeases(func(s *subject, p *runtime.Policy) {
			if n := s.takeAll(p, "k"); n != 10 {
				s.broken("%s: %d of 10 tokens could be taken one by one", p.Name, n)
			}
			for i, n := range []int64{3, 3, 4, 1} {
				if s.take(p, "several", n) != (i < 3) {
					s.broken("%s: of 3, 3, 4 and 1 of 10 tokens, not exactly the first three could be taken", p.Name)
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
			s.ask(p, "k", runtime.Request{Op: runtime.Reset})
			if n := s.takeAll(p, "k"); n != 10 {
				s.broken("%s: after a reset, %d of 10 tokens could be taken", p.Name, n)
			}
		})},
		{"LeaseConcurrent", "exactly as many are admitted as fit, with a lease too", ofLeases(func(s *subject, p *runtime.Policy) {
			p.Rate, p.Capacity, p.MaxReserved = 100, 100, 0
			if admitted := s.race(10, func(int) bool { return s.take(p, "hot", 1) }); admitted != 100 {
				s.broken("%s: %d of 100 admitted", p.Name, admitted)
			}
		})},
		{"DenialDue", "a denial that is remembered ends when its tokens are due", func(s *subject) {
			p := remembering()
			s.take(p, "k", 10)
			for _, wait := range []time.Duration{12 * time.Second, 5 * time.Second} {
				d := s.ask(p, "k", runtime.Request{Count: 2})
				if d.Allowed || d.RetryAfter != wait {
					s.broken("2 of 0 tokens, 10 a minute, due in %v: %+v", wait, d)
				}
				s.clock.Add(min(wait, 7*time.Second))
			}
			if !s.take(p, "k", 2) {
				s.broken("denied when the tokens were due")
			}
		}},
		{"DenialOfCount", "a denial of a count is not one of a smaller count", func(s *subject) {
			p := remembering()
			s.take(p, "k", 8)
			if s.take(p, "k", 3) || !s.take(p, "k", 2) {
				s.broken("of 2 tokens, 3 were not denied and 2 allowed")
			}
		}},
		{"DenialGiven", "what is given back or reset is there at once, also after a denial", func(s *subject) {
			p := remembering()
			s.take(p, "k", 10)
			for _, give := range []runtime.Request{{Op: runtime.Refund, Count: 1}, {Op: runtime.Reset}} {
				if s.take(p, "k", 1) {
					s.broken("1 of 0 tokens was allowed")
				}
				s.ask(p, "k", give)
				if !s.take(p, "k", 1) {
					s.broken("denied after %+v", give)
				}
				s.take(p, "k", 9)
			}
		}},
		{"DenialOfPolicy", "a denial under a policy is not one under an edited policy", func(s *subject) {
			edited := remembering()
			edited.Rate = 1000
			s.take(remembering(), "k", 10)
			if s.take(remembering(), "k", 1) {
				s.broken("1 of 0 tokens was allowed")
			}
			s.clock.Add(time.Second)
			if !s.take(edited, "k", 1) {
				s.broken("1 of 1000/60 tokens was denied")
			}
		}},
	}
}

// ofLeases checks a leased limit of every kind.
func ofLeases(check func(s *subject, p *runtime.Policy)) func(s *subject) {
	return func(s *subject) {
		for _, p := range leasing() {
			check(s, p)
		}
	}
}
