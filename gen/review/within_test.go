package review

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// search finds the unluckiest interval by trying everything: callers who take any number of tokens, or
// reserve them one by one, at every instant there is. Reserved tokens are used when they are due.
type search struct {
	rule    runtime.Rule
	length  int     // of the interval, in nanoseconds
	reserve bool    // one by one
	debt    float64 // how deep it goes into debt
}

// worst returns the most tokens used within an interval, its first and last instant included.
func (s search) worst() int64 {
	worst, windows := int64(0), 1
	if s.rule.FirstUse {
		windows = 3 // so many it takes until one can begin with any part of a token
	}
	for first := range windows*int(s.rule.Period) + 2 {
		worst = max(worst, s.from(first))
	}
	return worst
}

// from returns the most tokens used in the interval that begins at an instant.
func (s search) from(first int) int64 {
	used := map[runtime.State]int64{{}: 0}
	for now := range first + s.length + 1 {
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

// ask notes in next every state that callers can bring about at an instant, with the most tokens used by then.
func (s search) ask(next map[runtime.State]int64, state runtime.State, used int64, now, first int) {
	if before, ok := next[state]; ok && before >= used {
		return
	}
	next[state] = used
	after, d, err := s.rule.Step(state, s.rule.Phase+int64(now), runtime.Ask{Count: 1, Reserve: s.reserve})
	if err != nil || !d.Allowed || after.Value < -s.debt {
		return
	}
	if due := now - first + int(d.Delay); 0 <= due && due <= s.length {
		used++
	}
	s.ask(next, after, used, now, first)
}

const searchPeriod = 6

// smallPolicies are all valid policies with a few tokens in a few nanoseconds, where nothing is rounded away.
func smallPolicies(reserved ...int64) (policies []runtime.Policy) {
	for _, kind := range runtime.Kinds() {
		for _, start := range []runtime.Start{{}, runtime.StartOffset(0), runtime.StartFirstUse()} {
			for rate := int64(1); rate <= 3; rate++ {
				for capacity := int64(0); capacity <= 3; capacity++ {
					for _, most := range reserved {
						p := runtime.Policy{Name: "limit", Kind: kind, Start: start, Period: searchPeriod, Rate: rate, Capacity: capacity, MaxReserved: most}
						if p.Validate() == nil {
							policies = append(policies, p)
						}
					}
				}
			}
		}
	}
	return policies
}

func TestWithinIsReachedAndNeverPassed(t *testing.T) {
	for _, p := range smallPolicies(0, 2, runtime.Unbounded) {
		for _, length := range []int{0, 3, searchPeriod, searchPeriod + 1} {
			s := search{p.Rule(""), length, p.MaxReserved > 0, float64(min(p.MaxReserved, 5))}
			worst, within := s.worst(), Within(&p, time.Duration(length))
			if p.Reserves() && worst != within { // the instants at which tokens are due are rounded to the nanosecond
				within = Within(&p, time.Duration(length+1))
			}
			assert.Equal(t, worst, within, "%d of %+v", length, p)
		}
	}
}
