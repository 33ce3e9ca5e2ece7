package spec

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// search finds the unluckiest period by trying everything: callers who take any number of tokens, or
// reserve them, at every tick of the clock, and windows begin at a tick. Reserved tokens are used when they are due.
type search struct {
	rule   runtime.Rule
	period int     // in ticks of a second
	most   int64   // the largest reservation; 0 for none
	debt   float64 // how deep it goes into debt
}

// worst returns the most tokens used within one period, its first and last instant included.
func (s search) worst() int64 {
	worst := int64(0)
	for first := range 2*s.period + 1 {
		worst = max(worst, s.from(first))
	}
	return worst
}

// from returns the most tokens used in the period that begins at a tick.
func (s search) from(first int) int64 {
	used := map[runtime.State]int64{{}: 0}
	for now := range first + s.period + 1 {
		next := map[runtime.State]int64{}
		for state, n := range used {
			s.ask(next, state, n, now, first)
		}
		used = next
	}
	worst := int64(0)
	for _, n := range used {
		worst = max(worst, n)
	}
	return worst
}

// ask notes in next every state that callers can bring about at a tick, with the most tokens used by then.
func (s search) ask(next map[runtime.State]int64, state runtime.State, used int64, now, first int) {
	if before, ok := next[state]; ok && before >= used {
		return
	}
	next[state] = used
	at := s.rule.Phase + int64(now)*int64(time.Second)
	for count := int64(1); count <= max(1, s.most); count++ {
		after, d, err := s.rule.Step(state, at, runtime.Ask{Count: count, Reserve: s.most > 0})
		if err != nil || !d.Allowed || after.Value < -s.debt {
			return
		}
		due := time.Duration(now-first)*time.Second + d.Delay
		more := used
		if 0 <= due && due <= time.Duration(s.period)*time.Second {
			more += count
		}
		s.ask(next, after, more, now, first)
	}
}

const searchPeriod = 6

// smallPolicies are all valid policies of a kind and start with a few tokens.
func smallPolicies(kind runtime.Kind, start runtime.Start, reserved ...int64) []runtime.Policy {
	var policies []runtime.Policy
	for rate := int64(1); rate <= 3; rate++ {
		for capacity := int64(0); capacity <= 5; capacity++ {
			for _, most := range reserved {
				p := runtime.Policy{
					Name: "limit", Kind: kind, Start: start, Period: searchPeriod * time.Second,
					Rate: rate, Capacity: capacity, MaxReserved: most,
				}
				if p.Validate() == nil {
					policies = append(policies, p)
				}
			}
		}
	}
	return policies
}

func everySmallPolicy(reserved ...int64) []runtime.Policy {
	policies := smallPolicies(runtime.TokenBucket, runtime.Start{}, reserved...)
	policies = append(policies, smallPolicies(runtime.FixedWindow, runtime.Start{}, reserved...)...)
	policies = append(policies, smallPolicies(runtime.FixedWindow, runtime.StartOffset(0), reserved...)...)
	return append(policies, smallPolicies(runtime.FixedWindow, runtime.StartFirstUse(), reserved...)...)
}

func searchWorst(p runtime.Policy, most int64) int64 {
	return search{p.Rule(""), searchPeriod, most, float64(min(p.MaxReserved, 7))}.worst()
}

func TestWorstCaseIsReachedAndNeverPassed(t *testing.T) {
	for _, p := range everySmallPolicy(0) {
		assert.Equal(t, searchWorst(p, 0), (&Limit{Policy: p}).worst(), "%+v", p)
	}
	for _, p := range everySmallPolicy(1, 2, 4, runtime.Unbounded) {
		assert.Equal(t, searchWorst(p, 1), (&Limit{Policy: p}).worst(), "reserving one by one: %+v", p)
	}
}

func TestLargeReservationsAddWhatWorstCaseSays(t *testing.T) {
	for _, p := range everySmallPolicy(2, runtime.Unbounded) {
		for most := int64(2); most <= 3; most++ {
			added := most - 1
			if p.Kind == runtime.TokenBucket {
				added = max(0, most-max(p.Capacity, 1))
			}
			assert.LessOrEqual(t, searchWorst(p, most), (&Limit{Policy: p}).worst()+added, "reserving up to %d: %+v", most, p)
		}
	}
}

// The end of one window and the end of the next are a period apart, and hold the whole rate each.
func TestWorstCaseOfSlidingWindow(t *testing.T) {
	for rate := int64(1); rate <= 10; rate++ {
		p := runtime.Policy{Name: "limit", Kind: runtime.SlidingWindow, Rate: rate, Capacity: rate, Period: time.Minute, Start: runtime.StartOffset(0)}
		rule, state, used := p.Rule(""), runtime.State{}, int64(0)
		for window := int64(1); window <= 2; window++ {
			next, d, err := rule.Step(state, window*int64(time.Minute)-1, runtime.Ask{Count: rate})
			assert.NoError(t, err)
			if d.Allowed {
				state, used = next, used+rate
			}
		}
		assert.Equal(t, used, (&Limit{Policy: p}).worst())
		p.Period = searchPeriod * time.Second
		if rate <= 3 {
			assert.LessOrEqual(t, searchWorst(p, 0), 2*rate)
		}
	}
}

func TestWorstCaseInWords(t *testing.T) {
	bucket := runtime.Policy{Kind: runtime.TokenBucket, Rate: 10, Capacity: 20, Period: time.Minute}
	window := runtime.Policy{Kind: runtime.FixedWindow, Rate: 40_000, Capacity: 40_000, Period: 24 * time.Hour}
	for _, test := range []struct {
		policy   runtime.Policy
		reserved int64
		want     string
	}{
		{bucket, 0, "Worst case: 30 in any minute."},
		{bucket, 5, "Worst case: 30 in any minute; a large reservation can add to it when it is due."},
		{window, 0, "Worst case: 80,000 in any day."},
		{window, 5, "Worst case: 80,000 in any day; a large reservation can add to it when it is due."},
	} {
		test.policy.MaxReserved = test.reserved
		assert.Equal(t, test.want, (&Limit{Policy: test.policy}).WorstCase(), fmt.Sprint(test.policy))
	}
}
