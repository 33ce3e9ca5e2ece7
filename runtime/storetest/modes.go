package storetest

import (
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// modes returns the clauses about the modes of a limit.
func modes() []clause {
	return []clause{
		{"ModeShadow", "a limit in shadow mode lets every request pass, and takes what an enforced one would take", ofModes(runtime.ModeShadow, func(s *subject, p *runtime.Policy) {
			for i, n := range []int64{6, 5, 4, 1, 11} {
				d := s.decide(p, "k", runtime.Request{Count: n})
				if denied := i == 1 || i > 2; !d.Allowed || d.Shadowed != denied || d.TakenAt.IsZero() != denied || d.RetryAfter != 0 {
					s.broken("%s: taking 6, 5, 4, 1 and 11 of 10 tokens, the decision on %d is %+v", p.Name, n, d)
				}
			}
			s.wantValue(p, "k", 0)
			if d := s.decide(p, "k", runtime.Request{Op: runtime.Check, Count: 1}); !d.Allowed || !d.Shadowed {
				s.broken("%s: the decision on a check of 1 of 0 tokens is %+v", p.Name, d)
			}
		})},
		{"ModeShadowReserve", "a limit in shadow mode delays no reservation", func(s *subject) {
			p := bucket()
			p.Mode = runtime.ModeShadow
			for i, n := range []int64{8, 5, 3} {
				d := s.decide(p, "k", runtime.Request{Count: n, Reserve: true})
				if !d.Allowed || d.Delay != 0 || d.Shadowed != (i > 0) || d.TakenAt.IsZero() != (i == 2) {
					s.broken("reserving 8, 5 and 3 of 10 tokens, with 5 in debt, the decision on %d is %+v", n, d)
				}
			}
			s.wantValue(p, "k", -3)
		}},
		{"ModeShadowTogether", "a limit in shadow mode never denies a call, and takes nothing if another limit does", ofModes(runtime.ModeShadow, func(s *subject, p *runtime.Policy) {
			other := bucket()
			other.Name = "enforced beside " + p.Name
			a := s.do(call(taking(p, "k", 6), taking(other, "k", 11)))[0]
			if a.Err == nil {
				s.broken("%s: 11 can never pass a capacity of 10, but there is no error", p.Name)
			}
			s.take(other, "k", 8)
			a = s.do(call(taking(p, "k", 6), taking(other, "k", 3)))[0]
			if a.Allowed() || !a.Decisions[0].Allowed || a.Decisions[0].Shadowed {
				s.broken("%s: the answer to 6 of 10 shadow tokens and 3 of 2 is %+v", p.Name, a)
			}
			s.wantValue(p, "k", 10)
			a = s.do(call(taking(p, "k", 6), taking(p, "k", 6), taking(other, "k", 2)))[0]
			if !a.Allowed() || !a.Decisions[0].Shadowed || !a.Decisions[0].TakenAt.IsZero() || !a.Decisions[1].Shadowed {
				s.broken("%s: the answer to 6 and 6 of 10 shadow tokens and 2 of 2 is %+v", p.Name, a)
			}
			s.wantValue(p, "k", 10)
			s.wantValue(other, "k", 0)
		})},
		{"ModeOff", "a limit that is off or unlimited lets every request pass, and counts nothing", func(s *subject) {
			for _, mode := range []runtime.Mode{runtime.ModeOff, runtime.ModeUnlimited} {
				ofModes(mode, func(s *subject, p *runtime.Policy) {
					enforced := *p
					enforced.Mode = runtime.ModeEnforce
					s.take(&enforced, "k", 10)
					for _, q := range []runtime.Request{{Count: 100}, {Op: runtime.Check, Count: 1}, {Op: runtime.Refund, Count: 5},
						{Op: runtime.Charge, Count: 7}, {Op: runtime.Peek}, {Count: 1, Reserve: true}} {
						if d := s.decide(p, "k", q); !d.Allowed || d.Remaining != runtime.MaxTokens || d.Delay != 0 || !d.TakenAt.IsZero() {
							s.broken("%s: the decision on %+v is %+v", p.Name, q, d)
						}
					}
					s.wantValue(&enforced, "k", 0)
					s.decide(p, "k", runtime.Request{Op: runtime.Reset})
					s.wantValue(&enforced, "k", 10)
				})(s)
			}
		}},
		{"ModeOffTogether", "beside a limit that is off or unlimited, the others of a call decide", func(s *subject) {
			off, unlimited := bucket(), &runtime.Policy{Name: "unlimited", Kind: runtime.FixedWindow, Mode: runtime.ModeUnlimited}
			off.Name, off.Mode = "off", runtime.ModeOff
			for i := range 3 {
				a := s.do(call(taking(off, "k", 100), taking(bucket(), "k", 5), taking(unlimited, "k", 100)))[0]
				if a.Allowed() != (i < 2) || len(a.Decisions) != 3 || a.Decisions[1].Allowed != (i < 2) {
					s.broken("taking 5 of 10 tokens beside limits that are off and unlimited, answer %d is %+v", i+1, a)
				}
			}
		}},
		{"ModeBlock", "a blocked limit denies every take and check of a token, and no other operation", ofModes(runtime.ModeBlock, func(s *subject, p *runtime.Policy) {
			enforced := *p
			// Only requests with the same policy reach the tokens of a lease.
			enforced.Mode, enforced.Lease = runtime.ModeEnforce, runtime.Lease{}
			s.take(&enforced, "k", 3)
			for _, q := range []runtime.Request{{Count: 1}, {Count: 11}, {Op: runtime.Check, Count: 1}, {Count: 1, Reserve: true}} {
				if d := s.decide(p, "k", q); d.Allowed || d.RetryAfter != runtime.Never {
					s.broken("%s: the decision on %+v is %+v", p.Name, q, d)
				}
			}
			for _, q := range []runtime.Request{{}, {Op: runtime.Check}, {Reserve: true}, {Op: runtime.TakeUpTo}} {
				if d := s.decide(p, "k", q); !d.Allowed || d.Taken != 0 || d.Delay != 0 || d.BlockedFor != runtime.Never {
					s.broken("%s: the decision on %+v is %+v", p.Name, q, d)
				}
			}
			s.wantValue(p, "k", 7)
			s.decide(p, "k", runtime.Request{Op: runtime.Refund, Count: 1})
			s.wantValue(p, "k", 8)
			a := s.do(call(taking(p, "k", 1), taking(bucket(), "beside "+p.Name, 1)))[0]
			if a.Allowed() || a.Decisions[0].Allowed || !a.Decisions[1].Allowed {
				s.broken("%s: the answer to a take beside another limit is %+v", p.Name, a)
			}
			s.wantValue(bucket(), "beside "+p.Name, 10)
		})},
	}
}

// ofModes runs a check in a mode for every kind, on limits with and without shards, leases and deny caches.
func ofModes(mode runtime.Mode, check func(s *subject, p *runtime.Policy)) func(s *subject) {
	return func(s *subject) {
		all := append(kinds(), denyCached())
		for _, kind := range runtime.Kinds() {
			all = append(all, shards(kind))
		}
		for _, p := range append(all, leased()...) {
			p.Name += " in mode " + mode.String()
			p.Mode = mode
			check(s, p)
		}
	}
}
