package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/sweep"
)

// slots returns the clauses about limits in flight.
func slots() []clause {
	p := one(inFlight())
	return []clause{
		{name: "SlotsHeld", rule: "a slot is held until it is released or its hold has ended, and no longer by another holder", policies: p, check: (*subject).slotsHeld},
		{name: "SlotsTogether", rule: "a call acquires slots and takes tokens, or neither", policies: p, script: []step{
			all(take(4), take(3).by(bucket())), left(6), left(7).by(bucket()),
			all(take(7).deniedFor(time.Minute), take(1).by(bucket())), all(take(1), take(8).by(bucket()).denied()), left(6), left(7).by(bucket()),
			all(check(6), take(1).by(bucket())), all(check(7).denied(), take(1).by(bucket())), left(6), left(6).by(bucket()),
			// A key has one holder in a call.
			all(take(1), take(1).fails(runtime.ErrInvalidCall)), left(6), all(take(1), take(1).of("other")), left(5), left(9).of("other"),
			pause(time.Minute), left(10), reset().of("other"), left(10).of("other"),
		}},
		{name: "SlotsRefuse", rule: "slots are acquired, renewed and released; other operations are errors", policies: p, script: []step{
			charge(1).fails(runtime.ErrInvalidCall), ask(runtime.TakeUpTo, 1).fails(runtime.ErrInvalidCall), refund(1).fails(runtime.ErrInvalidCall),
			reserve(1, 0).fails(runtime.ErrInvalidCall), take(11).fails(runtime.ErrExceedsCapacity), take(-1).fails(runtime.ErrInvalidCount), take(0),
			ask(runtime.Renew, 0).fails(runtime.ErrSlotLost), ask(runtime.Release, 0).fails(runtime.ErrSlotLost), left(10),
			ask(runtime.Renew, 0).by(bucket()).fails(runtime.ErrInvalidCall), ask(runtime.Release, 0).by(bucket()).fails(runtime.ErrInvalidCall),
		}},
		{
			name: "SlotsGivenBack", rule: "a Release with TakenAt frees the slots if they are held, is no error otherwise, and no later fence is as small",
			policies: p, check: (*subject).slotsGivenBack,
		},
		{name: "SlotsEdited", rule: "a lowered capacity lets those that run finish", policies: p, script: []step{
			take(6), take(1).edited(to(4)).denied(), left(-2).edited(to(4)), pause(time.Minute), take(4).edited(to(4)),
		}},
		{
			name: "SlotsConcurrent", rule: "concurrent callers never hold more slots than there are, and the fences of a key grow",
			policies: p, check: (*subject).slotsConcurrent,
		},
	}
}

// ofHolder returns a request of a holder.
func ofHolder(p *runtime.Policy, op runtime.Op, fence int64) runtime.Call {
	return call(request(p, runtime.Request{Op: op, Fence: fence}))
}

// slotsHeld follows two holders.
func (s *subject) slotsHeld(p *runtime.Policy) {
	first := s.decide(p, runtime.Request{Count: 6})
	s.clock.Add(time.Second)
	second := s.decide(p, runtime.Request{Count: 4})
	if second.Fence <= first.Fence || first.Fence <= 0 {
		s.broken("the fences are %d and %d", first.Fence, second.Fence)
	}
	want := func(op runtime.Op, fence int64, err error) {
		s.Helper()
		if a := s.do(ofHolder(p, op, fence))[0]; !errors.Is(a.Err, err) || (err == nil) != a.Allowed() {
			s.broken("%v: the answer is %+v, want the error %v", op, a, err)
		}
	}
	s.play(p, []step{left(0), take(1).deniedFor(59 * time.Second)})
	s.clock.Add(29 * time.Second)
	want(runtime.Renew, first.Fence, nil)
	// The second hold ends first.
	s.play(p, []step{take(1).deniedFor(31 * time.Second), pause(31*time.Second - 1), take(4).deniedFor(1), pause(1), take(4)})
	want(runtime.Release, second.Fence, runtime.ErrSlotLost)
	want(runtime.Renew, second.Fence, runtime.ErrSlotLost)
	s.play(p, []step{left(0)})
	want(runtime.Release, first.Fence, nil)
	want(runtime.Release, first.Fence, runtime.ErrSlotLost)
	s.play(p, []step{left(6)})
	// In a batch, the calls after a lost slot are executed.
	third := s.decide(p, runtime.Request{Count: 1})
	answers := s.do(ofHolder(p, runtime.Release, first.Fence), call(request(p, runtime.Request{Count: 5})), ofHolder(p, runtime.Release, third.Fence))
	if !errors.Is(answers[0].Err, runtime.ErrSlotLost) || !answers[1].Allowed() || !answers[2].Allowed() {
		s.broken("the answers of a batch are %+v", answers)
	}
	s.play(p, []step{left(1), reset(), left(10)})
	want(runtime.Renew, answers[1].Decisions[0].Fence, runtime.ErrSlotLost)
	if after := s.decide(p, runtime.Request{Count: 1}); after.Fence <= answers[1].Decisions[0].Fence {
		s.broken("after a reset, the fence is %d, and was %d", after.Fence, answers[1].Decisions[0].Fence)
	}
	if sweeper, ok := ability.Of[sweep.Sweeper](s.store); ok {
		last := s.decide(p, runtime.Request{Count: 1})
		s.clock.Add(3 * time.Hour)
		if _, err := sweeper.Sweep(s.ctx, p); err != nil {
			s.Fatal(err)
		}
		if after := s.decide(p, runtime.Request{Count: 10}); !after.Allowed || after.Fence <= last.Fence {
			s.broken("after a sweep, the decision is %+v, and the last fence was %d", after, last.Fence)
		}
	}
}

// slotsGivenBack releases slots of which the releaser does not know whether they are held.
func (s *subject) slotsGivenBack(p *runtime.Policy) {
	giveBack := func(fence int64) {
		s.Helper()
		c := ofHolder(p, runtime.Release, fence)
		c.Requests[0].TakenAt = s.clock.Now().UnixNano()
		if a := s.do(c)[0]; !a.Allowed() {
			s.broken("the answer is %+v", a)
		}
	}
	// The key has no row yet.
	missing := s.clock.Now().UnixNano() + 5
	giveBack(missing)
	s.play(p, []step{left(10)})
	first := s.decide(p, runtime.Request{Count: 6})
	if first.Fence <= missing {
		s.broken("the fence %d is not larger than %d, which was given back", first.Fence, missing)
	}
	giveBack(first.Fence)
	s.play(p, []step{left(10)})
	giveBack(first.Fence)
	// The slots of others stay held.
	other := s.decide(p, runtime.Request{Count: 3})
	giveBack(other.Fence + 7)
	s.play(p, []step{left(7)})
	if next := s.decide(p, runtime.Request{Count: 1}); next.Fence <= other.Fence+7 {
		s.broken("the fence %d is not larger than %d, which was given back", next.Fence, other.Fence+7)
	}
	s.play(p, []step{left(6)})
}

// slotsConcurrent has many callers acquire, renew and release.
func (s *subject) slotsConcurrent(p *runtime.Policy) {
	sized(5, p)
	var mu sync.Mutex
	held, most, fences := 0, 0, []int64{}
	s.race(4, func(int) bool {
		d := s.decide(p, runtime.Request{Count: 1})
		if !d.Allowed {
			return false
		}
		mu.Lock()
		held++
		most, fences = max(most, held), append(fences, d.Fence)
		mu.Unlock()
		renewed := s.do(ofHolder(p, runtime.Renew, d.Fence))[0]
		mu.Lock()
		held--
		mu.Unlock()
		released := s.do(ofHolder(p, runtime.Release, d.Fence))[0]
		if renewed.Err != nil || released.Err != nil {
			s.broken("a slot was lost: %v, %v", renewed.Err, released.Err)
		}
		return true
	})
	slices.Sort(fences)
	if most > 5 || len(slices.Compact(fences)) != len(fences) {
		s.broken("%d of 5 slots were held at once, and the fences were %d", most, fences)
	}
	s.play(p, []step{left(5)})
}
