package storetest

import (
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// warned gives policies two thresholds.
func warned(policies ...*runtime.Policy) []*runtime.Policy {
	for _, p := range policies {
		p.Name, p.Warn = "warned "+p.Name, runtime.Thresholds{80, 100}
	}
	return policies
}

// crosses crosses a threshold, in percent.
func (st step) crosses(percent uint8) step { st.want.crossed = percent; return st }

// warnings returns the clauses about thresholds of the capacity.
func warnings() []clause {
	shadow := inMode(runtime.ModeShadow, warned(kinds()...))
	free, slots := named("free", bucket()), warned(inFlight())
	return []clause{
		{
			name: "Warn", rule: "the take that crosses a threshold says so, and no other request does", policies: warned(kinds()...), script: []step{
				take(7), check(1), check(3), take(0), take(1).crosses(80), take(1), take(1).crosses(100), take(1).denied(), left(0),
				// Tokens that come back can be used again. Giving them back crosses nothing.
				refund(2), left(2), take(1), take(1).crosses(100), refund(3), left(3), upTo(9, 3).crosses(100), upTo(1, 0),
				// One take has the highest threshold that it crosses, whether it had the tokens or not.
				reset(), take(10).crosses(100), reset(), charge(7), charge(2).crosses(80), charge(5).crosses(100), charge(5), take(1).denied(),
			},
		},
		{
			name: "WarnTogether", rule: "a call that is denied crosses no threshold, and a call that takes several times from a key crosses it once", policies: warned(kinds()...), script: []step{
				reset().by(free), all(take(8).crosses(80), take(8).by(free)), reset(), all(take(8), take(3).by(free).denied()), all(check(9), take(8).crosses(80)),
				reset(), all(take(8), take(2).crosses(100), take(9).of("other").crosses(80)), reset(), all(take(8), take(1).crosses(80), take(0)), all(take(1).crosses(100), take(0)),
				batch(reset()), batch(take(5), take(4).crosses(80), take(1).crosses(100), take(1).denied()),
			},
		},
		{
			name: "WarnInForce", rule: "thresholds are parts of the capacity in force", policies: warned(kinds()...), script: []step{
				take(8).crosses(80), take(7).edited(to(20)), take(1).edited(to(20)).crosses(80), left(-6), take(1).denied(),
				charge(1), take(3).edited(to(20)).crosses(100),
			},
		},
		{name: "WarnReserve", rule: "reserved tokens count as used when they are taken", policies: warned(bucket()), script: []step{
			reserve(8, 0).crosses(80), reserve(5, 18*time.Second).crosses(100), reserve(3, 0).denied(), pause(24 * time.Second), left(1),
			reserve(2, 6*time.Second).crosses(100),
		}},
		{name: "WarnSlots", rule: "slots that are acquired can cross a threshold, and others that are released cannot", policies: slots, script: []step{
			take(7), take(1).crosses(80), take(2).crosses(100), take(1).denied(), pause(time.Minute), left(10), take(10).crosses(100),
		}},
		{
			name: "WarnShadow", rule: "in shadow mode, what is taken can cross a threshold, and a request that would be denied cannot", policies: shadow, script: []step{
				take(7), take(4).shadowed(), take(2).crosses(80), take(2).shadowed(), take(1).crosses(100), take(1).shadowed(),
			},
		},
		{
			name: "WarnOnce", rule: "exactly one of concurrent takes crosses a threshold", policies: warned(append(kinds(), inFlight())...),
			check: func(s *subject, p *runtime.Policy) {
				sized(100, p)
				if got := s.crossings(p); got != [2]int{1, 1} {
					s.broken("%s: thresholds of 80%% and 100%% were crossed %v times", p.Name, got)
				}
			},
		},
		{
			name: "WarnLease", rule: "the take of a block that crosses a threshold is reported by a request", policies: warned(leased()...),
			check: func(s *subject, p *runtime.Policy) {
				sized(100, p)
				// A block that crosses both has the higher one. And again when a block crosses it again after the rest of another one
				// was given back.
				if got := s.crossings(p); got[1] < 1 || max(got[0], got[1]) > 10 {
					s.broken("%s: thresholds of 80%% and 100%% were crossed %v times", p.Name, got)
				}
			},
		},
		{
			name: "WarnShards", rule: "with shards, a take crosses a threshold when about that part of all tokens is used", policies: warned(sharded()...),
			check: func(s *subject, p *runtime.Policy) {
				sized(300, p)
				// Seldom again, when the shards share the rest.
				if got := s.crossings(p); min(got[0], got[1]) < 1 || max(got[0], got[1]) > 5 {
					s.broken("%s: thresholds of 80%% and 100%% were crossed %v times", p.Name, got)
				}
			},
		},
	}
}

// crossings takes all tokens one by one, and returns how often the thresholds were crossed.
func (s *subject) crossings(p *runtime.Policy) (times [2]int) {
	var mu sync.Mutex
	s.race(int(p.Full())/goroutines+1, func(int) bool {
		d := s.decide(p, runtime.Request{Count: 1})
		mu.Lock()
		defer mu.Unlock()
		switch d.Crossed {
		case 80:
			times[0]++
		case 100:
			times[1]++
		}
		return d.Allowed
	})
	return times
}
