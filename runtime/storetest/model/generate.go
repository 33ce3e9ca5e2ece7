package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// newLimit returns a random limit of which some requests may have unmet pairs, or false if random numbers were not
// valid together.
func newLimit(r *rand.Rand, name string, unmet pairs) (*limit, bool) {
	traits := values{}
	if len(unmet) > 0 && r.IntN(8) > 0 {
		traits = unmet.any(r)
		// The values of its requests are chosen again for each.
		unmet.choose(r, traits, allFields)
		maps.DeleteFunc(traits, func(field, _ string) bool { return limitFields[field] == nil })
	} else {
		// Those that exclude many others, so that there are enough of them. Most of what can be wrong shows in a limit
		// that is enforced.
		traits["kind"] = oneOf(r, limitFields["kind"]...)
		traits["penalty"] = oneOf(r, "no", "no", "no", "no", "one", "steps")
		traits["mode"] = oneOf(r, append(limitFields["mode"], "enforce", "enforce")...)
	}
	unmet.choose(r, traits, limitFields)
	l := &limit{traits: traits}
	base := l.policy(r, name)
	if traits["plans"] == "three" {
		l.names = runtime.PlanNames{"", "free", "pro", "unlimited"}
		l.policies = runtime.PlanPolicies{{}, base, base, {Name: base.Name, Kind: base.Kind, Precise: base.Precise,
			Shards: base.Shards,
			Mode:   runtime.ModeUnlimited, AtMost: base.AtMost, Overrides: base.Overrides}}
		if !base.Precise {
			l.renumber(r, &l.policies[2], false)
		}
		if l.penalize(r, &l.policies[2]); r.IntN(3) == 0 {
			l.policies[2].Penalty = runtime.Penalty{}
		}
		l.policies.Overridable(l.names)
	} else {
		l.policies = runtime.PlanPolicies{base}
	}
	if traits["priorities"] == "yes" {
		l.classes = runtime.Priorities{{}, {Name: "whole"}, {Name: "leaves", Leaves: oneOf(r, 1, 10, 30, 50, 75, 99)}}
	}
	if traits["prices"] == "yes" {
		l.prices = randomPrices(r)
	}
	if !l.valid(l.policies) {
		return nil, false
	}
	for i := range 1 + r.IntN(2) {
		l.keys = append(l.keys, l.newKey(r, i))
	}
	if traits["exceptions"] != "no" {
		l.keys[0].exception = l.newException(r)
		l.except()
	}
	return l, true
}

// policy returns a policy with the traits of the limit.
func (l *limit) policy(r *rand.Rand, name string) runtime.Policy {
	p := runtime.Policy{
		Name: name, Kind: runtime.TokenBucket,
		Period:     oneOf(r, time.Second, 7*time.Second, time.Minute, time.Hour, 24*time.Hour, 333_333_337*time.Nanosecond),
		Mode:       named(runtime.Modes(), l.traits["mode"]),
		OnError:    named(runtime.OnErrors(), l.traits["onError"]),
		Shards:     int(l.traits["shards"][0] - '0'),
		Durability: named(append(runtime.Durabilities(), runtime.DurabilityDefault), l.traits["durability"]),
	}
	switch l.traits["kind"] {
	case "fixed":
		p.Kind = runtime.FixedWindow
	case "offset":
		p.Kind, p.Start = runtime.FixedWindow, runtime.StartOffset(time.Duration(r.Int64N(int64(p.Period))))
	case "first use":
		p.Kind, p.Start = runtime.FixedWindow, runtime.StartFirstUse()
	case "calendar":
		p.Kind, p.Calendar = runtime.FixedWindow, randomCalendar(r)
		p.Calendar.Zone = oneOf(r, "UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu")
	case "calendar by key":
		p.Kind, p.Calendar = runtime.FixedWindow, randomCalendar(r)
		p.Calendar.ZonePerKey, p.Calendar.From = true, runtime.Date{}
		if p.Calendar.Unit != runtime.Day || p.Calendar.Count > 1 {
			p.Calendar.Anniversary = r.IntN(2) == 0
		}
	case "sliding", "precise":
		p.Kind, p.Precise = runtime.SlidingWindow, l.traits["kind"] == "precise"
	}
	if p.Calendar.Unit != 0 {
		p.Period = p.Calendar.Period()
	}
	l.renumber(r, &p, true)
	if l.traits["numbers"] == "caller" {
		l.numbered(r, &p)
	}
	if l.traits["warn"] == "yes" {
		p.Warn = oneOf(r, runtime.Thresholds{80, 100}, runtime.Thresholds{50}, runtime.Thresholds{1, 33, 66, 99, 100})
	}
	if l.traits["jitter"] == "yes" {
		p.Jitter = oneOf(r, time.Millisecond, time.Second, p.Period)
	}
	if l.traits["denyCache"] == "yes" {
		p.DenyCache = oneOf(r, time.Millisecond, time.Minute, 48*time.Hour)
	}
	if l.traits["lease"] == "yes" {
		p.Lease = runtime.Lease{Tokens: 1 + r.Int64N(p.Capacity), For: oneOf(r, time.Millisecond, time.Second, p.Period)}
	}
	l.penalize(r, &p)
	if l.traits["timeout"] == "yes" {
		p.Timeout = oneOf(r, time.Millisecond, 100*time.Millisecond)
	}
	if l.traits["overrides"] != "no" {
		p.Overrides = runtime.OverrideBounds{Rate: 3 * p.Rate, Capacity: 3 * p.Capacity,
			MaxReserved: 3 * min(p.MaxReserved, runtime.Unbounded/3),
			Unlimited:   l.traits["overrides"] == "any"}
		if !p.Kind.Linear() {
			p.Overrides.Capacity = p.Overrides.Rate
		}
		if p.MaxReserved == runtime.Unbounded {
			p.Overrides.MaxReserved = runtime.Unbounded
		}
	}
	return p
}

// penalize gives a policy a random penalty, if the limit has one.
func (l *limit) penalize(r *rand.Rand, p *runtime.Policy) {
	lasts := func() time.Duration {
		return oneOf(r, time.Millisecond, time.Second, p.Period/3+1, p.Period, 3*p.Period, 90*time.Minute)
	}
	switch l.traits["penalty"] {
	case "one":
		p.Penalty = runtime.PenaltyOf(oneOf(r, 0, lasts()), lasts())
	case "steps":
		p.Penalty = runtime.PenaltyOf(oneOf(r, 0, lasts(), 10*lasts()), lasts(), lasts(), lasts())
	}
}

// named returns the value with a name.
func named[T fmt.Stringer](values []T, name string) T {
	return values[slices.IndexFunc(values, func(v T) bool { return v.String() == name })]
}

func randomCalendar(r *rand.Rand) runtime.Calendar {
	c := runtime.Calendar{Unit: oneOf(r, runtime.CalendarUnits()...), Count: oneOf(r, 0, 1, 1, 1, 2, 3),
		At: oneOf(r, 0, 0, 150*time.Minute)}
	if r.IntN(2) == 0 {
		c.From = runtime.Date{Year: 1990 + r.IntN(5), Month: time.Month(1 + r.IntN(12)), Day: oneOf(r, 1, 15, 28)}
		if c.From.Month != time.February {
			c.From.Day = oneOf(r, 1, 15, 29, 30)
		}
	}
	return c
}

// numbered has callers give some of the numbers of a policy, at most its own.
func (l *limit) numbered(r *rand.Rand, p *runtime.Policy) {
	if p.AtMost.Rate = p.Rate; !p.Kind.Linear() || r.IntN(2) == 0 {
		p.AtMost.Capacity = p.Capacity
	}
	if l.traits["reserve"] == "bounded" && r.IntN(2) == 0 {
		p.AtMost.MaxReserved = p.MaxReserved
	}
	if p.Validate() != nil {
		p.AtMost.Capacity, p.AtMost.MaxReserved = 0, 0 // a fixed window would forget the tokens used beyond them
	}
}

// renumber gives a policy other numbers. Unless they are its first ones, its bounds of overrides stay, and its lease.
func (l *limit) renumber(r *rand.Rand, p *runtime.Policy, first bool) {
	least, before := int64(max(1, p.Shards)), *p
	for again := true; again; {
		p.Rate = least + r.Int64N(12)
		p.Capacity, p.MaxReserved = least+r.Int64N(20), 0
		if r.IntN(3) == 0 {
			p.Capacity = p.Rate
		}
		switch l.traits["reserve"] {
		case "bounded":
			p.MaxReserved = least + r.Int64N(15)
		case "unbounded":
			p.MaxReserved = runtime.Unbounded
		case "only":
			p.Capacity, p.MaxReserved = 0, least+r.Int64N(15)
		}
		if !p.Kind.Linear() {
			p.Capacity, p.MaxReserved = p.Rate, 0
		}
		most := p.Overrides
		beyond := most.Rate > 0 && (p.Rate > most.Rate || p.Capacity > most.Capacity || p.MaxReserved > most.MaxReserved)
		again = !first && (beyond || p.Lease.Tokens > p.Capacity)
	}
	if !first && r.IntN(3) == 0 && p.Penalizes() {
		l.penalize(r, p)
	}
	if !first && p.Kind == runtime.TokenBucket && p.Calendar.Unit == 0 && r.IntN(2) == 0 {
		p.Period = oneOf(r, before.Period, 2*before.Period, 5*time.Second)
	}
	own := numbersOf(p)
	for i, most := range parts(&p.AtMost) {
		if *most > 0 {
			*most = *parts(&own)[i]
		}
	}
}

func (l *limit) newKey(r *rand.Rand, number int) *key {
	k := &key{of: runtime.KeyOf(runtime.String(fmt.Sprintf("key %d", number)))}
	p := l.counted()
	var zone *time.Location
	if p.Calendar.ZonePerKey {
		if zone, _ = time.LoadLocation(oneOf(r, "UTC", "Europe/Berlin", "America/Santiago", "Asia/Kathmandu")); r.IntN(2) == 0 {
			offset := r.IntN(2*57_600+1) - 57_600 // the range of the contract
			zone = time.FixedZone(fmt.Sprint(offset), offset)
		}
		k.of = k.of.In(zone)
	}
	var since time.Time
	if p.Calendar.Anniversary {
		since = time.Date(1990+r.IntN(5), time.Month(1+r.IntN(12)), 1+r.IntN(31), 12, 0, 0, 0, zone)
		k.of = k.of.Since(since)
	}
	k.windows = windowsOf(p, k.of.String(), zone, since)
	return k
}

func (l *limit) valid(policies runtime.PlanPolicies) bool {
	of := l.inUse(policies)
	return !slices.ContainsFunc(of, func(p runtime.Policy) bool {
		if p.Validate() != nil {
			return true
		}
		// Each class must have a token, and one in each shard.
		p.Priority = l.classes.Of(leavingClass)
		return p.Mode != runtime.ModeUnlimited && l.classes != nil && p.Full() < int64(max(1, p.Shards)) || p.Validate() != nil
	})
}

// leavingClass is the number of the class that leaves tokens to others.
const leavingClass = 2

// class returns the number of some class, 0 without any.
func (l *limit) class(r *rand.Rand) int {
	if l.classes == nil {
		return 0
	}
	return 1 + r.IntN(2)
}

// newException returns a random exception of the limit's first key.
func (l *limit) newException(r *rand.Rand) *runtime.Exception {
	p := l.counted()
	e := &runtime.Exception{Key: l.keys[0].of.String(), Reason: "a test"}
	least := int64(max(1, p.Shards))
	switch l.traits["exceptions"] {
	case "numbers":
		e.Numbers.Rate = least + r.Int64N(30)
		if p.Kind.Linear() && p.Capacity > 0 && r.IntN(2) == 0 {
			e.Numbers.Capacity = least + r.Int64N(40)
		}
		if p.MaxReserved > 0 && r.IntN(2) == 0 {
			e.Numbers.MaxReserved = least + r.Int64N(20)
		}
	case "plan":
		e.Plan = 1 + r.IntN(3)
	case "unlimited":
		e.Numbers.Unlimited = true
	default:
		e.Mode = named([]runtime.Mode{runtime.ModeBlock, runtime.ModeOff, runtime.ModeShadow}, l.traits["exceptions"])
	}
	return e
}

// except makes the policies know the exceptions of the keys.
func (l *limit) except() {
	l.exceptions = nil
	for _, k := range l.keys {
		switch {
		case k.exception == nil:
		case l.names != nil:
			l.exceptions = l.policies.Except([]runtime.Exception{*k.exception})
		default:
			l.exceptions = l.policies[0].Except([]runtime.Exception{*k.exception})
		}
	}
}

// numbers returns random numbers of a caller; zero if the limit's are those of the file.
func (l *limit) numbers(r *rand.Rand) (n runtime.Numbers) {
	p := l.counted()
	least := int64(max(1, p.Shards))
	for i, into := range parts(&n) {
		if most := *parts(&p.AtMost)[i]; most > 0 {
			*into = least + r.Int64N(most-least+1)
		}
	}
	if !p.Kind.Linear() {
		n.Capacity = n.Rate
	}
	return n
}
