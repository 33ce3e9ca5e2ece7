package spec

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// search finds the unluckiest interval by trying everything: callers who take any number of tokens, or
// reserve them, or take blocks of a lease and spend them later or give them back, at every one of some instants.
// Reserved tokens are used when they are due.
type search struct {
	rule     runtime.Rule
	length   time.Duration   // of the interval, its first and last instant included
	instants []time.Duration // in their order, since a window begins
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

// position is where callers can have brought a key.
type position struct {
	state runtime.State
	lent  [4]block
}

// block is what is left of a block of a lease, when it was taken, and the last instant at which it can be spent.
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
			s.ask(next, at.ended(now), n, now, first)
		}
		used = next
	}
	worst := int64(0)
	for _, n := range used {
		worst = max(worst, n)
	}
	return worst
}

// ended returns the position without the blocks that cannot be spent any more.
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

// ask notes in next every position that callers can reach at an instant, with the most tokens used by then.
func (s search) ask(next map[position]int64, at position, used int64, now, first time.Duration) {
	if before, ok := next[at]; ok && before >= used {
		return
	}
	next[at] = used
	for count := int64(1); count <= s.most; count++ {
		after, d, err := s.rule.Step(at.state, s.instant(now), runtime.Request{Count: count, Reserve: s.rule.Debt > 0})
		if err != nil || !d.Allowed {
			break
		}
		more := used
		if due := now + d.Delay; first <= due && due <= first+s.length {
			more += count
		}
		s.ask(next, position{after, at.lent}, more, now, first)
	}
	if s.lease.Tokens > 0 {
		s.lend(next, at, used, now, first)
	}
}

// instant returns the nanoseconds since 1970 at a time of the search: not 0, which stands for no time at all.
func (s search) instant(now time.Duration) int64 { return s.rule.Phase + 4*s.rule.Period + int64(now) }

// lend asks for blocks, spends what is left of them, or gives it back.
func (s search) lend(next map[position]int64, at position, used int64, now, first time.Duration) {
	instant := s.instant(now)
	after, d, err := s.rule.Step(at.state, instant, runtime.Request{Count: s.lease.Tokens})
	if free := slices.Index(at.lent[:], block{}); err == nil && d.Allowed && free >= 0 {
		taken := position{after, at.lent}
		end := time.Duration(s.rule.WindowEnd(instant) - s.instant(0))
		taken.lent[free] = block{s.lease.Tokens, now, min(now+s.lease.For, end-1)}
		s.ask(next, taken, used, now, first)
	}
	for i, b := range at.lent {
		if b.left == 0 {
			break
		}
		less := at.without(i, 1)
		if now >= first {
			s.ask(next, less, used+1, now, first)
		}
		s.giveBack(next, at, i, used, now, first)
	}
}

// giveBack gives back what is left of a block.
func (s search) giveBack(next map[position]int64, at position, i int, used int64, now, first time.Duration) {
	b := at.lent[i]
	at = at.without(i, b.left)
	refund := runtime.Request{Op: runtime.Refund, Count: b.left, TakenAt: s.instant(b.taken)}
	at.state, _, _ = s.rule.Step(at.state, s.instant(now), refund)
	s.ask(next, at, used, now, first)
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

// searchWithin searches an interval.
func searchWithin(p *runtime.Policy, tick, length time.Duration) int64 {
	windows := time.Duration(2)
	if p.Start.FirstUse() {
		windows = 3 // so many it takes until one can begin with any part of a token
	}
	firsts := windows * p.Period
	return search{
		rule: p.Rule(""), length: length, instants: ticks(tick, firsts+length), firsts: firsts,
		most: p.Capacity + p.MaxReserved, lease: p.Lease,
	}.worst()
}

// shortPeriod is a few nanoseconds, in which nothing is rounded away.
const shortPeriod = 6

func TestWithinIsReachedAndNeverPassed(t *testing.T) {
	for _, p := range smallPolicies(shortPeriod, 3, 0, 1, 2) {
		for _, length := range []time.Duration{0, 3, shortPeriod, shortPeriod + 1} {
			assert.Equal(t, searchWithin(&p, 1, length), Within(&p, length), "%d of %+v", length, p)
		}
	}
}

func TestWithinWithoutBound(t *testing.T) {
	p := runtime.Policy{Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, MaxReserved: runtime.Unbounded}
	assert.Equal(t, int64(math.MaxInt64), Within(&p, 0))
	assert.Equal(t, int64(0), Within(Unreserved(&p), time.Hour))
}

// leases are all that a small policy can have.
func leases(p runtime.Policy, times ...time.Duration) (leased []runtime.Policy) {
	for tokens := int64(1); tokens <= p.Capacity; tokens++ {
		for _, lasts := range times {
			p.Lease = runtime.Lease{Tokens: tokens, For: lasts}
			if p.Validate() == nil {
				leased = append(leased, p)
			}
		}
	}
	return leased
}

func TestWithinOfLeasesIsReachedAndNeverPassed(t *testing.T) {
	for _, unleased := range smallPolicies(shortPeriod, 2, 0, 2) {
		for _, p := range leases(unleased, 1, 4) {
			for _, length := range []time.Duration{0, 3, shortPeriod} {
				assert.Equal(t, searchWithin(&p, 1, length), Within(&p, length), "%d of %+v", length, p)
			}
		}
	}
}
