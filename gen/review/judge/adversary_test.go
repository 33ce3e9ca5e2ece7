package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// The adversary looks for schedules that exceed a number of a review, or reach it. It calls the runtime as callers do, and
// does not use the formulas. Some schedules are random, and some are those that a person would try.

// caller takes tokens from one key, by one version of a limit or by several in turns.
type caller struct {
	d        dice
	versions []*runtime.Policy
	rules    map[*runtime.Policy]meter.Rule
	rows     []runtime.State
	blocks   []leasedBlock
	uses     []use
}

const keyOfCaller = "key"

func newCaller(d dice, versions ...*runtime.Policy) *caller {
	shards := 1
	for _, p := range versions {
		shards = max(shards, p.Shards)
	}
	return &caller{d: d, versions: versions, rules: rulesOf(versions), rows: make([]runtime.State, shards)}
}

func rulesOf(policies []*runtime.Policy) map[*runtime.Policy]meter.Rule {
	rules := map[*runtime.Policy]meter.Rule{}
	for _, p := range policies {
		rules[p] = meter.RuleOf(p, keyOfCaller)
	}
	return rules
}

// rule returns the rule of a policy. Those of the versions are not derived again for each call.
func (c *caller) rule(p *runtime.Policy) meter.Rule {
	if rule, ok := c.rules[p]; ok {
		return rule
	}
	return meter.RuleOf(p, keyOfCaller)
}

func (c *caller) do(p *runtime.Policy, now int64, q runtime.Request) (runtime.Decision, error) {
	if p.Shards > 1 {
		return meter.StepShards(p, c.rows[:p.Shards], keyOfCaller, now, q, c.d.Uint64())
	}
	rule := c.rule(p)
	next, d, err := rule.Step(c.rows[0], now, q)
	c.rows[0] = next
	return d, err
}

func (c *caller) peek(p *runtime.Policy, now int64) runtime.Decision {
	d, _ := c.do(p, now, runtime.Request{Op: runtime.Peek})
	return d
}

// take records a count as used when its delay has passed.
func (c *caller) take(p *runtime.Policy, now, count int64) bool {
	d, err := c.do(p, now, runtime.Request{Count: count, Reserve: p.Reserves()})
	if err != nil || !d.Allowed {
		return false
	}
	c.uses = append(c.uses, use{now + int64(d.UsableAfter), count})
	return true
}

// takeMost takes as many tokens as can be used by an instant.
func (c *caller) takeMost(p *runtime.Policy, now, by int64) {
	low, high := int64(0), p.Full()+p.MaxReserved
	for low < high {
		middle := low + (high-low+1)/2
		d, err := c.do(p, now, runtime.Request{Op: runtime.Check, Count: middle, Reserve: p.Reserves()})
		if err == nil && d.Allowed && now+int64(d.UsableAfter) <= by {
			low = middle
		} else {
			high = middle - 1
		}
	}
	if low > 0 {
		c.take(p, now, low)
	}
}

func (c *caller) leaseBlock(p *runtime.Policy, now int64) bool {
	if p.Lease.Tokens == 0 {
		return false
	}
	d, err := c.do(p, now, runtime.Request{Count: p.Lease.Tokens})
	if err != nil || !d.Allowed {
		return false
	}
	rule := c.rule(p)
	b := leasedBlock{left: p.Lease.Tokens, taken: now, end: now + int64(p.Lease.For)}
	if end := rule.WindowEnd(now); end < math.MaxInt64 {
		b.end = min(b.end, end-1)
	}
	c.blocks = append(c.blocks, b)
	return true
}

// leasedBlock is a leased block: the tokens left, when they were taken, and the last instant at which they can be spent.
type leasedBlock struct{ left, taken, end int64 }

// end ends the blocks that expire by an instant: at and spent choose when each is spent and how much of it. The rest is
// refunded.
func (c *caller) end(p *runtime.Policy, now, later int64, at func(b leasedBlock) int64, spent func(b leasedBlock) int64) {
	var rest []leasedBlock
	for _, b := range c.blocks {
		if b.end > later {
			rest = append(rest, b)
			continue
		}
		used := spent(b)
		c.uses = append(c.uses, use{at(b), used})
		if b.left > used {
			c.do(p, max(now, b.end), runtime.Request{Op: runtime.Refund, Count: b.left - used, TakenAt: b.taken})
		}
	}
	c.blocks = rest
}

// attack returns the most tokens used in an interval by the schedules that suit the policy.
func attack(d dice, p *runtime.Policy, length int64) int64 {
	rule := meter.RuleOf(paced(p), keyOfCaller)
	edge := rule.Phase + 40*rule.Period
	found := attackByReserving(d, p, edge, length)
	switch {
	case p.Kind == runtime.TokenBucket && p.Lease.Tokens > 0:
		return max(found, attackByLeasing(d, p, edge, length))
	case p.Kind == runtime.FixedWindow && p.Start.FirstUse() && p.Capacity > 0 && !p.Reserves():
		return max(found, attackByOpening(d, p, edge, length))
	case p.Kind == runtime.InFlight:
		return max(found, attackByReleasing(d, p, edge, length))
	case p.Kind == runtime.SlidingWindow:
		c := newCaller(d, p)
		for _, at := range every(edge-1, edge-1+length, rule.Period) {
			c.takeMost(p, at, at)
		}
		return max(found, most(c.uses, length))
	}
	return found
}

// attackByReserving reserves as much as possible, so that it is due when the interval starts, and then takes all that can
// be used within the interval.
func attackByReserving(d dice, p *runtime.Policy, edge, length int64) (found int64) {
	delay := int64(bounds.LongestDelay(p))
	for _, begin := range []int64{edge, edge - 1} {
		c := newCaller(d, p)
		c.takeMost(p, begin, begin+delay)
		from := begin
		if len(c.uses) > 0 {
			from = c.uses[0].at
		}
		again := &caller{d: d, rules: c.rules, rows: slices.Clone(c.rows), uses: slices.Clone(c.uses)}
		for _, at := range instants(p, begin, from, length) {
			c.takeMost(p, at, from+length)
		}
		for at := begin; p.Start.FirstUse() && at <= from+length; at += int64(p.Period) {
			again.takeMost(p, at, from+length)
		}
		found = max(found, most(c.uses, length), most(again.uses, length))
	}
	return found
}

// attackByReleasing releases each slot as soon as it is acquired, so that as many start as a caller wants: enough of them to
// exceed any number that is not unbounded. At one instant, all slots that are held count.
func attackByReleasing(d dice, p *runtime.Policy, edge, length int64) int64 {
	c := newCaller(d, p)
	if length == 0 {
		c.takeMost(p, edge, edge)
		return most(c.uses, length)
	}
	for range 100 * p.Slots {
		answer, err := c.do(p, edge, runtime.Request{Count: p.Slots})
		if err != nil || !answer.Allowed {
			return most(c.uses, length)
		}
		c.uses = append(c.uses, use{edge, p.Slots})
		c.do(p, edge, runtime.Request{Op: runtime.Release, Fence: answer.Fence})
	}
	return math.MaxInt64
}

// attackByOpening opens a window at first use with one token, shortly before it ends.
func attackByOpening(d dice, p *runtime.Policy, edge, length int64) int64 {
	period := int64(p.Period)
	opened := edge - period + 1
	whole, tokens, windows := []int64{opened, edge}, int64(0), max(1, ceil(length, period))
	all := (length + period) / period * p.Rate
	for i := range windows { // so that each window starts with whole tokens
		tokens += all / windows
		if i < all%windows {
			tokens++
		}
		whole = append(whole, opened+period/p.Rate*tokens+period%p.Rate*tokens/p.Rate-1)
	}
	even := append([]int64{opened, edge}, equalParts(opened, length+period-1, windows)...)
	return max(most(drainsOf(d, p, whole), length), most(drainsOf(d, p, even), length))
}

// attackByLeasing leases blocks for as long as a lease lasts, and spends all of them at once.
func attackByLeasing(d dice, p *runtime.Policy, edge, length int64) int64 {
	c := newCaller(d, p)
	used, leased := edge+int64(p.Lease.For), int64(0)
	for now := edge; now <= used; {
		d, err := c.do(p, now, runtime.Request{Count: p.Lease.Tokens})
		if err != nil {
			break // the block can never be taken
		}
		if d.Allowed {
			leased += p.Lease.Tokens
		} else {
			now += max(1, int64(d.RetryAfter))
		}
	}
	c.uses = append(c.uses, use{used, leased})
	for _, at := range instants(p, edge, used, length) {
		c.takeMost(p, at, used+length)
	}
	return most(c.uses, length)
}

// instants are the times from one instant to another at which a caller gains the most: when tokens are due, when windows
// end and start, or evenly spread for windows at first use.
func instants(p *runtime.Policy, begin, from, length int64) (list []int64) {
	period := int64(paced(p).Period)
	switch {
	case p.Kind == runtime.InFlight:
		return every(begin, from+length, period)
	case p.Kind == runtime.TokenBucket:
		step := max(1, (p.Capacity+p.MaxReserved)/2) // few enough tokens that none are lost to a full bucket
		for k, at := int64(0), begin; at < from+length; k += step {
			if at = begin + period/p.Rate*k + period%p.Rate*k/p.Rate; at > from && at < from+length {
				list = append(list, at)
			}
		}
		return append(append([]int64{from}, list...), from+length)
	case p.Kind == runtime.FixedWindow && p.Start.FirstUse():
		if !p.Reserves() {
			return append([]int64{begin, from}, equalParts(from, length, max(1, length/period))...)
		}
		n := (length + int64(bounds.LongestDelay(p))) / period
		return append([]int64{begin}, equalParts(begin, from+length-begin, max(1, n))...)
	case p.Kind == runtime.FixedWindow || p.Kind == runtime.SlidingWindow:
		windows := begin - compare.FloorMod(begin-meter.RuleOf(p, keyOfCaller).Phase, period)
		for at := windows; at <= from+length; at += period {
			list = append(list, max(at, begin), at+period-1)
		}
		return append(slices.DeleteFunc(list, func(at int64) bool { return at < begin || at > from+length }), from+length)
	}
	panic(fmt.Sprintf("the adversary has no schedule for the kind %v: add one to instants in gen/review/judge/adversary_test.go", p.Kind))
}

// drainsOf takes one token at the first instant, and then all tokens at the others.
func drainsOf(d dice, p *runtime.Policy, instants []int64) []use {
	c := newCaller(d, p)
	c.take(p, instants[0], 1)
	for _, at := range instants[1:] {
		c.takeMost(p, at, at)
	}
	return c.uses
}

// roam makes random calls.
func roam(d dice, p *runtime.Policy) []use {
	c := newCaller(d, p)
	rule := meter.RuleOf(paced(p), keyOfCaller)
	now := rule.Phase + 3*rule.Period + d.Int64N(rule.Period)
	for range 150 {
		switch d.IntN(5) {
		case 0:
			c.leaseBlock(p, now)
		case 1:
			c.takeMost(p, now, now+d.Int64N(2*int64(bounds.LongestDelay(p))/2+1))
		case 2, 3:
			c.take(p, now, choose(d, 1, max(1, p.Full()), p.Full()+p.MaxReserved, 1+d.Int64N(p.Full()+p.MaxReserved)))
		}
		due := time.Duration(0)
		if p.Full() > 0 {
			d, _ := c.do(p, now, runtime.Request{Op: runtime.Check, Count: 1})
			due = d.RetryAfter
		}
		later := now + d.jump(*p, due)
		if end := rule.WindowEnd(now); d.IntN(4) == 0 && end < math.MaxInt64 {
			later = choose(d, end-1, end)
		}
		c.end(p, now, later, func(b leasedBlock) int64 { return choose(d, now, b.end, now+d.Int64N(max(1, b.end-now+1))) },
			func(b leasedBlock) int64 { return choose(d, 0, b.left, b.left, d.Int64N(b.left+1)) })
		now = later
	}
	return c.uses
}

// use is a number of tokens used at an instant.
type use struct{ at, tokens int64 }

// most returns the most tokens used in an interval of a length, which includes its first and last instant.
func most(uses []use, length int64) (most int64) {
	slices.SortFunc(uses, func(a, b use) int { return cmp.Compare(a.at, b.at) })
	sum, first := int64(0), 0
	for _, u := range uses {
		sum += u.tokens
		for ; u.at-uses[first].at > length; first++ {
			sum -= uses[first].tokens
		}
		most = max(most, sum)
	}
	return most
}

// closed returns the length of an interval with both ends, in which a number of a review holds: the numbers of precise
// limits are those of intervals without the last instant.
func closed(p *runtime.Policy, length int64) int64 {
	if p.Precise && length > 0 {
		return length - 1
	}
	return length
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

// every returns the instants from one to another, a step apart, including the last.
func every(from, to, step int64) (instants []int64) {
	for at := from; at < to; at += step {
		instants = append(instants, at)
	}
	return append(instants, to)
}

// parts returns the ends of n equal parts of an interval.
func equalParts(from, length, n int64) (ends []int64) {
	for i := range n {
		ends = append(ends, from+length/n*(i+1)+length%n*(i+1)/n)
	}
	return ends
}
