package storetest

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// shards returns a policy that is split in three, of which no two are alike.
func shards(kind runtime.Kind) *runtime.Policy {
	p := &runtime.Policy{Name: "sharded " + kind.String(), Kind: kind, Rate: 10, Period: time.Minute, Capacity: 10, Shards: 3}
	if kind != runtime.SlidingWindow {
		p.MaxReserved = 5
	}
	return p
}

// sharded are the clauses about limits with shards: each holds for every kind.
func sharded() []clause {
	return []clause{
		{"ShardsAdmit", "a limit with shards admits as much as one without", ofShards(func(s *subject, p *runtime.Policy) {
			for i := range 10 {
				if !s.take(p, "k", 1) {
					s.broken("%s: denied number %d of 10", p.Kind, i+1)
				}
			}
			if d := s.ask(p, "k", runtime.Request{Count: 1}); d.Allowed || d.RetryAfter <= 0 {
				s.broken("%s: number 11 of 10: %v", p.Kind, d)
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
			d := s.ask(p, "k", runtime.Request{Count: 8})
			s.clock.Add(d.RetryAfter)
			if d.Allowed || !s.take(p, "k", 8) {
				s.broken("%s: denied after RetryAfter of %v", p.Kind, d)
			}
		})},
		{"ShardsGive", "refund and reset reach all shards", ofShards(func(s *subject, p *runtime.Policy) {
			s.take(p, "k", 10)
			s.ask(p, "k", runtime.Request{Op: runtime.Refund, Count: 7})
			s.wantValue(p, "k", 7)
			s.ask(p, "k", runtime.Request{Op: runtime.Reset})
			s.wantValue(p, "k", 10)
		})},
		{"ShardsReserve", "a limit with shards is reserved ahead as far as one without", func(s *subject) {
			p := shards(runtime.TokenBucket)
			if d := s.ask(p, "k", runtime.Request{Count: 15, Reserve: true}); !d.Allowed || d.Delay != 30*time.Second {
				s.broken("15 of 10 tokens, 10 a minute: %v", d)
			}
			if d := s.ask(p, "k", runtime.Request{Count: 1, Reserve: true}); d.Allowed {
				s.broken("1 more, with 5 of 5 in debt: %v", d)
			}
			s.wantValue(p, "k", -5)
		}},
	}
}

// ofShards checks a limit with shards of every kind.
func ofShards(check func(s *subject, p *runtime.Policy)) func(s *subject) {
	return func(s *subject) {
		for _, kind := range runtime.Kinds() {
			check(s, shards(kind))
		}
	}
}
