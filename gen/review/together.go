package review

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Together returns the most tokens that plain calls of the old and the new version can take from one key at one
// instant while both run. They count in the same rows, but not by the same rule: a row that one has emptied can
// hold tokens for the other, and with other shards, each has rows that the other does not read. Where the versions
// do not find each other's rows, it is what both have.
func Together(old, new *spec.Limit) int64 {
	if separate(old, new) {
		return old.Policy.Capacity + new.Policy.Capacity
	}
	most := int64(0)
	for _, v := range meetings(old, new) {
		was, is := withWindow(&old.Policy, origin), withWindow(&new.Policy, origin+v.begin)
		for _, opened := range []*runtime.Policy{nil, was, is} {
			if opened == nil || opened.Start.FirstUse() {
				most = max(most, taken(opened, origin+v.now, was, is), taken(opened, origin+v.now, is, was))
			}
		}
	}
	return most
}

// separate reports whether the versions do not find each other's rows, or only those of some keys.
func separate(old, new *spec.Limit) bool {
	moved := !slices.Equal(names(old.Key), names(new.Key)) && slices.Equal(sortedNames(old.Key), sortedNames(new.Key))
	return old.Policy.Name != new.Policy.Name || moved || !slices.Equal(types(old.Key), types(new.Key))
}

// countTogether reports whether [Together] has a number. Rows of sliding windows that are split into shards mean
// something else to each version with every call.
func countTogether(old, new *spec.Limit) bool {
	sliding := old.Policy.Kind == runtime.SlidingWindow || new.Policy.Kind == runtime.SlidingWindow
	return !sliding || max(old.Policy.Shards, new.Policy.Shards) < 2 || separate(old, new)
}

// withWindow returns a policy of whose windows one begins at an instant, if it has windows that are fixed.
func withWindow(p *runtime.Policy, begin int64) *runtime.Policy {
	at := *p
	if at.Kind != runtime.TokenBucket && !at.Start.FirstUse() {
		at.Start = runtime.StartOffset(time.Duration(begin))
	}
	return &at
}

// taken has two versions take in turns, the first one first, until there is nothing. If a policy is given, it has
// opened a window as long before as it lasts, with a single token.
func taken(opened *runtime.Policy, now int64, versions ...*runtime.Policy) int64 {
	rows := make([]runtime.State, max(1, versions[0].Shards, versions[1].Shards))
	if opened != nil && opened.Capacity > 0 {
		drain(opened, rows, now-int64(opened.Period)+1, 1)
	}
	return takenFrom(rows, now, 5, versions[0], versions[1])
}

// takenFrom returns the most tokens that versions take from rows in some turns. One that takes a single token writes the
// row by its rule, which can be worth more to the other than that token: so with sliding windows, single tokens are
// tried too.
func takenFrom(rows []runtime.State, now int64, turns int, first, second *runtime.Policy) (most int64) {
	all := left(first, rows[:max(1, first.Shards)], now)
	if turns == 0 {
		return 0
	}
	counts := []int64{all}
	if first.Kind == runtime.SlidingWindow || second.Kind == runtime.SlidingWindow {
		counts = []int64{all, 1, all - 1}
	}
	for _, count := range counts {
		after := rows
		if count = min(count, all); count > 0 {
			after = slices.Clone(rows)
			drain(first, after, now, count)
		}
		most = max(most, count+takenFrom(after, now, turns-1, second, first))
	}
	return most
}

// drain takes tokens that are there.
func drain(p *runtime.Policy, rows []runtime.State, now, count int64) {
	if p.Shards > 1 {
		p.StepShards(rows[:p.Shards], "", now, runtime.Request{Count: count}, 0)
		return
	}
	rule := p.Rule("")
	rows[0], _, _ = rule.Step(rows[0], now, runtime.Request{Count: count})
}

// meetings returns instants, and beginnings of the new rule's window, at which a row that one version has emptied can
// be worth the most to the other: its own window began long before, and the other's later, or one period later.
func meetings(old, new *spec.Limit) (list []view) {
	g := gridOf(old, new)
	last, period := int64(old.Policy.Period)-1, int64(new.Policy.Period)
	for _, v := range []view{
		{0, g.upTo(0)}, {0, g.after(-period)}, {last, g.upTo(last)}, {last, g.after(last - period)},
		{last, g.after(0)}, {last, g.after(period)}, {last, g.upTo(-1)}, {last, g.upTo(-last - 2)},
	} {
		if v.now = min(v.now, v.begin+period-1); 0 <= v.now && v.begin <= v.now && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// lasting returns how many tokens plain calls of both versions can take in a period of the new one in the long run,
// rounded up; false where no number is known, which is if one of them has sliding windows.
func lasting(old, new *spec.Limit) (tokens int64, ok bool) {
	was, is := spec.Unreserved(&old.Policy), spec.Unreserved(&new.Policy)
	sum := big.NewRat(0, 1)
	switch {
	case separate(old, new):
		sum.Add(perPeriod(float64(grant(was)), was, is), perPeriod(float64(grant(is)), is, is))
	case was.Kind == runtime.SlidingWindow || is.Kind == runtime.SlidingWindow:
		return 0, false
	default:
		for i := range max(1, was.Shards, is.Shards) {
			one, other := perPeriod(shardGrant(was, i), was, is), perPeriod(shardGrant(is, i), is, is)
			most := larger(one, other)
			if !sameWindowsAs(old, new) { // what one lost for its capacity, the other may find
				rate := larger(perPeriod(shardRate(was, i), was, is), perPeriod(shardRate(is, i), is, is))
				if most = one.Add(one, other); most.Cmp(rate) > 0 {
					most = rate
				}
			}
			sum.Add(sum, most)
		}
	}
	return roundUp(sum), true
}

// perPeriod returns tokens per period of one policy in those of another.
func perPeriod(tokens float64, of, in *runtime.Policy) *big.Rat {
	rate := new(big.Rat).SetFloat64(tokens)
	return rate.Mul(rate, big.NewRat(int64(in.Period), int64(of.Period)))
}

func larger(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// sameWindowsAs reports whether the windows of two rules begin at the same instants.
func sameWindowsAs(old, new *spec.Limit) bool {
	g := gridOf(old, new)
	return old.Policy.Period == new.Policy.Period && g.step == int64(new.Policy.Period) && g.offset == 0
}

// shardGrant is how many tokens a shard grants in a period in the long run, and shardRate how many accrue; 0 for one
// that there is not.
func shardGrant(p *runtime.Policy, i int) float64 { return shareOf(p, i, grant(p)) }

func shardRate(p *runtime.Policy, i int) float64 {
	if grant(p) == 0 {
		return 0
	}
	return shareOf(p, i, p.Rate)
}

func shareOf(p *runtime.Policy, i int, tokens int64) float64 {
	if n := max(1, p.Shards); i < n {
		whole := p.Rule("")
		whole.Rate = float64(tokens)
		return whole.Shard(i, n).Rate
	}
	return 0
}

// togetherInWords says what both versions grant while they run side by side.
func togetherInWords(p pair) string {
	old, new := &p.old.Policy, &p.new.Policy
	if !countTogether(p.old, p.new) {
		return "While old and new versions run side by side, they do not count together and can take more than both limits allow. To avoid it, stop the old version before the new one starts."
	}
	once, one := Together(p.old, p.new), max(old.Capacity, new.Capacity)
	if once == 0 {
		return ""
	}
	text := fmt.Sprintf("While old and new versions run side by side, calls that do not reserve can take up to %s at once", spec.Grouped(once))
	rate, known := lasting(p.old, p.new)
	if known {
		text += fmt.Sprintf(", and %s per %s in the long run", spec.Grouped(rate), spec.PeriodInWords(new.Period))
	}
	if once > one || known && rate > max(grant(spec.Unreserved(new)), alone(old, new)) {
		text += ": more than either version alone. To avoid it, stop the old version before the new one starts"
	}
	return text + "."
}

// alone returns how many tokens the old rule grants in a period of the new one, rounded up.
func alone(old, new *runtime.Policy) int64 {
	return roundUp(perPeriod(float64(grant(spec.Unreserved(old))), old, new))
}

func roundUp(r *big.Rat) int64 {
	up := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return up.Div(up, r.Denom()).Int64()
}
