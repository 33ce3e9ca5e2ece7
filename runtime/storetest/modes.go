package storetest

import "github.com/ratelimitgen/ratelimitgen/runtime"

// modes returns the clauses about the modes of a limit.
func modes() []clause {
	bucket := inMode(runtime.ModeShadow, one(bucket()))
	return []clause{
		{
			name: "ModeShadow", rule: "a limit in shadow mode lets every request pass, and takes what an enforced one would take",
			policies: inMode(runtime.ModeShadow, every()), script: []step{
				take(6), take(5).shadowed(), take(4), take(1).shadowed(), take(11).shadowed(), left(0), check(1).shadowed(),
			},
		},
		{name: "ModeShadowReserve", rule: "a limit in shadow mode delays no reservation", policies: bucket, check: func(s *subject, p *runtime.Policy) {
			for i, n := range []int64{8, 5, 3} {
				d := s.decide(p, runtime.Request{Count: n, Reserve: true})
				if !d.Allowed || d.UsableAfter != 0 || d.Shadowed != (i > 0) || d.TakenAt.IsZero() != (i == 2) {
					s.broken("reserving 8, 5 and 3 of 10 tokens, with 5 in debt, the decision on %d is %+v", n, d)
				}
			}
			s.wantValue(p, -3)
		}},
		{
			name: "ModeShadowTogether", rule: "a limit in shadow mode never denies a call, and takes nothing if another limit does",
			policies: inMode(runtime.ModeShadow, every()), check: (*subject).shadowTogether,
		},
		{name: "ModeOff", rule: "a limit that is off lets every request pass, and counts nothing", policies: inMode(runtime.ModeOff, every()), check: (*subject).lifted},
		{
			name: "ModeUnlimited", rule: "a limit that is unlimited lets every request pass, and counts nothing",
			policies: inMode(runtime.ModeUnlimited, every()), check: (*subject).lifted,
		},
		{name: "ModeOffTogether", rule: "beside a limit that is off or unlimited, the others of a call decide", policies: inMode(runtime.ModeOff, every()), check: func(s *subject, p *runtime.Policy) {
			unlimited := &runtime.Policy{Name: "unlimited", Kind: runtime.FixedWindow, Mode: runtime.ModeUnlimited}
			for i := range 3 {
				beside := request(basic(runtime.TokenBucket), runtime.Request{Key: p.Name, Count: 5})
				a := s.do(call(request(p, runtime.Request{Count: 100}), beside, request(unlimited, runtime.Request{Count: 100})))[0]
				if a.Err != nil || a.Allowed() != (i < 2) || len(a.Decisions) != 3 || a.Decisions[1].Allowed != (i < 2) {
					s.broken("taking 5 of 10 tokens beside limits that are off and unlimited, answer %d is %+v", i+1, a)
				}
			}
		}},
		{
			name: "ModeBlock", rule: "a blocked limit denies every take and check of a token, and no other operation",
			policies: inMode(runtime.ModeBlock, every()), check: (*subject).blocked,
		},
		{
			name: "CountsOnly", rule: "a fixed window of the most tokens denies nothing, and counts each token",
			policies: []*runtime.Policy{{Name: "counts only", Kind: runtime.FixedWindow, Rate: runtime.MaxTokens, Capacity: runtime.MaxTokens, Period: runtime.MaxPeriod}},
			check:    (*subject).countsOnly,
		},
		{name: "Zero", rule: "a limit of 0 denies every take and check of a token, and leaves what other plans have counted", policies: every(), check: (*subject).zero},
	}
}

// inMode sets a mode.
func inMode(mode runtime.Mode, policies []*runtime.Policy) []*runtime.Policy {
	for _, p := range policies {
		p.Name, p.Mode = p.Name+" in mode "+mode.String(), mode
	}
	return policies
}

// enforced edits a policy so that it is enforced. Only requests with the same policy reach the tokens of a lease.
func enforced(p *runtime.Policy) { p.Mode, p.Lease = runtime.ModeEnforce, runtime.Lease{} }

func (s *subject) shadowTogether(p *runtime.Policy) {
	other := named("enforced beside "+p.Name, bucket())
	s.play(p, []step{
		all(take(6), take(11).by(other).fails(runtime.ErrExceedsCapacity)), take(8).by(other),
		// The call is denied by the other limit.
		all(take(6), take(3).by(other).denied()), left(10),
		all(take(6).shadowed(), take(6).shadowed(), take(2).by(other)), left(10), left(0).by(other),
	})
}

func (s *subject) lifted(p *runtime.Policy) {
	s.play(p, []step{take(10).edited(enforced)})
	for _, q := range []runtime.Request{{Count: 100}, {Op: runtime.Check, Count: 1}, {Op: runtime.Refund, Count: 5},
		{Op: runtime.Charge, Count: 7}, {Op: runtime.Peek}, {Count: 1, Reserve: true}} {
		if d := s.decide(p, q); !d.Allowed || d.Remaining != runtime.MaxTokens || d.UsableAfter != 0 || !d.TakenAt.IsZero() {
			s.broken("%s: the decision on %+v is %+v", p.Name, q, d)
		}
	}
	s.play(p, []step{left(0).edited(enforced), reset(), left(10).edited(enforced)})
}

func (s *subject) zero(p *runtime.Policy) {
	zero, beside := func(p *runtime.Policy) {
		*p = runtime.Policy{Name: p.Name, Kind: p.Kind, Precise: p.Precise, Shards: p.Shards}
	}, named("beside "+p.Name, bucket())
	none := *p
	zero(&none)
	s.play(p, []step{take(3).edited(enforced)})
	for _, q := range []runtime.Request{{Count: 1}, {Count: 100}, {Count: 1, Op: runtime.Check}, {Count: 5, Op: runtime.TakeUpTo}, {Count: 1, Reserve: true}} {
		if d := s.decide(&none, q); d.Allowed || d.RetryAfter != runtime.Never || d.Reason() != "zero" {
			s.broken("%s: the decision on %+v is %+v", p.Name, q, d)
		}
	}
	for _, q := range []runtime.Request{{}, {Op: runtime.Charge, Count: 5}, {Op: runtime.Refund, Count: 2}, {Op: runtime.Peek}} {
		if d := s.decide(&none, q); !d.Allowed || d.Remaining != 0 || !d.TakenAt.IsZero() {
			s.broken("%s: the decision on %+v is %+v", p.Name, q, d)
		}
	}
	s.play(p, []step{
		left(7).edited(enforced), all(take(1).edited(zero).deniedFor(runtime.Never), take(1).by(beside)), left(10).by(beside),
		reset().edited(zero), left(10).edited(enforced),
	})
}

func (s *subject) blocked(p *runtime.Policy) {
	beside := named("beside "+p.Name, bucket())
	s.play(p, []step{
		take(3).edited(enforced),
		take(1).deniedFor(runtime.Never), take(11).deniedFor(runtime.Never), check(1).deniedFor(runtime.Never), reserve(1, 0).deniedFor(runtime.Never),
	})
	for _, st := range []step{take(0), check(0), reserve(0, 0), upTo(0, 0)} {
		if d := s.decide(p, st.q); !d.Allowed || d.Taken != 0 || d.UsableAfter != 0 || d.BlockedFor != runtime.Never {
			s.broken("%s: the decision on %+v is %+v", p.Name, st.q, d)
		}
	}
	s.play(p, []step{left(7), refund(1), left(8), all(take(1).deniedFor(runtime.Never), take(1).by(beside)), left(10).by(beside)})
}

func (s *subject) countsOnly(p *runtime.Policy) {
	used := int64(0)
	for _, n := range []int64{1, 1_000_000, 123_456_789_012_345, 7, 1} {
		used += n
		if d := s.decide(p, runtime.Request{Count: n}); !d.Allowed || d.Remaining != runtime.MaxTokens-used {
			s.broken("taking %d more, %d tokens in all, is %+v", n, used, d)
		}
	}
	s.wantValue(p, float64(runtime.MaxTokens-used))
}
