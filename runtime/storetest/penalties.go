package storetest

import (
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// penalized returns policies of every kind whose denials have a penalty: a minute, then an hour, until there was none for a day.
func penalized() (all []*runtime.Policy) {
	for _, p := range append(kinds(), denyCached()) {
		p = named("penalized "+p.Name, p)
		p.MaxReserved, p.Penalty = 0, runtime.PenaltyOf(24*time.Hour, time.Minute, time.Hour)
		all = append(all, p)
	}
	return all
}

// punished finds a penalty that lasts so long from now on.
func (st step) punished(lasts time.Duration) step { st.want.penalty = &lasts; return st }

// penalties returns the clauses about penalties.
func penalties() []clause {
	const none = time.Duration(0)
	// By the time of each pause, the tokens of every kind are back.
	again := []step{pause(2 * time.Hour), take(10).punished(none)}
	shadow := penalized()
	for _, p := range shadow {
		p.Mode = runtime.ModeShadow
	}
	free := named("free", bucket())
	return []clause{
		{
			name: "Penalty", rule: "a denial for lack of tokens starts a penalty, which does not grow, and the next one is the next step until the last is forgiven",
			policies: penalized(), script: script([]step{
				take(10).punished(none), check(1).denied().punished(none), take(1).denied().punished(time.Minute),
				pause(20 * time.Second), take(1).denied().punished(40 * time.Second).repeated(3), upTo(1, 0).punished(40 * time.Second),
				check(1).denied().punished(40 * time.Second), take(0).punished(40 * time.Second), take(1).of("other"),
			}, again, []step{upTo(1, 0).punished(time.Hour)}, again, []step{take(1).denied().punished(time.Hour), pause(25 * time.Hour)},
				again, []step{take(1).denied().punished(time.Minute)}),
		},
		{name: "PenaltyNeverFits", rule: "a count that can never fit starts no penalty", policies: penalized(), script: []step{
			take(11).fails(runtime.ErrExceedsCapacity), take(10).punished(none),
		}},
		{name: "PenaltyReset", rule: "a reset ends a penalty and forgets those before it", policies: penalized(), script: []step{
			take(10), take(1).denied().punished(time.Minute), reset().punished(none), take(10).punished(none), take(1).denied().punished(time.Minute),
		}},
		{name: "PenaltyOfCall", rule: "a call that is denied takes nothing, and has the penalties of its own denials only", policies: penalized(), script: []step{
			reset().by(free), all(take(3), take(8).by(free)), all(take(8).denied().punished(time.Minute), take(1).by(free)),
			left(7), left(2).by(free), take(1).denied().punished(time.Minute),
			pause(2 * time.Hour), charge(10).by(free), all(take(2).punished(none), take(1).by(free).denied()).repeated(2), take(10).punished(none),
		}},
		{name: "PenaltyShadow", rule: "in shadow mode a penalty is counted, and requests pass", policies: shadow, check: func(s *subject, p *runtime.Policy) {
			s.decide(p, runtime.Request{Count: 10})
			for _, pass := range []time.Duration{0, 30 * time.Second} {
				s.clock.Add(pass)
				if d := s.decide(p, runtime.Request{Count: 1}); !d.Allowed || !d.Shadowed || d.PenaltyFor != time.Minute-pass || d.RetryAfter != 0 {
					s.broken("after %v: %+v", pass, d)
				}
			}
		}},
		{name: "PenaltyConcurrent", rule: "once a request was denied, all later ones are denied, and concurrent denials start one penalty", policies: penalized(), check: (*subject).concurrentPenalty},
	}
}

// concurrentPenalty takes one and several tokens at once, so that some requests are denied while the key has tokens for others.
func (s *subject) concurrentPenalty(p *runtime.Policy) {
	sized(60, p)
	for _, lasts := range []time.Duration{time.Minute, time.Hour, time.Hour} {
		var denied atomic.Bool
		s.race(20, func(i int) bool {
			before := denied.Load()
			d := s.decide(p, runtime.Request{Count: []int64{1, 1, 1, 7}[i%4]})
			switch {
			case d.Allowed && before:
				s.broken("a request that came after a denial was allowed: %+v", d)
			case !d.Allowed && d.PenaltyFor != lasts:
				s.broken("the penalty of a denial lasts for %v, want %v", d.PenaltyFor, lasts)
			case !d.Allowed:
				denied.Store(true)
			}
			return d.Allowed
		})
		if d := s.decide(p, runtime.Request{Op: runtime.Peek}); d.PenaltyFor != lasts {
			s.broken("the penalty lasts for %v after all requests, want %v", d.PenaltyFor, lasts)
		}
		s.clock.Add(3 * time.Hour)
	}
}
