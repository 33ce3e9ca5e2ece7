package model

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// limit is a limit of a world: its policies by plan, its keys, and the overrides in force.
type limit struct {
	// traits are the values of its fields, as they are named in the table of pairs.
	traits values
	names  runtime.PlanNames
	// policies are by the number of the plan; a limit without plans has one, at 0.
	policies runtime.PlanPolicies
	keys     []*key
	// whole are the overrides of the whole limit.
	whole overrides
	// edits counts the edits of its numbers.
	edits int
	back  bool
}

// key is a key of a limit.
type key struct {
	of      runtime.Key
	zone    *time.Location
	since   time.Time
	windows windows
	history history
	own     overrides
	// penalties are those that denials have started, the last one at the end.
	penalties []penalty
	// leased are the uses of tokens that may have been leased.
	leased []use
	// life is the number of its life: tokens that were taken in another one cannot be given back.
	life int
	// numbers are those of the last request.
	numbers runtime.Numbers
	// denied is the last request that was denied, which callers repeat.
	denied *request
	// seen is what a key of a limit with shards had after the last request.
	seen *seen
	// just is what a key of a limit with shards has before a request.
	just   float64
	justBy terms
	// reported means that the process has learned what the key has after its last request.
	reported bool
	// returned means that tokens were given back of which the stored numbers do not say exactly how many.
	returned bool
	// erased means that it was erased: no row knows of its earlier lives.
	erased bool
}

// seen is what a key of a limit with shards had at an instant, and how many tokens it had been asked for and used by then.
type seen struct {
	at          int64
	value       float64
	by          terms
	taken, used *big.Rat
}

// penalty is one of a key: when it ends, and which of the limit's it is, counted from 0.
type penalty struct {
	until  int64
	number int
}

// use is tokens that were used at an instant.
type use struct{ at, tokens int64 }

// overrides is the newest block and override of a key, or of a whole limit.
type overrides struct{ block, override *entry }

// entry is what an operator has put in force; a block has the Mode of one.
type entry struct {
	runtime.Override
	plan  int
	until int64
}

func (e *entry) live(now int64) bool { return e != nil && now < e.until }

// newLimit returns a random limit of which some requests may have unmet pairs, or false if random numbers were not valid together.
func newLimit(r *rand.Rand, name string, unmet pairs) (*limit, bool) {
	traits := values{}
	if len(unmet) > 0 && r.IntN(8) > 0 {
		traits = unmet.any(r)
		// The values of its requests are chosen again for each.
		unmet.choose(r, traits, allFields)
		maps.DeleteFunc(traits, func(field, _ string) bool { return limitFields[field] == nil })
	} else {
		// Those that exclude many others, so that there are enough of them. Most of what can be wrong shows in a limit that is enforced.
		traits["kind"] = oneOf(r, limitFields["kind"]...)
		traits["penalty"] = oneOf(r, "no", "no", "no", "no", "one", "steps")
		traits["mode"] = oneOf(r, append(limitFields["mode"], "enforce", "enforce")...)
	}
	unmet.choose(r, traits, limitFields)
	l := &limit{traits: traits}
	base := l.policy(r, name)
	if traits["plans"] == "three" {
		l.names = runtime.PlanNames{"", "free", "pro", "unlimited"}
		l.policies = runtime.PlanPolicies{{}, base, base, {Name: base.Name, Kind: base.Kind, Precise: base.Precise, Shards: base.Shards,
			Mode: runtime.ModeUnlimited, AtMost: base.AtMost, Overrides: base.Overrides}}
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
	if !l.valid(l.policies) {
		return nil, false
	}
	for i := range 1 + r.IntN(2) {
		l.keys = append(l.keys, l.newKey(r, i))
	}
	return l, true
}

// inUse returns the policies of the plans, or the one of a limit without plans.
func (l *limit) inUse(of runtime.PlanPolicies) runtime.PlanPolicies {
	if l.names != nil {
		return of[1:] // requests without a plan are not made
	}
	return of
}

func (l *limit) valid(policies runtime.PlanPolicies) bool {
	of := l.inUse(policies)
	return !slices.ContainsFunc(of, func(p runtime.Policy) bool { return p.Validate() != nil })
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
		p.Overrides = runtime.OverrideBounds{Rate: 3 * p.Rate, Capacity: 3 * p.Capacity, MaxReserved: 3 * min(p.MaxReserved, runtime.Unbounded/3),
			Unlimited: l.traits["overrides"] == "any"}
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
	c := runtime.Calendar{Unit: oneOf(r, runtime.CalendarUnits()...), Count: oneOf(r, 0, 1, 1, 1, 2, 3), At: oneOf(r, 0, 0, 150*time.Minute)}
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
		p.AtMost.Capacity, p.AtMost.MaxReserved = 0, 0 // a fixed window would forget what was used beyond them
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
	if p.AtMost.Rate > 0 {
		p.AtMost.Rate = p.Rate
	}
	if p.AtMost.Capacity > 0 {
		p.AtMost.Capacity = p.Capacity
	}
	if p.AtMost.MaxReserved > 0 {
		p.AtMost.MaxReserved = p.MaxReserved
	}
}

func (l *limit) newKey(r *rand.Rand, number int) *key {
	k := &key{of: runtime.KeyOf(runtime.String(fmt.Sprintf("key %d", number)))}
	p := l.counted()
	if p.Calendar.ZonePerKey {
		name := oneOf(r, "UTC", "Europe/Berlin", "America/Santiago", "Asia/Kathmandu")
		k.zone, _ = time.LoadLocation(name)
		k.of = k.of.In(k.zone)
	}
	if p.Calendar.Anniversary {
		k.since = time.Date(1990+r.IntN(5), time.Month(1+r.IntN(12)), 1+r.IntN(31), 12, 0, 0, 0, k.zone)
		k.of = k.of.Since(k.since)
	}
	k.windows = windowsOf(p, k)
	return k
}

// knownStarts has the starts of calendars, which take long to find.
var knownStarts sync.Map

type calendarOf struct {
	calendar runtime.Calendar
	zone     string
	from     runtime.Date
}

// windowsOf returns the windows of a key. The offset of windows by key is a property of the name and the key, and the only
// thing that the model takes from the product.
func windowsOf(p *runtime.Policy, k *key) windows {
	switch {
	case p.Kind == runtime.TokenBucket:
		return windows{kind: bucket}
	case p.Precise:
		return windows{kind: precise}
	case p.Start.FirstUse():
		return windows{kind: firstUse}
	case p.Calendar.Unit != 0:
		zone, from := k.zone, p.Calendar.From
		if zone == nil {
			zone, _ = time.LoadLocation(p.Calendar.Zone)
		}
		if p.Calendar.Anniversary {
			from = runtime.DateOf(k.since)
		}
		of := calendarOf{p.Calendar, zone.String(), from}
		starts, ok := knownStarts.Load(of)
		if !ok {
			starts, _ = knownStarts.LoadOrStore(of, startsOf(p.Calendar, zone, from))
		}
		return windows{kind: calendar, starts: starts.([]int64)}
	}
	w := windows{kind: aligned, phase: meter.RuleOf(p, k.of.String()).Phase}
	if p.Kind == runtime.SlidingWindow {
		w.kind = sliding
	}
	return w
}

// termsOf returns the terms of a policy for a key.
func (k *key) termsOf(p *runtime.Policy) terms {
	t := terms{mode: p.Mode, rate: p.Rate, capacity: p.Capacity, reserved: p.MaxReserved, period: int64(p.Period), windows: k.windows,
		unlimited: p.Mode == runtime.ModeUnlimited, forgive: int64(p.Penalty.Forgive)}
	for _, lasts := range p.Penalty.Steps {
		if lasts > 0 {
			t.penalties = append(t.penalties, int64(lasts))
		}
	}
	if n := len(t.penalties); n > 0 && t.forgive == 0 {
		t.forgive = 10 * t.penalties[n-1]
	}
	return t
}

// given returns the terms with the numbers that a caller gives in place of those of the policy.
func (t terms) given(p *runtime.Policy, n runtime.Numbers) terms {
	if t.unlimited {
		return t
	}
	n = allowed(p, n)
	if n.Rate > 0 {
		t.rate = n.Rate
	}
	if n.Capacity > 0 {
		t.capacity = n.Capacity
	}
	if n.MaxReserved > 0 {
		t.reserved = n.MaxReserved
	}
	return t
}

// allowed returns the numbers that a caller gives, which knows what the policy allows.
func allowed(p *runtime.Policy, n runtime.Numbers) runtime.Numbers {
	return runtime.Numbers{Rate: min(n.Rate, p.AtMost.Rate), Capacity: min(n.Capacity, p.AtMost.Capacity), MaxReserved: min(n.MaxReserved, p.AtMost.MaxReserved)}
}

// numbers returns random numbers of a caller; zero if the limit's are those of the file.
func (l *limit) numbers(r *rand.Rand) (n runtime.Numbers) {
	p := l.counted()
	least := int64(max(1, p.Shards))
	for _, part := range []struct {
		most int64
		into *int64
	}{{p.AtMost.Rate, &n.Rate}, {p.AtMost.Capacity, &n.Capacity}, {p.AtMost.MaxReserved, &n.MaxReserved}} {
		if part.most > 0 {
			*part.into = least + r.Int64N(part.most-least+1)
		}
	}
	if !p.Kind.Linear() {
		n.Capacity = n.Rate
	}
	return n
}

// slowest returns the terms by which a key is full last, of all that its callers can give. Those without a rate are of no plan.
func (l *limit) slowest(t terms) terms {
	p := l.counted()
	if t.rate == 0 || p.AtMost.Rate == 0 {
		return t
	}
	t.rate = int64(max(1, p.Shards))
	return t
}

// policy returns the policy of a plan.
func (l *limit) of(plan int) *runtime.Policy { return &l.policies[plan] }

// entry returns what is in force for a key at an instant: a block, and of two the one that ends last; the override of the
// key; the override of the whole limit; or nil.
func (l *limit) entry(k *key, now int64) *entry {
	block := k.own.block
	if b := l.whole.block; b.live(now) && (!block.live(now) || b.until > block.until) {
		block = b
	}
	for _, e := range []*entry{block, k.own.override, l.whole.override} {
		if e.live(now) {
			return e
		}
	}
	return nil
}

// at returns the terms in force for a key at an instant.
func (l *limit) at(k *key, plan int, n runtime.Numbers, now int64) terms {
	n = allowed(l.of(plan), n)
	base, e := k.termsOf(l.of(plan)).given(l.of(plan), n), l.entry(k, now)
	switch {
	case e == nil:
		return base
	case e.Mode == runtime.ModeBlock:
		base.mode = runtime.ModeBlock
		return base
	}
	return e.apply(l, k, plan, n)
}

// apply returns the terms that an override gives a key.
func (e *entry) apply(l *limit, k *key, plan int, n runtime.Numbers) terms {
	if e.plan > 0 {
		plan = e.plan
	}
	p := l.of(plan)
	t := k.termsOf(p).given(p, n)
	switch {
	case t.mode == runtime.ModeUnlimited:
		return t
	case e.Mode != runtime.ModeEnforce:
		t.mode = e.Mode
		return t
	}
	given := func(n, own, least, most int64) int64 {
		if n == 0 || own == 0 {
			return own
		}
		return min(max(n, least), most)
	}
	capacity := e.Capacity
	if capacity == 0 && t.capacity == t.rate || !p.Kind.Linear() {
		capacity = e.Rate
	}
	least, most := int64(max(1, p.Shards)), p.Overrides
	t.rate, t.capacity = given(e.Rate, t.rate, least, most.Rate), given(capacity, t.capacity, least, most.Capacity)
	t.reserved = given(e.MaxReserved, t.reserved, least, most.MaxReserved)
	return t
}

// ends returns the instants after one at which the terms in force for a key change by themselves.
func (l *limit) ends(k *key, now int64) (all []int64) {
	for _, e := range []*entry{k.own.block, k.own.override, l.whole.block, l.whole.override} {
		if e.live(now) && e.until < math.MaxInt64 {
			all = append(all, e.until)
		}
	}
	slices.Sort(all)
	return all
}

// inForce names the entry in force for a key, for the table of pairs.
func (l *limit) inForce(k *key, now int64) string {
	switch e := l.entry(k, now); {
	case e == nil:
		return "nothing"
	case e.plan > 0:
		return "plan"
	case e.Mode != runtime.ModeEnforce:
		return e.Mode.String()
	}
	return "numbers"
}

// counted returns the policy of a plan that is not unlimited. Except for the numbers, plans are the same.
func (l *limit) counted() *runtime.Policy { return l.of(min(1, len(l.policies)-1)) }

// constant reports whether neither the numbers of the limit have changed nor the clock has gone back: each row of a limit with
// shards gets tokens back by the numbers and by the time of the next request for it.
func (l *limit) constant() bool {
	return l.edits == 0 && l.names == nil && l.traits["numbers"] == "file" && l.traits["overrides"] == "no" && !l.back
}

func (l *limit) leased() bool { return l.traits["lease"] == "yes" }

func (l *limit) sharded() bool { return l.traits["shards"] != "1" }

// loose reports whether the model only bounds the decisions of the limit.
func (l *limit) loose() bool { return l.sharded() || l.leased() }

// request is a request for one key.
type request struct {
	l    *limit
	k    *key
	plan int
	// numbers are those of the caller; zero for a limit with those of the file.
	numbers runtime.Numbers
	op      runtime.Op
	n       int64
	reserve bool
}
