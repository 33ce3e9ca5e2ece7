package review

import (
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Carried returns the most tokens that a key can have under the new rule at the instant of the deploy, if it had
// less than one left under the old rule and no reservation of it was still waiting. It is the largest answer of
// the new rule's step over the states that the old rule can leave.
func Carried(old, new *spec.Limit) int64 {
	if old.Policy.Capacity < 1 { // it never has a token, so a key that was not used for long counts too
		return new.Policy.Capacity
	}
	before := old.Policy.Rule("")
	grid := gridOf(old, new)
	most := int64(0)
	for _, m := range emptied(&before, new.Policy.Period, grid) {
		for _, at := range grid.views(&new.Policy, m) {
			most = max(most, at.remaining(&old.Policy, &new.Policy, m.state))
		}
	}
	return most
}

// grid says where windows of the new rule can begin: at offset and every step before and after it, counted from
// the beginning of any window of the old rule.
type grid struct{ offset, step int64 }

// gridOf compares the beginnings of windows. Those of a key's own are derived from one hash, so that they are
// as far apart as a common divisor of the periods allows.
func gridOf(old, new *spec.Limit) grid {
	was, is := old.Policy.Rule(""), new.Policy.Rule("")
	_, aligned := old.Policy.Start.Offset()
	_, alignedToo := new.Policy.Start.Offset()
	step := gcd(was.Period, is.Period)
	switch {
	case was.Kind == runtime.TokenBucket || is.Kind == runtime.TokenBucket || was.FirstUse || is.FirstUse:
		return grid{0, 1}
	case len(old.Key) == 0 || aligned && alignedToo:
		return grid{floorMod(is.Phase-was.Phase, step), step}
	case !aligned && !alignedToo && old.Policy.Name == new.Policy.Name:
		return grid{0, step}
	}
	return grid{0, 1}
}

// upTo returns the last beginning of a window at or before a time.
func (g grid) upTo(at int64) int64 { return at - floorMod(at-g.offset, g.step) }

// after returns the first beginning of a window after a time.
func (g grid) after(at int64) int64 { return g.upTo(at) + g.step }

// origin is when the window of the old rule begins from which times are counted. It is far from 0 and divisible by
// nothing in particular.
const origin int64 = 1 << 60

// moment is a state that was stored in the window that begins at origin, and the first and the last time at which a
// key in it has less than one token and owes none.
type moment struct {
	state       runtime.State
	first, last int64
}

// emptied returns the states of a rule that can leave the most under another rule, of a period and a grid. What the
// states between them leave is less.
func emptied(rule *runtime.Rule, period time.Duration, g grid) (moments []moment) {
	keep := func(value, prev float64) {
		if m, ok := momentOf(rule, value, prev); ok {
			moments = append(moments, m)
		}
	}
	switch {
	case rule.Kind == runtime.SlidingWindow:
		keep(0, 0)
		for _, used := range usedInWindow(rule, int64(period), g) {
			keep(rule.Rate-used, rule.Rate)
		}
	case rule.Kind == runtime.FixedWindow && !rule.FirstUse:
		for _, windows := range debts(int64(rule.Debt/rule.Rate), int64(period)/rule.Period) {
			keep(-float64(windows)*rule.Rate, 0)
		}
	default:
		for _, debt := range debts(int64(rule.Debt), int64(rule.Rate)) {
			keep(-float64(debt), 0)
		}
		if rule.FirstUse && rule.Capacity+rule.Debt > rule.Rate {
			keep(almostOne(rule), 0)
		}
	}
	return moments
}

// debts returns 0, the powers of two below most, most, and the numbers around another.
func debts(most, around int64) []int64 {
	list := []int64{0, most}
	for n := int64(1); n < most; n *= 2 {
		list = append(list, n)
	}
	for n := around - 2; n <= around+2; n++ {
		if 0 < n && n < most {
			list = append(list, n)
		}
	}
	return list
}

// usedInWindow returns how many tokens can have been used in a window, the one before having used all: the fewest and
// the most, and as few as last until a window of the other rule begins or ends.
func usedInWindow(rule *runtime.Rule, period int64, g grid) (list []float64) {
	last := rule.Period + rule.Period/int64(rule.Rate)
	times := []int64{0, period - 1, period, g.after(0) + period - 1}
	for i := range int64(32) {
		times = append(times, g.after(0)+i*g.step, g.upTo(last)-i*g.step)
	}
	times = append(times, last)
	for _, at := range times {
		least := math.Floor(float64(at)*rule.Rate/float64(rule.Period)) - 1
		for used := least - 1; used <= least+1; used++ {
			if 1 <= used && used < rule.Rate {
				list = append(list, used)
			}
		}
	}
	return append(list, 1)
}

// almostOne returns the largest part of a token that is left when a window at first use begins.
func almostOne(rule *runtime.Rule) float64 {
	bucket := *rule
	bucket.Kind, bucket.FirstUse, bucket.Capacity = runtime.TokenBucket, false, 1
	empty := runtime.State{TS: origin, Exists: true}
	last := lastEmpty(&bucket, empty, 0)
	_, d, _ := bucket.Step(empty, origin+last, runtime.Request{Op: runtime.Peek})
	return d.Value
}

// momentOf returns the moment of a state; false if it has a token as soon as it owes none, or only in an age.
func momentOf(rule *runtime.Rule, value, prev float64) (moment, bool) {
	at := *rule
	at.Phase = origin % at.Period
	m := moment{state: runtime.State{Value: value, TS: origin, Prev: prev, Exists: true}}
	paid := m.state
	if paid.Value++; value < 0 {
		m.first = until(&at, paid, 1)
	} else if prev > 0 { // when what was used in this window could be taken beside that of the one before
		m.first = until(&at, runtime.State{Value: rule.Rate, TS: origin, Prev: prev, Exists: true}, int64(rule.Rate-value))
	}
	m.last = lastEmpty(&at, m.state, m.first)
	return m, m.first <= m.last && m.last < math.MaxInt64/8
}

// lastEmpty returns the last time at which a state has less than one token; before first if it has one then.
func lastEmpty(rule *runtime.Rule, s runtime.State, first int64) int64 {
	empty := func(at int64) bool {
		_, d, err := rule.Step(s, origin+at, runtime.Request{Op: runtime.Peek})
		return err == nil && d.Remaining == 0
	}
	last := until(rule, s, 1) - 1
	if last >= math.MaxInt64/8 || last < first || empty(last) {
		return last
	}
	low := first - 1 // the allowance of the runtime makes a token whole a little before it is
	for low+1 < last {
		if middle := low + (last-low)/2; empty(middle) {
			low = middle
		} else {
			last = middle
		}
	}
	return low
}

// until returns how long it takes from origin until a state has a count of tokens.
func until(rule *runtime.Rule, s runtime.State, count int64) int64 {
	_, d, err := rule.Step(s, origin, runtime.Request{Op: runtime.Check, Count: count})
	if err != nil {
		panic("review: a count that fits is refused: " + err.Error())
	}
	return int64(d.RetryAfter)
}

// view is a time at which a state is looked at, and the beginning of a window of the new rule.
type view struct{ now, begin int64 }

// views returns the times at which a state can be worth the most under the new rule. A fixed window grants what
// accrued until it began. In a sliding window, what was used counts in the window in which it was taken, in the one
// after it, or no more.
func (g grid) views(p *runtime.Policy, m moment) (list []view) {
	period := int64(p.Period)
	switch {
	case p.Kind == runtime.TokenBucket || p.Start.FirstUse():
		return []view{{m.last, 0}}
	case p.Kind == runtime.FixedWindow:
		return []view{{m.last, g.upTo(m.last)}}
	}
	for _, begin := range []int64{g.upTo(0), g.after(0), g.after(period)} {
		if now := min(m.last, begin+period-1); m.first <= now && begin <= now {
			list = append(list, view{now, begin})
		}
	}
	return list
}

// remaining returns the tokens that a state of the old rule has under the new one.
func (v view) remaining(old, new *runtime.Policy, s runtime.State) int64 {
	rule := *new
	if rule.Kind != runtime.TokenBucket && !rule.Start.FirstUse() {
		rule.Start = runtime.StartOffset(time.Duration(origin + v.begin))
	}
	return left(&rule, split(old, s, max(1, rule.Shards)), origin+v.now)
}

// split spreads a state over the shards of a policy, and returns the rows that a policy of so many shards reads.
func split(p *runtime.Policy, s runtime.State, read int) []runtime.State {
	rows := make([]runtime.State, read)
	n := max(1, p.Shards)
	whole := p.Rule("")
	for i := range min(n, read) {
		rows[i] = s
		if n > 1 {
			used := whole
			used.Rate, used.Capacity, used.Debt = math.Max(0, whole.Rate-s.Value), math.Abs(s.Value), s.Prev
			part := used.Shard(i, n)
			rows[i].Value, rows[i].Prev = math.Copysign(part.Capacity, s.Value), part.Debt
			if p.Kind == runtime.SlidingWindow {
				rows[i].Value = whole.Shard(i, n).Rate - part.Rate
			}
		}
	}
	return rows
}

// left returns what the rows of a key hold under a policy.
func left(p *runtime.Policy, rows []runtime.State, now int64) int64 {
	peek := runtime.Request{Op: runtime.Peek}
	if len(rows) > 1 {
		d, err := p.StepShards(rows, "", now, peek, 0)
		if err != nil {
			panic("review: a key cannot be looked at: " + err.Error())
		}
		return d.Remaining
	}
	rule := p.Rule("")
	_, d, err := rule.Step(rows[0], now, peek)
	if err != nil {
		panic("review: a key cannot be looked at: " + err.Error())
	}
	return d.Remaining
}

// floorMod returns a modulo m, at least 0.
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
