package judge

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// deployNotes describe what both versions can grant while they run side by side, and how the new version reads rows that
// the old one stored.
func deployNotes(p compare.Pair, changes []diff.Change) (notes []review.Note) {
	note := func(text string) {
		if text != "" {
			notes = append(notes, review.Note{About: review.Deploy, Text: text})
		}
	}
	if p.Old == nil || p.New == nil || p.ModesDiffer() || !modeOf(p.New).counts {
		return nil // see judgeMode
	}
	// judgeCount has a note of its own on counts.
	counts := p.Either((*spec.Limit).CountsOnly)
	ownNote := counts && p.Old.Policy.Kind == p.New.Policy.Kind && !compare.WindowsMove(p)
	reread := hasKind(changes, ids.KindChanged, ids.PreciseChanged, ids.RateChanged)
	renamed, capacityChanged := hasKind(changes, ids.LimitRenamed), hasKind(changes, ids.CapacityChanged)
	// Edits of other fields leave the counts in the rows, and how both versions read them, as they are.
	if p.New.Policy.Mode == runtime.ModeEnforce && !counts &&
		(renamed || reread || capacityChanged || hasKind(changes, ids.KeyChanged, ids.ShardsChanged) || compare.WindowsMove(p)) {
		note(togetherInWords(p))
	}
	if renamed || len(p.Old.Key) != len(p.New.Key) {
		return notes // no row is read again
	}
	if sentence := compare.RowsReadAs(p); sentence != "" && !ownNote && (reread || hasKind(changes, ids.StartChanged, ids.ZoneChanged)) {
		note(sentence)
		// With smaller numbers of its caller, a key is exhausted earlier.
		if len(p.Old.CallerNumbers()) == 0 && !counts {
			note(carriedInWords(&p.New.Policy, compare.Carried(p.Old, p.New)))
		}
	}
	old, new := &p.Old.Policy, &p.New.Policy
	switch {
	case !capacityChanged:
	case compare.InFlightChanged(p): // see RowsReadAs
	case len(p.Old.CallerNumbers())+len(p.New.CallerNumbers()) > 0 && compare.InFlight(new):
		note("Slots that are held stay held: a key has the slots that a call gives, less those that are held.")
	case len(p.Old.CallerNumbers())+len(p.New.CallerNumbers()) > 0:
		note("Used tokens stay used: a key has the capacity that a call gives, less the tokens that it lacks.")
	case old.Kind == new.Kind && old.Precise == new.Precise && new.Full() > 0:
		note(newCapacityInWords(old, new))
		notes[len(notes)-1].Lead = new.Full() < old.Full()
	}
	return notes
}

func carriedInWords(new *runtime.Policy, most int64) string {
	if compare.InFlight(new) {
		return "" // all slots are free
	}
	if most == 0 {
		return "Right after the deploy, " + exhaustedKey + " still has no token."
	}
	return "Right after the deploy, " + exhaustedKey + " has up to " + words.Count(most, "token") + "."
}

func newCapacityInWords(old, new *runtime.Policy) string {
	was, is := old.Full(), new.Full()
	switch {
	case compare.InFlight(new) && is > was:
		return "Slots that are held stay held, so every key has " + words.Count(is-was, "slot") + " more at once."
	case compare.InFlight(new):
		return fmt.Sprintf("What runs goes on: a key with %s or more in use keeps them, and acquires none until fewer than %s are in use.",
			words.Count(is, "slot"), words.Number(is))
	case is > was:
		return "Used tokens stay used, so every key has " + words.Count(is-was, "token") + " more at once."
	}
	return "Used tokens stay used, so every key has " + words.Count(was-is, "token") +
		" fewer at once. A key that has used all of " +
		words.Number(was) + " has none for up to " + words.Length(bounds.EmptyFor(new, was)) + "."
}

// togetherInWords says what both versions can grant while they run side by side; it is empty if they grant nothing
// without a reservation.
func togetherInWords(p compare.Pair) string {
	const remedy = " To avoid this, stop the old version before the new one starts."
	old, new := &p.Old.Policy, &p.New.Policy
	most, bounded := Together(p.Old, p.New)
	switch {
	case old.Full()+new.Full() == 0:
		return ""
	case !bounded:
		return "While old and new versions run side by side, each counts what the other has granted in its own way, so a key may get more than with either version alone." + remedy
	}
	if compare.InFlight(old) {
		text := fmt.Sprintf("While old and new versions run side by side, a key can have up to %s in use",
			words.Count(most, "slot"))
		if most > max(old.Slots, new.Slots) {
			return text + ": more than with either version alone." + remedy
		}
		return text + "."
	}
	text := fmt.Sprintf("While old and new versions run side by side, a key can use up to %s at once without reserving",
		words.Count(most, "token"))
	rate, known := longRunTogether(p.Old, p.New)
	if known {
		text += fmt.Sprintf(", and %s per %s in the long run", words.Number(rate), fields.PeriodOf(new))
	}
	if most > max(old.Capacity, new.Capacity) || known && rate > max(compare.LongRunRate(bounds.Unreserved(new)),
		longRunAlone(old, new)) {
		return text + ": more than with either version alone." + remedy
	}
	return text + "."
}

// Together returns the most tokens that calls without reservations can take from one key at one instant while the old
// and the new version both run. If they count in the same rows, that is the larger capacity of each row: with a different
// number of shards, each version has rows that the other does not read. Otherwise it is the sum of both capacities. It is
// not bounded if they count in the same rows, but by different windows: then one of them may forget what the other counts.
func Together(old, new *spec.Limit) (tokens int64, bounded bool) {
	switch {
	case compare.InFlightChanged(compare.Pair{Old: old, New: new}):
		return 0, false
	case separateRows(old, new):
		return old.Policy.Full() + new.Policy.Full(), true
	case !windowsCoincide(old, new):
		return 0, false
	}
	for i := range max(1, old.Policy.Shards, new.Policy.Shards) {
		tokens += int64(max(shardCapacity(&old.Policy, i), shardCapacity(&new.Policy, i)))
	}
	return tokens, true
}

// separateRows reports whether the versions do not read each other's rows, or only those of some keys.
func separateRows(old, new *spec.Limit) bool {
	reordered := !slices.Equal(spec.PartNames(old.Key), spec.PartNames(new.Key)) &&
		slices.Equal(compare.SortedNames(old.Key), compare.SortedNames(new.Key))
	return old.Policy.Name != new.Policy.Name || reordered ||
		!slices.Equal(compare.PartTypes(old.Key), compare.PartTypes(new.Key))
}

// windowsCoincide reports whether both rules always have the same window, or neither has windows.
func windowsCoincide(old, new *spec.Limit) bool {
	was, is := &old.Policy, &new.Policy
	switch {
	case was.Kind != is.Kind || was.Precise != is.Precise:
		return false
	case was.Precise, was.Start.FirstUse() && is.Start.FirstUse():
		return was.Period == is.Period
	case compare.HasCalendar(was) || compare.HasCalendar(is):
		return was.Calendar == is.Calendar
	case !compare.Windowed(was):
		return true
	}
	g := compare.GridOf(old, new)
	return was.Period == is.Period && g.Step == int64(is.Period) && g.Offset == 0
}

// longRunTogether returns how many tokens calls of both versions can take without reservations in a period of the new
// rule, on average over a long time and rounded up. It is unknown if one of the versions has sliding windows and they
// share rows.
func longRunTogether(old, next *spec.Limit) (tokens int64, known bool) {
	was, is := bounds.Unreserved(&old.Policy), bounds.Unreserved(&next.Policy)
	sum := big.NewRat(0, 1)
	switch {
	case separateRows(old, next):
		// Each version grants all of its rate.
		sum.Add(perPeriod(float64(compare.LongRunRate(was)), was, is), perPeriod(float64(compare.LongRunRate(is)), is, is))
	case compare.Sliding(was) || compare.Sliding(is):
		return 0, false
	default:
		for i := range max(1, was.Shards, is.Shards) {
			one, other := perPeriod(shardGrant(was, i), was, is), perPeriod(shardGrant(is, i), is, is)
			most := larger(one, other)
			forgotten := perPeriod(forgottenPerWindow(was, is, &old.Policy, i), was, is)
			forgotten.Add(forgotten, perPeriod(forgottenPerWindow(is, was, &next.Policy, i), is, is))
			if compare.Windowed(was) && windowsCoincide(old, next) {
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
	return roundUp(perPeriod(float64(compare.LongRunRate(bounds.Unreserved(old))), old, new))
}

// perPeriod converts tokens per period of one policy into those per period of another.
func perPeriod(tokens float64, of, in *runtime.Policy) *big.Rat {
	rate := new(big.Rat).SetFloat64(tokens)
	return rate.Mul(rate, big.NewRat(int64(in.Period), int64(of.Period)))
}

// forgottenPerWindow returns how many tokens used of the other version a shard forgets at the end of each window: those
// beyond its own capacity and the tokens that can be reserved of it.
func forgottenPerWindow(p, other, reserving *runtime.Policy, i int) float64 {
	if !compare.Windowed(p) || reserving.MaxReserved == runtime.Unbounded || i >= max(1, p.Shards) {
		return 0
	}
	return max(0, shardCapacity(other, i)-shardCapacity(p, i)-shardShare(reserving, i, reserving.MaxReserved))
}

func smaller(a, b *big.Rat) *big.Rat { return slices.MinFunc([]*big.Rat{a, b}, (*big.Rat).Cmp) }

func larger(a, b *big.Rat) *big.Rat { return slices.MaxFunc([]*big.Rat{a, b}, (*big.Rat).Cmp) }

// shardGrant returns how many tokens a shard grants in a period in the long run, and shardRate how many accrue in it.
// Both are 0 for a shard that the policy does not have.
func shardGrant(p *runtime.Policy, i int) float64 { return shardShare(p, i, compare.LongRunRate(p)) }

func shardRate(p *runtime.Policy, i int) float64 {
	if compare.LongRunRate(p) == 0 {
		return 0
	}
	return shardShare(p, i, p.Rate)
}

func shardCapacity(p *runtime.Policy, i int) float64 { return shardShare(p, i, p.Full()) }

func shardShare(p *runtime.Policy, i int, tokens int64) float64 {
	if n := max(1, p.Shards); i < n {
		// The runtime's own split decides which shards get the remainder.
		whole := meter.RuleOf(p, "")
		whole.Rate = float64(tokens)
		return whole.Shard(i, n).Rate
	}
	return 0
}

func roundUp(r *big.Rat) int64 {
	up := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return up.Div(up, r.Denom()).Int64()
}
