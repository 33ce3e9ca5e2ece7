package compare

import (
	"math"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// Carried returns the most tokens that an exhausted key can have under the new rule at the instant of the deploy. A key
// is exhausted if it has less than one token left under the old rule, and no reservation of it is outstanding. The number
// is the largest result of the new rule's step over the rows that the old rule can leave.
func Carried(old, new *spec.Limit) int64 {
	if old.Policy.Full() < 1 {
		// Such a key never has a token, so one that was not used for long is exhausted too.
		return new.Policy.Full()
	}
	if HasCalendar(&old.Policy) || HasCalendar(&new.Policy) {
		return carriedByCalendar(&old.Policy, &new.Policy)
	}
	before := meter.RuleOf(&old.Policy, "")
	grid := GridOf(old, new)
	most := int64(0)
	for _, r := range TraitsOf(&old.Policy).Exhausted(&before, int64(new.Policy.Period), grid) {
		m, ok := momentOf(&before, r)
		if !ok {
			continue
		}
		for _, at := range TraitsOf(&new.Policy).Views(grid, &new.Policy, m) {
			rule := WithWindowAt(&new.Policy, Origin+at.start)
			most = max(most, TokensLeft(rule, split(&old.Policy, m.state, max(1, rule.Shards)), Origin+at.now))
		}
	}
	return most
}

// GridOf compares when windows start. Windows with an offset derived from the key use the same hash for all periods, so
// their starts differ by multiples of a common divisor of the periods.
func GridOf(old, new *spec.Limit) Grid {
	was, is := meter.RuleOf(&old.Policy, ""), meter.RuleOf(&new.Policy, "")
	_, wasAligned := old.Policy.Start.Offset()
	_, isAligned := new.Policy.Start.Offset()
	step := gcd(was.Period, is.Period)
	switch {
	case !Windowed(&old.Policy) || !Windowed(&new.Policy) || was.FirstUse || is.FirstUse:
		return Grid{0, 1}
	case len(old.Key) == 0 || wasAligned && isAligned:
		// Both starts are the same for all keys, so they can be compared exactly.
		return Grid{FloorMod(is.Phase-was.Phase, step), step}
	case !wasAligned && !isAligned && old.Policy.Name == new.Policy.Name:
		return Grid{0, step}
	}
	// The offsets have nothing in common: for some key, windows start at any time.
	return Grid{0, 1}
}

// WithWindowAt returns a policy with a window that starts at an instant, unless it has no windows or they start at the
// first use.
func WithWindowAt(p *runtime.Policy, start int64) *runtime.Policy {
	at := *p
	if Windowed(p) && !at.Start.FirstUse() {
		at.Start = runtime.StartOffset(time.Duration(start))
	}
	return &at
}

// split spreads a state over the shards of a policy, and returns the first n rows. Rows of shards that the policy does
// not have do not exist.
func split(p *runtime.Policy, s runtime.State, n int) []runtime.State {
	rows := make([]runtime.State, n)
	shards := max(1, p.Shards)
	whole := meter.RuleOf(p, "")
	for i := range min(shards, n) {
		rows[i] = s
		if shards > 1 {
			// The runtime splits only rules, so the amounts of the state pass through one.
			used, tokens := whole, whole.Capacity+s.Value
			used.Rate, used.Capacity, used.Debt = -s.Value, math.Abs(tokens), s.Prev
			part := used.Shard(i, shards)
			rows[i].Value, rows[i].Prev = math.Copysign(part.Capacity, tokens)-whole.Shard(i, shards).Capacity, part.Debt
			if Sliding(p) {
				rows[i].Value = -part.Rate
			}
		}
	}
	return rows
}

// TokensLeft returns how many tokens the rows of a key have under a policy.
func TokensLeft(p *runtime.Policy, rows []runtime.State, now int64) int64 {
	peek := runtime.Request{Op: runtime.Peek}
	if len(rows) > 1 {
		d, err := meter.StepShards(p, rows, "", now, peek, 0)
		if err != nil {
			panic("review: a peek at the rows of a key failed: " + err.Error())
		}
		return d.Remaining
	}
	rule := meter.RuleOf(p, "")
	_, d := bounds.MustStep(&rule, rows[0], now, peek)
	return d.Remaining
}

// Windows of a calendar differ in length, so that the formulas for windows of one length do not apply to an edit from or
// to a calendar. The numbers about stored rows are those of a replay instead: of rows that the old rule leaves, read by
// the new one, around the starts of the windows of some years.

// calendarInstants returns the starts of the windows of both rules around which rows are replayed: those of at most three
// years, and at most 200.
func calendarInstants(policies ...*runtime.Policy) (starts []int64) {
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for _, p := range policies {
		if !HasCalendar(p) {
			continue
		}
		rule := meter.RuleOf(p, "")
		for at, n := rule.WindowEnd(begin), 0; n < 200 && at < begin+3*int64(366*24*time.Hour); n++ {
			starts = append(starts, at)
			at = rule.WindowEnd(at)
		}
	}
	slices.Sort(starts)
	return slices.Compact(starts)
}

// calendarVariants returns policies of keys whose windows begin at the instants that matter: for a calendar of each key,
// with several zones and anniversaries, and for windows of one length, with some that begin at or near an instant.
func calendarVariants(p *runtime.Policy, at int64) (list []*runtime.Policy) {
	add := func(change func(p *runtime.Policy)) {
		variant := *p
		change(&variant)
		list = append(list, &variant)
	}
	c := p.Calendar
	_, aligned := p.Start.Offset()
	switch {
	case c.PerKey():
		zones, firsts := []string{c.Zone}, []runtime.Date{c.From}
		if c.ZonePerKey {
			zones = []string{"UTC", "Etc/GMT+12", "Etc/GMT-14", "Etc/GMT-6"}
		}
		if c.Anniversary {
			firsts = nil
			for _, ago := range []time.Duration{0, p.Period / 4, p.Period / 2, p.Period * 3 / 4} {
				firsts = append(firsts, runtime.DateOf(time.Unix(0, at).UTC().Add(-ago)))
			}
		}
		for _, zone := range zones {
			for _, first := range firsts {
				add(func(p *runtime.Policy) {
					p.Calendar.Zone, p.Calendar.ZonePerKey, p.Calendar.From, p.Calendar.Anniversary = zone, false, first, false
				})
			}
		}
	case HasCalendar(p), !Windowed(p), p.Start.FirstUse(), aligned:
		add(func(*runtime.Policy) {})
	default:
		for _, start := range []int64{at, at + 1, at - int64(p.Period)/2} {
			add(func(p *runtime.Policy) { p.Start = runtime.StartOffset(time.Duration(start)) })
		}
	}
	return list
}

// ofTheSameKey returns a policy with the zone and the anniversary of a variant of another one, as far as a key gives both.
func ofTheSameKey(p, other, variant *runtime.Policy) *runtime.Policy {
	same := *p
	if p.Calendar.ZonePerKey && other.Calendar.ZonePerKey {
		same.Calendar.ZonePerKey, same.Calendar.Zone = false, variant.Calendar.Zone
	}
	if p.Calendar.Anniversary && other.Calendar.Anniversary {
		same.Calendar.Anniversary, same.Calendar.From = false, variant.Calendar.From
	}
	return &same
}

// carriedByCalendar is [Carried] for an edit from or to a calendar.
func carriedByCalendar(old, new *runtime.Policy) (most int64) {
	for _, at := range calendarInstants(old, new) {
		for _, was := range calendarVariants(old, at) {
			before := meter.RuleOf(was, "")
			period := before.Period + before.Hold
			for _, emptied := range []int64{at, at - 1, at - period + 1, at - period/2, at - period/4} {
				state, _ := bounds.MustStep(&before, runtime.State{}, emptied, runtime.Request{Count: old.Full()})
				_, d := bounds.MustStep(&before, state, emptied, runtime.Request{Op: runtime.Check, Count: 1})
				last := emptied + int64(d.RetryAfter) - 1
				for _, now := range []int64{emptied, min(at, last), last} {
					for _, is := range calendarVariants(ofTheSameKey(new, old, was), now) {
						most = max(most, TokensLeft(is, split(was, state, max(1, is.Shards)), now))
					}
				}
			}
		}
	}
	return most
}
