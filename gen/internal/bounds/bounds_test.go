package bounds

import (
	"flag"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

var long = flag.Bool("long", false, "search all limits and calendars, not every seventh")

// sample returns every seventh of some cases or, with -long, all of them. The cases combine some
// kinds, starts, rates, capacities, reservations, leases, zones and units. Seven divides none of the counts of these, so
// that each occurs.
func sample[T any](all []T) (some []T) {
	if *long {
		return all
	}
	for i := 0; i < len(all); i += 7 {
		some = append(some, all[i])
	}
	return some
}

// search finds the worst interval by brute force: callers take any number of tokens, or reserve them, or take blocks of a
// lease and spend them later or give them back, at each of some instants. Reserved tokens are used when they are due.
type search struct {
	rule     meter.Rule
	length   time.Duration   // length of the interval, both ends included
	instants []time.Duration // in ascending order, from the beginning of a window
	firsts   time.Duration   // the last instant that the interval can begin at
	most     int64           // the largest count
	lease    runtime.Lease
}

// worst returns the most tokens used within an interval.
func (s search) worst() int64 {
	worst := int64(0)
	for _, first := range s.instants {
		if first <= s.firsts {
			worst = max(worst, s.from(first))
		}
	}
	return worst
}

// position is a state of a key that callers can reach.
type position struct {
	state runtime.State
	lent  [4]block
}

// block is the rest of a block of a lease, the time at which it was taken, and the last instant to spend it.
type block struct {
	left       int64
	taken, end time.Duration
}

// from returns the most tokens used in the interval that begins at an instant.
func (s search) from(first time.Duration) int64 {
	used := map[position]int64{{}: 0}
	for _, now := range s.instants {
		if now > first+s.length {
			break
		}
		next := map[position]int64{}
		for at, n := range used {
			s.explore(next, at.ended(now), n, now, first)
		}
		used = next
	}
	worst := int64(0)
	for _, n := range used {
		worst = max(worst, n)
	}
	return worst
}

// ended returns the position without expired blocks.
func (p position) ended(now time.Duration) position {
	for i := len(p.lent) - 1; i >= 0; i-- {
		if p.lent[i].end < now {
			p = p.without(i, p.lent[i].left)
		}
	}
	return p
}

// without returns the position with fewer tokens in a block.
func (p position) without(i int, tokens int64) position {
	if p.lent[i].left -= tokens; p.lent[i].left == 0 {
		copy(p.lent[i:], p.lent[i+1:])
		p.lent[len(p.lent)-1] = block{}
	}
	return p
}

// explore adds to next every position that callers can reach at an instant, with the most tokens used by then.
func (s search) explore(next map[position]int64, at position, used int64, now, first time.Duration) {
	if before, ok := next[at]; ok && before >= used {
		return
	}
	next[at] = used
	for count := int64(1); count <= s.most; count++ {
		after, d, err := s.rule.Step(at.state, s.instant(now), runtime.Request{Count: count, Reserve: s.rule.Debt > 0})
		if err != nil || !d.Allowed {
			break
		}
		after = s.withoutTotal(after)
		more := used
		if due := now + d.UsableAfter; first <= due && due <= first+s.length {
			more += count
		}
		s.explore(next, position{after, at.lent}, more, now, first)
	}
	if s.lease.Tokens > 0 {
		s.lend(next, at, used, now, first)
	}
}

// instant returns a time of the search in nanoseconds since 1970. It is never 0, which means "no time" in a state.
func (s search) instant(now time.Duration) int64 { return s.rule.Phase + 4*s.rule.Period + int64(now) }

// lend takes blocks, spends their tokens, or gives them back.
func (s search) lend(next map[position]int64, at position, used int64, now, first time.Duration) {
	instant := s.instant(now)
	after, d, err := s.rule.Step(at.state, instant, runtime.Request{Count: s.lease.Tokens})
	if free := slices.Index(at.lent[:], block{}); err == nil && d.Allowed && free >= 0 {
		after = s.withoutTotal(after)
		taken := position{after, at.lent}
		end := time.Duration(s.rule.WindowEnd(instant) - s.instant(0))
		taken.lent[free] = block{s.lease.Tokens, now, min(now+s.lease.For, end-1)}
		s.explore(next, taken, used, now, first)
	}
	for i, b := range at.lent {
		if b.left == 0 {
			break
		}
		less := at.without(i, 1)
		if now >= first {
			s.explore(next, less, used+1, now, first)
		}
		s.refund(next, at, i, used, now, first)
	}
}

// withoutTotal returns a state without the total of a linear kind, so that the positions of different histories are the
// same.
func (s search) withoutTotal(state runtime.State) runtime.State {
	if s.rule.Kind.Linear() {
		state.Prev = 0
	}
	return state
}

// refund gives back the rest of a block, for a token bucket less the tokens accrued since it was taken: no store gives back
// more.
func (s search) refund(next map[position]int64, at position, i int, used int64, now, first time.Duration) {
	b := at.lent[i]
	at = at.without(i, b.left)
	rest := float64(b.left)
	switch s.rule.Kind {
	case runtime.SlidingWindow:
		request := runtime.Request{Op: runtime.Refund, Count: b.left, TakenAt: s.instant(b.taken)}
		at.state, _, _ = s.rule.Step(at.state, s.instant(now), request)
		rest = 0
	case runtime.TokenBucket:
		rest = max(0, rest-s.rule.Rate*float64(now-b.taken)/float64(s.rule.Period))
	}
	if s.rule.Kind.Linear() {
		at.state.Value = min(0, at.state.Value+rest)
	}
	s.explore(next, at, used, now, first)
}

// ticks returns the instants that are a tick apart, and if it is longer than a nanosecond, those just before them.
func ticks(tick, last time.Duration) (instants []time.Duration) {
	for at := time.Duration(0); at <= last; at += tick {
		if tick > 1 && at > 0 {
			instants = append(instants, at-1)
		}
		instants = append(instants, at)
	}
	return instants
}

// smallPolicies are all valid policies with a few tokens in a period.
func smallPolicies(period time.Duration, mostTokens int64, reserved ...int64) (policies []runtime.Policy) {
	for _, kind := range runtime.Kinds() {
		for _, start := range []runtime.Start{{}, runtime.StartOffset(0), runtime.StartFirstUse()} {
			for rate := int64(1); rate <= 3; rate++ {
				for capacity := int64(0); capacity <= mostTokens; capacity++ {
					for _, most := range reserved {
						p := runtime.Policy{
							Name: "limit", Kind: kind, Start: start, Period: period,
							Rate: rate, Capacity: capacity, MaxReserved: most,
						}
						if p.Validate() == nil && kind != runtime.InFlight { // which has a test of its own
							policies = append(policies, p)
						}
					}
				}
			}
		}
	}
	return policies
}

// searchWithin searches an interval.
func searchWithin(p *runtime.Policy, tick, length time.Duration) int64 {
	windows := time.Duration(2)
	if p.Start.FirstUse() {
		windows = 3 // a later window can begin with any part of a token
	}
	firsts := windows * p.Period
	return search{
		rule: meter.RuleOf(p, ""), length: length, instants: ticks(tick, firsts+length), firsts: firsts,
		most: p.Capacity + p.MaxReserved, lease: p.Lease,
	}.worst()
}

// shortPeriod is so short that no rounding can hide a token.
const shortPeriod = 6

func TestWithinIsReachedAndNeverExceeded(t *testing.T) {
	t.Parallel()
	for _, p := range sample(smallPolicies(shortPeriod, 3, 0, 1, 2)) {
		for _, length := range []time.Duration{0, 3, shortPeriod, shortPeriod + 1} {
			assert.Equal(t, searchWithin(&p, 1, length), Within(&p, length), "%d of %+v", length, p)
		}
	}
}

// At an instant, no schedule of acquisitions, renewals and releases holds more slots than the capacity, and some hold all.
// In the shortest interval, any number can be acquired.
func TestWithinOfSlotsIsWhatIsHeldAtAnInstant(t *testing.T) {
	for capacity := int64(1); capacity <= 3; capacity++ {
		p := runtime.Policy{Name: "limit", Kind: runtime.InFlight, Slots: capacity, Hold: 4}
		require.NoError(t, p.Validate())
		rule := meter.RuleOf(&p, "")
		most := int64(0)
		var try func(s runtime.State, now int64, held map[int64]int64, left int)
		try = func(s runtime.State, now int64, held map[int64]int64, left int) {
			// held has the ends of the holds that were not released, by fence.
			n := int64(0)
			for _, end := range held {
				if end > now {
					n++
				}
			}
			if most = max(most, n); left == 0 {
				return
			}
			if next, d, err := rule.Step(s, now, runtime.Request{Count: 1}); err == nil && d.Allowed {
				more := maps.Clone(held)
				more[d.Fence] = now + int64(p.Hold)
				try(next, now, more, left-1)
			}
			for fence := range held {
				if next, _, err := rule.Step(s, now, runtime.Request{Op: runtime.Renew, Fence: fence}); err == nil {
					more := maps.Clone(held)
					more[fence] = now + int64(p.Hold)
					try(next, now, more, left-1)
				}
				if next, _, err := rule.Step(s, now, runtime.Request{Op: runtime.Release, Fence: fence}); err == nil {
					fewer := maps.Clone(held)
					delete(fewer, fence)
					try(next, now, fewer, left-1)
				}
			}
			for _, pass := range []int64{1, 3} {
				try(s, now+pass, held, left-1)
			}
		}
		try(runtime.State{}, 100, map[int64]int64{}, 7)
		assert.Equal(t, most, Within(&p, 0))

		s, now := runtime.State{}, int64(100)
		for range 1000 {
			next, d, err := rule.Step(s, now, runtime.Request{Count: capacity})
			require.NoError(t, err)
			require.True(t, d.Allowed)
			s, _, err = rule.Step(next, now, runtime.Request{Op: runtime.Release, Fence: d.Fence})
			require.NoError(t, err)
		}
		assert.Equal(t, int64(math.MaxInt64), Within(&p, 1), "1,000 times the capacity was acquired at one instant")
		assert.Zero(t, NextAfter(&p)+FullAfter(&p))
	}
}

func TestWithinOfUnboundedReservationsHasNoBound(t *testing.T) {
	p := runtime.Policy{Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, MaxReserved: runtime.Unbounded}
	assert.Equal(t, int64(math.MaxInt64), Within(&p, 0))
	assert.Equal(t, int64(0), Within(Unreserved(&p), time.Hour))
}

// leased returns a sample of small policies with each lease that they can have.
func leased(period time.Duration, times func(*runtime.Policy) []time.Duration) (policies []runtime.Policy) {
	for _, p := range smallPolicies(period, 2, 0, 2) {
		for tokens := int64(1); tokens <= p.Capacity; tokens++ {
			for _, lasts := range times(&p) {
				p.Lease = runtime.Lease{Tokens: tokens, For: lasts}
				if p.Validate() == nil {
					policies = append(policies, p)
				}
			}
		}
	}
	return sample(policies)
}

func TestWithinWithLeasesIsReachedAndNeverExceeded(t *testing.T) {
	t.Parallel()
	for _, p := range leased(shortPeriod, func(*runtime.Policy) []time.Duration { return []time.Duration{1, 4} }) {
		for _, length := range []time.Duration{0, 3, shortPeriod} {
			assert.Equal(t, searchWithin(&p, 1, length), Within(&p, length), "%d of %+v", length, p)
		}
	}
}

// longPeriod is long enough for instants at which a token is due except for rounding.
const longPeriod = 30 * time.Second

// longTick is the time in which a token accrues, or half a period: callers act then, and a nanosecond before.
func longTick(p *runtime.Policy) time.Duration { return p.Period / time.Duration(max(2, p.Rate)) }

func TestWithinAPeriodIsReachedAndNeverExceeded(t *testing.T) {
	t.Parallel()
	for _, p := range sample(smallPolicies(longPeriod, 5, 0, 1, 2)) {
		assert.Equal(t, searchWithin(&p, longTick(&p), p.Period), Within(&p, p.Period), "%+v", p)
	}
}

func TestWithinAPeriodWithLeasesIsReachedAndNeverExceeded(t *testing.T) {
	t.Parallel()
	for _, p := range leased(longPeriod, func(p *runtime.Policy) []time.Duration { return []time.Duration{longTick(p), longPeriod} }) {
		assert.Equal(t, searchWithin(&p, longTick(&p), p.Period), Within(&p, p.Period), "%+v", p)
	}
}
