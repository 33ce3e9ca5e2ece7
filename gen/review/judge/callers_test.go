package judge

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// numbered returns a random policy of which callers give some numbers. Reserved tokens are due by the rate of their request,
// so that no number bounds when they are used if callers give the rate: such a policy has no reservations.
func (d dice) numbered() runtime.Policy {
	for {
		p := d.bounded()
		p.Lease = runtime.Lease{}
		if d.IntN(2) == 0 && p.Full() > 0 {
			p = *bounds.Unreserved(&p)
		}
		if !p.Reserves() {
			p.AtMost.Rate, p.AtMost.Slots = p.Rate, p.Slots
		}
		if d.IntN(2) == 0 || !p.Kind.Linear() {
			p.AtMost.Capacity = p.Capacity
		}
		if p.Reserves() && d.IntN(2) == 0 {
			p.AtMost.MaxReserved = p.MaxReserved
		}
		if p.AtMost != (runtime.Numbers{}) && p.Validate() == nil {
			return p
		}
	}
}

// given returns the policy with random numbers of a caller.
func (d dice) given(t *testing.T, p *runtime.Policy) *runtime.Policy {
	least := int64(max(1, p.Shards))
	number := func(most int64) int64 {
		if most == 0 {
			return 0
		}
		return choose(d, least, most, most, least+d.Int64N(most-least+1))
	}
	n := runtime.Numbers{Rate: number(p.AtMost.Rate), Capacity: number(p.AtMost.Capacity), MaxReserved: number(p.AtMost.MaxReserved), Slots: number(p.AtMost.Slots)}
	if !p.Kind.Linear() {
		n.Capacity = n.Rate
	}
	of, key := n.For(p, runtime.Key{})
	require.NoError(t, key.Err())
	require.NoError(t, of.Validate())
	return of
}

// changing makes random calls, each with numbers of its own: most of them take all that there is, many at the ends of
// windows.
func (d dice) changing(t *testing.T, p *runtime.Policy) []use {
	c := newCaller(d, p)
	rule := meter.RuleOf(paced(p), keyOfCaller)
	now := rule.Phase + 3*rule.Period + d.Int64N(rule.Period)
	for range 200 {
		of := d.given(t, p)
		switch d.IntN(6) {
		case 0:
			c.take(of, now, 1)
		case 1:
			c.takeMost(of, now, now)
		case 2, 3:
			c.takeMost(of, now, now+int64(bounds.LongestDelay(p)))
		case 4:
			c.take(of, now, choose(d, max(1, of.Full()), of.Full()+of.MaxReserved, 1+d.Int64N(of.Full()+of.MaxReserved)))
		}
		if d.IntN(3) == 0 {
			continue // the next call is at the same instant
		}
		due, _ := c.do(p, now, runtime.Request{Op: runtime.Check, Count: 1, Reserve: p.Reserves()})
		later := now + d.jump(*p, due.RetryAfter)
		if end := rule.WindowEnd(now); d.IntN(3) > 0 && end < math.MaxInt64 {
			later = choose(d, end-1, end)
		}
		now = later
	}
	return c.uses
}

// The numbers of a review are those of callers that give the most: whatever they give from call to call, they use no more,
// and with the most they can use as much.
func TestNumbersFromCallersAreThoseOfTheMost(t *testing.T) {
	d := roll(31)
	tried, reached, changes := 0, 0, 0
	for range 4 * fewPairs() {
		p, other := d.numbered(), d.bounded()
		other.Lease = runtime.Lease{}
		s := subjectOfPair(limitOf(other, true), limitOf(p, true))
		traces := [][]use{d.changing(t, &p), d.changing(t, &p), d.changing(t, &p), d.changing(t, &p)}
		changes += 4 * 200
		fixed := p
		fixed.AtMost = runtime.Numbers{}
		for _, n := range s.Numbers {
			if n.New == nil || n.Unit != review.Tokens {
				continue
			}
			length, ok := intervalNamed(n.Name, paced(&p).Period)
			if !ok || len(n.Name) > len(review.Unreserved) && n.Name[len(n.Name)-len(review.Unreserved):] == review.Unreserved {
				continue
			}
			length = closed(&p, length)
			for _, uses := range traces {
				require.LessOrEqual(t, most(uses, length), *n.New, "%s of %+v", n.Name, p)
			}
			if p.Shards <= 1 && length <= 100*int64(paced(&p).Period) && length/int64(paced(&p).Period) < 100 {
				tried++
				if attack(d, &fixed, length) == *n.New {
					reached++
				}
			}
		}
	}
	t.Logf("%d calls with numbers of their own; of %d numbers, %d are reached with the most", changes, tried, reached)
	assert.Equal(t, tried, reached)
}

// While versions run side by side of which callers give numbers, they use no more than the review says.
func TestTogetherHoldsForAllNumbersOfCallers(t *testing.T) {
	d := roll(32)
	tried, longRuns := 0, 0
	for range 8 * fewPairs() {
		old := d.numbered()
		old = *bounds.Unreserved(&old)
		old.AtMost.MaxReserved = 0
		new := d.edited(old)
		new.Lease, new.MaxReserved = runtime.Lease{}, 0
		new.AtMost = runtime.Numbers{}
		if d.IntN(2) == 0 {
			new.AtMost = runtime.Numbers{Rate: new.Rate, Capacity: new.Capacity, Slots: new.Slots}
		}
		if old.Validate() != nil || new.Validate() != nil {
			continue
		}
		bound, bounded := Together(limitOf(old, true), limitOf(new, true))
		if !bounded {
			continue
		}
		tried++
		rate, known := longRun(&old, &new)
		c := newCaller(d, &old, &new)
		was, is := paced(&old).Period, paced(&new).Period
		longest := max(was, is)
		length, begin := 40*int64(longest), int64(1e18)
		step := max(length/2000, int64(min(was, is))/4)
		for now := begin; now < begin+length; now += step {
			for range 4 {
				of := d.given(t, choose(d, &old, &new))
				if count := c.peek(of, now).Remaining; count > 0 {
					c.take(of, now, choose(d, count, 1))
				}
			}
		}
		require.LessOrEqual(t, most(c.uses, 0), bound, "%+v\nto %+v", old, new)
		if known {
			longRuns++
			windows := int64(math.Ceil(float64(length) / float64(new.Period)))
			require.LessOrEqual(t, most(c.uses, length), bound+rate*(windows+windows/20+2), "%+v\nto %+v", old, new)
		}
	}
	t.Logf("%d edits tried, %d with a long run", tried, longRuns)
	assert.Greater(t, longRuns, 20)
}

// Numbers that a new file no longer allows are said, with the effect on calls.
func TestLowerMostIsSaidToFailCalls(t *testing.T) {
	const head = "version: 1\nlimits:\n  send: {kind: token bucket, period: 1m, "
	r := Review(parse(t, "old", head+"rate: {at most: 1_000}, capacity: {at most: 2_000}}\n"), parse(t, "new", head+"rate: {at most: 500}, capacity: {at most: 2_000}}\n"))
	require.Len(t, r.Subjects, 1)
	var notes []string
	for _, n := range r.Subjects[0].Notes {
		notes = append(notes, n.About+": "+n.Text)
	}
	assert.Contains(t, notes, "calls: Requests with a rate above 500, which the old file allows up to 1,000, fail with ErrInvalidNumbers: no store is reached, and no request is allowed.")
	assert.Contains(t, r.Subjects[0].Classes(), review.Tightened)
}
