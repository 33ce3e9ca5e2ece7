package review

import (
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Carried returns the most tokens that an exhausted key can have under the new rule at the instant of the deploy. A key
// is exhausted if it has less than one token left under the old rule, and no reservation of it is outstanding. The number
// is the largest result of the new rule's step over the rows that the old rule can leave.
func Carried(old, new *spec.Limit) int64 {
	if old.Policy.Capacity < 1 {
		// Such a key never has a token, so one that was not used for long is exhausted too.
		return new.Policy.Capacity
	}
	if hasCalendar(&old.Policy) || hasCalendar(&new.Policy) {
		return carriedByCalendar(&old.Policy, &new.Policy)
	}
	before := old.Policy.Rule("")
	grid := gridOf(old, new)
	most := int64(0)
	for _, r := range traitsOf(&old.Policy).exhausted(&before, int64(new.Policy.Period), grid) {
		m, ok := momentOf(&before, r)
		if !ok {
			continue
		}
		for _, at := range traitsOf(&new.Policy).views(grid, &new.Policy, m) {
			rule := withWindowAt(&new.Policy, origin+at.start)
			most = max(most, tokensLeft(rule, split(&old.Policy, m.state, max(1, rule.Shards)), origin+at.now))
		}
	}
	return most
}

// origin is the start of a window of the old rule. Other times are counted from it. It is far from 0, so that times
// before it are valid too.
const origin int64 = 1 << 60

// grid is the set of times at which windows of the new rule can start: offset plus any multiple of step, counted from
// the start of any window of the old rule.
type grid struct{ offset, step int64 }

// gridOf compares when windows start. Windows with an offset derived from the key use the same hash for all periods, so
// their starts differ by multiples of a common divisor of the periods.
func gridOf(old, new *spec.Limit) grid {
	was, is := old.Policy.Rule(""), new.Policy.Rule("")
	_, wasAligned := old.Policy.Start.Offset()
	_, isAligned := new.Policy.Start.Offset()
	step := gcd(was.Period, is.Period)
	switch {
	case !windowed(&old.Policy) || !windowed(&new.Policy) || was.FirstUse || is.FirstUse:
		return grid{0, 1}
	case len(old.Key) == 0 || wasAligned && isAligned:
		// Both starts are the same for all keys, so they can be compared exactly.
		return grid{floorMod(is.Phase-was.Phase, step), step}
	case !wasAligned && !isAligned && old.Policy.Name == new.Policy.Name:
		return grid{0, step}
	}
	// The offsets have nothing in common: for some key, windows start at any time.
	return grid{0, 1}
}

// upTo returns the last start of a window at or before a time.
func (g grid) upTo(at int64) int64 { return at - floorMod(at-g.offset, g.step) }

// after returns the first start of a window after a time.
func (g grid) after(at int64) int64 { return g.upTo(at) + g.step }

// moment is a state stored in the window that starts at [origin], and the first and last time, counted from origin, at
// which its key is exhausted.
type moment struct {
	state       runtime.State
	first, last int64
}

// momentOf returns false if the key has a token as soon as nothing is reserved ahead, or stays exhausted for ages.
func momentOf(rule *runtime.Rule, r row) (moment, bool) {
	at := *rule
	// Where windows start depends on the key. The phase makes one start at origin.
	at.Phase = origin % at.Period
	m := moment{state: runtime.State{Value: r.tokens - rule.Capacity, TS: origin, Prev: r.prev, Exists: true}}
	paid := m.state
	if paid.Value++; r.tokens < 0 {
		m.first = timeUntil(&at, paid, 1)
	} else if r.prev > 0 {
		// The tokens used in this window could only be taken when the previous window had faded enough.
		m.first = timeUntil(&at, runtime.State{TS: origin, Prev: r.prev, Exists: true}, int64(rule.Rate-r.tokens))
	}
	m.last = lastEmpty(&at, m.state, m.first)
	// Later times could overflow when periods are added to them.
	return m, m.first <= m.last && m.last < math.MaxInt64/8
}

// lastEmpty returns the last time at which a state has less than one token; it is before first if it has one then.
func lastEmpty(rule *runtime.Rule, s runtime.State, first int64) int64 {
	empty := func(at int64) bool {
		_, d, err := rule.Step(s, origin+at, runtime.Request{Op: runtime.Peek})
		return err == nil && d.Remaining == 0
	}
	last := timeUntil(rule, s, 1) - 1
	if last >= math.MaxInt64/8 || last < first || empty(last) {
		return last
	}
	// The runtime rounds a token that is almost whole up, a little before it is due.
	low := first - 1
	for low+1 < last {
		if middle := low + (last-low)/2; empty(middle) {
			low = middle
		} else {
			last = middle
		}
	}
	return low
}

// timeUntil returns how long after origin a state has a count of tokens.
func timeUntil(rule *runtime.Rule, s runtime.State, count int64) int64 {
	_, d, err := rule.Step(s, origin, runtime.Request{Op: runtime.Check, Count: count})
	if err != nil {
		panic("review: a check of a count within the capacity failed: " + err.Error())
	}
	return int64(d.RetryAfter)
}

// withWindowAt returns a policy with a window that starts at an instant, unless it has no windows or they start at the
// first use.
func withWindowAt(p *runtime.Policy, start int64) *runtime.Policy {
	at := *p
	if windowed(p) && !at.Start.FirstUse() {
		at.Start = runtime.StartOffset(time.Duration(start))
	}
	return &at
}

// split spreads a state over the shards of a policy, and returns the first n rows. Rows of shards that the policy does
// not have do not exist.
func split(p *runtime.Policy, s runtime.State, n int) []runtime.State {
	rows := make([]runtime.State, n)
	shards := max(1, p.Shards)
	whole := p.Rule("")
	for i := range min(shards, n) {
		rows[i] = s
		if shards > 1 {
			// The runtime splits only rules, so the amounts of the state pass through one.
			used, tokens := whole, whole.Capacity+s.Value
			used.Rate, used.Capacity, used.Debt = -s.Value, math.Abs(tokens), s.Prev
			part := used.Shard(i, shards)
			rows[i].Value, rows[i].Prev = math.Copysign(part.Capacity, tokens)-whole.Shard(i, shards).Capacity, part.Debt
			if traitsOf(p).sliding {
				rows[i].Value = -part.Rate
			}
		}
	}
	return rows
}

// tokensLeft returns how many tokens the rows of a key have under a policy.
func tokensLeft(p *runtime.Policy, rows []runtime.State, now int64) int64 {
	peek := runtime.Request{Op: runtime.Peek}
	if len(rows) > 1 {
		d, err := p.StepShards(rows, "", now, peek, 0)
		if err != nil {
			panic("review: a peek at the rows of a key failed: " + err.Error())
		}
		return d.Remaining
	}
	rule := p.Rule("")
	_, d, err := rule.Step(rows[0], now, peek)
	if err != nil {
		panic("review: a peek at the row of a key failed: " + err.Error())
	}
	return d.Remaining
}

// floorMod returns a modulo m, which is never negative.
func floorMod(a, m int64) int64 {
	if r := a % m; r < 0 {
		return r + m
	} else {
		return r
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
