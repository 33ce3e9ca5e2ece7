package review

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// exhaustedKey is the subject of the sentences about [Carried].
const exhaustedKey = "an exhausted key (less than one token left, nothing reserved)"

// deployNotes describe what both versions can grant while they run side by side, and how the new version reads rows that
// the old one stored.
func deployNotes(p pair, findings []Finding) (notes []Note) {
	changed := func(id string) bool {
		return slices.ContainsFunc(findings, func(f Finding) bool { return f.ID == id })
	}
	note := func(text string) {
		if text != "" {
			notes = append(notes, Note{Deploy, text})
		}
	}
	if p.old == nil || p.new == nil || p.modesDiffer() || !counts(p.new.Policy.Mode) {
		return nil // see judgeMode
	}
	// Edits of other fields leave the counts in the rows, and how both versions read them, as they are.
	ids := []string{"limit-renamed", "key-changed", "kind-changed", "precise-changed", "rate-changed", "capacity-changed", "shards-changed"}
	if (slices.ContainsFunc(ids, changed) || windowsMove(p)) && p.new.Policy.Mode == runtime.ModeEnforce {
		note(togetherInWords(p))
	}
	if changed("limit-renamed") || len(p.old.Key) != len(p.new.Key) {
		return notes // no row is read again
	}
	reread := []string{"kind-changed", "precise-changed", "rate-changed", "start-changed", "zone-changed"}
	if sentence := rowsReadAs(p); sentence != "" && slices.ContainsFunc(reread, changed) {
		note(sentence)
		note(carriedInWords(Carried(p.old, p.new)))
	}
	old, new := &p.old.Policy, &p.new.Policy
	if changed("capacity-changed") && old.Kind == new.Kind && old.Precise == new.Precise && new.Capacity > 0 {
		note(newCapacityInWords(old, new))
	}
	return notes
}

func carriedInWords(most int64) string {
	if most == 0 {
		return "Right after the deploy, " + exhaustedKey + " still has no token."
	}
	return "Right after the deploy, " + exhaustedKey + " has up to " + words.Count(most, "token") + "."
}

func newCapacityInWords(old, new *runtime.Policy) string {
	was, is := old.Capacity, new.Capacity
	if is > was {
		return "What was used stays used, so every key has " + words.Count(is-was, "token") + " more at once."
	}
	return "What was used stays used, so every key has " + words.Count(was-is, "token") + " fewer at once. A key that has used all of " +
		words.Number(was) + " has none for up to " + Length(emptyAfterEdit(old, new)) + "."
}

// emptyAfterEdit returns how long a key has no token under the new rule if it has used the whole old capacity at the
// instant of the deploy, which is also the start of a window.
func emptyAfterEdit(old, new *runtime.Policy) time.Duration {
	rule := new.Rule("")
	rule.Phase = origin % rule.Period
	return time.Duration(timeUntil(&rule, runtime.State{Value: -float64(old.Capacity), TS: origin, Exists: true}, 1))
}

// togetherInWords says what both versions can grant while they run side by side; it is empty if they grant nothing
// without a reservation.
func togetherInWords(p pair) string {
	const remedy = " To avoid this, stop the old version before the new one starts."
	old, new := &p.old.Policy, &p.new.Policy
	if !countTogether(p.old, p.new) {
		return "While old and new versions run side by side, they misread each other's rows, and a key can use more than both limits allow together." + remedy
	}
	most := Together(p.old, p.new)
	if most == 0 {
		return ""
	}
	text := fmt.Sprintf("While old and new versions run side by side, a key can use up to %s at once without reserving", words.Count(most, "token"))
	rate, known := longRunTogether(p.old, p.new)
	if known {
		text += fmt.Sprintf(", and %s per %s in the long run", words.Number(rate), spec.PeriodOf(new))
	}
	if most > max(old.Capacity, new.Capacity) || known && rate > max(longRunRate(spec.Unreserved(new)), longRunAlone(old, new)) {
		return text + ": more than with either version alone." + remedy
	}
	return text + "."
}

// Together returns the most tokens that calls without reservations can take from one key at one instant while the old
// and the new version both run. They count in the same rows, but by different rules: a row that one version has emptied
// can hold tokens for the other, and with a different number of shards each has rows that the other does not read. If the
// versions do not read each other's rows, it is the sum of both capacities.
func Together(old, new *spec.Limit) int64 {
	if separateRows(old, new) {
		return old.Policy.Capacity + new.Policy.Capacity
	}
	if hasCalendar(&old.Policy) || hasCalendar(&new.Policy) {
		return togetherByCalendar(&old.Policy, &new.Policy)
	}
	most := int64(0)
	for _, v := range sharedViews(old, new) {
		was, is := withWindowAt(&old.Policy, origin), withWindowAt(&new.Policy, origin+v.start)
		for _, rows := range rowsBefore(origin+v.now, was, is) {
			most = max(most, mostInTurns(rows, origin+v.now, 5, was, is), mostInTurns(rows, origin+v.now, 5, is, was))
		}
	}
	return most
}

// rowsBefore returns rows of a key from which two versions may take at the instant now: none, and those of windows at
// first use that are about to end, so that calls also get the tokens of the next one. Either version may have written
// them, because a window starts at the instant in the row.
func rowsBefore(now int64, old, new *runtime.Policy) (all [][]runtime.State) {
	shards := max(1, old.Shards, new.Shards)
	all = append(all, make([]runtime.State, shards))
	for _, windowed := range []*runtime.Policy{old, new} {
		if !windowed.Start.FirstUse() {
			continue
		}
		for _, writer := range []*runtime.Policy{old, new} {
			if writer.Capacity > 0 {
				rows := make([]runtime.State, shards)
				takeFrom(writer, rows, now-int64(windowed.Period)+1, 1)
				all = append(all, rows)
			}
		}
	}
	return all
}

// separateRows reports whether the versions do not read each other's rows, or only those of some keys.
func separateRows(old, new *spec.Limit) bool {
	reordered := !slices.Equal(partNames(old.Key), partNames(new.Key)) && slices.Equal(sortedNames(old.Key), sortedNames(new.Key))
	return old.Policy.Name != new.Policy.Name || reordered || !slices.Equal(partTypes(old.Key), partTypes(new.Key))
}

// countTogether reports whether [Together] has a number. Rows of a sliding window with shards mean something else to
// each version after every call, so the sum cannot be bounded. Nor can it be if only one version keeps a log.
func countTogether(old, new *spec.Limit) bool {
	sliding := traitsOf(&old.Policy).sliding || traitsOf(&new.Policy).sliding
	if old.Policy.Precise != new.Policy.Precise {
		return separateRows(old, new)
	}
	return !sliding || max(old.Policy.Shards, new.Policy.Shards) < 2 || separateRows(old, new)
}

// sharedViews returns the instants, and starts of the new rule's window, at which a row that one version has emptied can
// be worth the most to the other: when the row's own window started long ago, and the other's later or a period later.
func sharedViews(old, new *spec.Limit) (list []view) {
	g := gridOf(old, new)
	last, period := int64(old.Policy.Period)-1, int64(new.Policy.Period)
	for _, v := range []view{
		{0, g.upTo(0)}, {0, g.after(-period)}, {last, g.upTo(last)}, {last, g.after(last - period)},
		{last, g.after(0)}, {last, g.after(period)}, {last, g.upTo(-1)}, {last, g.upTo(-last - 2)},
	} {
		// The new rule's window must have started, and must not be over.
		if v.now = min(v.now, v.start+period-1); 0 <= v.now && v.start <= v.now && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// mostInTurns returns the most tokens that two versions can take from rows at one instant, in alternating turns.
func mostInTurns(rows []runtime.State, now int64, turns int, first, second *runtime.Policy) (most int64) {
	all := tokensLeft(first, rows[:max(1, first.Shards)], now)
	if turns == 0 { // bounds the recursion, which tries several counts in each turn
		return 0
	}
	// What one version takes may count from the start of its window, so that the other has it back at once.
	counts := []int64{all, mostThatLeaves(rows, now, all, first, second)}
	if traitsOf(first).sliding || traitsOf(second).sliding {
		// Even a single token rewrites the row by the version's own rule, which can be worth more than that token to the
		// other version.
		counts = append(counts, 1, all-1)
	}
	for _, count := range counts {
		after := rows
		if count = min(count, all); count > 0 {
			after = slices.Clone(rows)
			takeFrom(first, after, now, count)
		}
		most = max(most, count+mostInTurns(after, now, turns-1, second, first))
	}
	return most
}

// mostThatLeaves returns the largest count, at most all, that the first version can take so that the second has a token.
func mostThatLeaves(rows []runtime.State, now, all int64, first, second *runtime.Policy) int64 {
	leaves := func(count int64) bool {
		after := slices.Clone(rows)
		takeFrom(first, after, now, count)
		return tokensLeft(second, after[:max(1, second.Shards)], now) > 0
	}
	low, high := int64(0), all+1
	for low+1 < high {
		if middle := low + (high-low)/2; leaves(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// takeFrom takes a count that the rows are known to have.
func takeFrom(p *runtime.Policy, rows []runtime.State, now, count int64) {
	if p.Shards > 1 {
		p.StepShards(rows[:p.Shards], "", now, runtime.Request{Count: count}, 0)
		return
	}
	rule := p.Rule("")
	rows[0], _, _ = rule.Step(rows[0], now, runtime.Request{Count: count})
}

// longRunTogether returns how many tokens calls of both versions can take without reservations in a period of the new
// rule, on average over a long time and rounded up. It is unknown if one of the versions has sliding windows and they
// share rows.
func longRunTogether(old, next *spec.Limit) (tokens int64, known bool) {
	was, is := spec.Unreserved(&old.Policy), spec.Unreserved(&next.Policy)
	sum := big.NewRat(0, 1)
	switch {
	case separateRows(old, next):
		// Each version grants all of its rate.
		sum.Add(perPeriod(float64(longRunRate(was)), was, is), perPeriod(float64(longRunRate(is)), is, is))
	case traitsOf(was).sliding || traitsOf(is).sliding:
		return 0, false
	default:
		for i := range max(1, was.Shards, is.Shards) {
			one, other := perPeriod(shardGrant(was, i), was, is), perPeriod(shardGrant(is, i), is, is)
			most := larger(one, other)
			forgotten := perPeriod(forgottenPerWindow(was, is, &old.Policy, i), was, is)
			forgotten.Add(forgotten, perPeriod(forgottenPerWindow(is, was, &next.Policy, i), is, is))
			if windowsCoincide(old, next) {
				// A window grants no more than a key that was full at its start has.
				most = smaller(most.Add(most, forgotten), new(big.Rat).SetFloat64(max(shardCapacity(was, i), shardCapacity(is, i))))
			} else {
				// What one version cannot grant for its capacity, the other may, up to the larger of the rates.
				rate := larger(perPeriod(shardRate(was, i), was, is), perPeriod(shardRate(is, i), is, is))
				most = smaller(one.Add(one, other), rate)
				most.Add(most, forgotten)
			}
			sum.Add(sum, most)
		}
	}
	return roundUp(sum), true
}

// longRunAlone returns how many tokens the old rule grants in a period of the new one, rounded up.
func longRunAlone(old, new *runtime.Policy) int64 {
	return roundUp(perPeriod(float64(longRunRate(spec.Unreserved(old))), old, new))
}

// perPeriod converts tokens per period of one policy into those per period of another.
func perPeriod(tokens float64, of, in *runtime.Policy) *big.Rat {
	rate := new(big.Rat).SetFloat64(tokens)
	return rate.Mul(rate, big.NewRat(int64(in.Period), int64(of.Period)))
}

// forgottenPerWindow returns how many tokens used of the other version a shard forgets at the end of each window: those
// beyond its own capacity and the tokens that can be reserved of it.
func forgottenPerWindow(p, other, reserving *runtime.Policy, i int) float64 {
	if !windowed(p) || reserving.MaxReserved == runtime.Unbounded || i >= max(1, p.Shards) {
		return 0
	}
	return max(0, shardCapacity(other, i)-shardCapacity(p, i)-shardShare(reserving, i, reserving.MaxReserved))
}

func smaller(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return b
	}
	return a
}

func larger(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// windowsCoincide reports whether the windows of both rules always start at the same instants.
func windowsCoincide(old, new *spec.Limit) bool {
	if hasCalendar(&old.Policy) || hasCalendar(&new.Policy) {
		return old.Policy.Calendar == new.Policy.Calendar && !old.Policy.Calendar.PerKey()
	}
	g := gridOf(old, new)
	return old.Policy.Period == new.Policy.Period && g.step == int64(new.Policy.Period) && g.offset == 0
}

// shardGrant returns how many tokens a shard grants in a period in the long run, and shardRate how many accrue in it.
// Both are 0 for a shard that the policy does not have.
func shardGrant(p *runtime.Policy, i int) float64 { return shardShare(p, i, longRunRate(p)) }

func shardRate(p *runtime.Policy, i int) float64 {
	if longRunRate(p) == 0 {
		return 0
	}
	return shardShare(p, i, p.Rate)
}

func shardCapacity(p *runtime.Policy, i int) float64 { return shardShare(p, i, p.Capacity) }

func shardShare(p *runtime.Policy, i int, tokens int64) float64 {
	if n := max(1, p.Shards); i < n {
		// The runtime's own split decides which shards get the remainder.
		whole := p.Rule("")
		whole.Rate = float64(tokens)
		return whole.Shard(i, n).Rate
	}
	return 0
}

func roundUp(r *big.Rat) int64 {
	up := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return up.Div(up, r.Denom()).Int64()
}
