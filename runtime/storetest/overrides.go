package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/sweep"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// overrides are the clauses for an [override.Store]. Other stores have no overrides, and pass them.
func overrides() []clause {
	cached, leased, punished := overridable(), overridable(), overridable()
	cached.DenyCache, leased.Lease = time.Minute, runtime.Lease{Tokens: 8, For: time.Minute}
	punished.MaxReserved, punished.Overrides.MaxReserved, punished.Penalty = 0, 0, runtime.PenaltyOf(0, time.Minute)
	p := one(overridable())
	return []clause{
		{
			name: "OverrideLog", rule: "entries come back as they were appended, numbered from 1, by their ID and by their key",
			policies: p, check: withLog((*operator).appendAndRead),
		},
		{
			name: "OverridesBeyondTheMost", rule: "an entry that exceeds the most that its limit declares is not appended",
			policies: p, check: withLog((*operator).exceed),
		},
		{
			name: "ConcurrentOverrides", rule: "entries appended at once have all numbers from 1 on, each once",
			policies: p, check: withLog((*operator).appendAtOnce),
		},
		{
			name: "OverrideInForce", rule: "every request is decided by the override in force, on the tokens used before",
			policies: p, check: withLog((*operator).enforce),
		},
		{name: "OverrideOfADenyCache", rule: "a cached denial ends with the policy it was made by", policies: one(cached), check: withLog(func(o *operator) {
			o.allow(10, true)
			o.allow(10, false)
			o.inForce(o.capacity(100))
			o.allow(10, true)
		})},
		{name: "OverrideOfALease", rule: "leased tokens of a blocked key are not spent", policies: one(leased), check: withLog(func(o *operator) {
			o.allow(1, true)
			o.allow(1, true)
			o.inForce(o.entry("a", runtime.OverrideBlock))
			o.allow(1, false)
			o.inForce(o.entry("a", runtime.OverrideNone))
			o.allow(1, true)
			o.inForce(o.capacity(3)) // of which a store without leases has used 3
			o.allow(1, false)
		})},
		{name: "OverrideOfAPenalty", rule: "a sum that can pass only when an override has ended starts no penalty", policies: one(punished), check: withLog(func(o *operator) {
			o.allow(10, true)
			o.inForce(o.capacity(5))
			ds, err := o.limits.All(o.ctx, o.limit.N(1), o.limit.N(5))
			if err != nil || ds.Allowed || ds.Each[0].PenaltyFor != 0 || ds.RetryAfter != time.Hour {
				o.broken("All returns %+v, %v", ds, err)
			}
			if b, err := o.limit.Peek(o.ctx); err != nil || b.PenaltyFor != 0 {
				o.broken("Peek returns %+v, %v", b, err)
			}
		})},
		{
			name: "ObsoleteOverrides", rule: "a sweep deletes old entries of the log that are not in force, and no ID is used again",
			policies: p, check: withLog((*operator).sweepObsolete),
		},
	}
}

// overridable returns a bucket of ten tokens, of which overrides can make a hundred.
func overridable() *runtime.Policy {
	p := named("overridable", bucket())
	p.Overrides = runtime.OverrideBounds{Rate: 100, Capacity: 100, MaxReserved: 5, Unlimited: true}
	return p
}

// operator puts overrides in force, and makes requests for the key "a".
type operator struct {
	*subject
	p      *runtime.Policy
	log    override.Store
	limits *limiter.Limiter
	limit  limiter.ReservableLimit
}

// withLog checks a store that has a log of overrides.
func withLog(check func(o *operator)) func(*subject, *runtime.Policy) {
	return func(s *subject, p *runtime.Policy) {
		if log, ok := ability.Of[override.Store](s.store); ok {
			limits := limiter.New(s.store)
			check(&operator{s, p, log, limits, limits.Reservable(p, keyOf("a"))})
		}
	}
}

func keyOf(name string) runtime.Key { return runtime.KeyOf(runtime.String(name)) }

// entry returns an override of a key that is in force for an hour.
func (o *operator) entry(key, what string) runtime.OverrideEntry {
	now := o.clock.Now().UTC()
	return runtime.OverrideEntry{
		Limit: "overridable", Key: key, What: what, Most: overridable().Overrides, Until: now.Add(time.Hour), At: now,
		Reason: "ein Grund: 理由", Author: "someone",
	}
}

// forGood returns an override of a key without an end.
func (o *operator) forGood(key, what string) runtime.OverrideEntry {
	e := o.entry(key, what)
	e.Until = runtime.ForGood()
	return e
}

func (o *operator) capacity(n int64) runtime.OverrideEntry {
	e := o.entry("a", runtime.OverrideNumbers)
	e.Capacity = n
	return e
}

func (o *operator) append(e runtime.OverrideEntry) runtime.OverrideEntry {
	o.Helper()
	written, err := o.log.AppendOverride(o.ctx, e)
	if err != nil {
		o.Fatalf("AppendOverride: %v", err)
	}
	return written
}

// inForce appends an entry, and reads it.
func (o *operator) inForce(e runtime.OverrideEntry) {
	o.Helper()
	o.append(e)
	if err := o.log.OverrideView().Refresh(o.ctx); err != nil {
		o.Fatalf("Refresh: %v", err)
	}
}

// allow takes n tokens, and fails the clause unless that is allowed or denied as wanted.
func (o *operator) allow(n int64, want bool) {
	o.Helper()
	if d, err := o.limit.AllowN(o.ctx, n); err != nil || d.Allowed != want {
		o.broken("AllowN(%d) returns %v, %v", n, d, err)
	}
}

// left fails the clause unless want tokens are left.
func (o *operator) left(want int64) {
	o.Helper()
	if b, err := o.limit.Peek(o.ctx); err != nil || b.Remaining != want {
		o.broken("Peek returns %v, %v, want %d left", b, err, want)
	}
}

// since returns the entries from an ID on.
func (o *operator) since(id int64) []runtime.OverrideEntry {
	o.Helper()
	all, err := o.log.OverridesSince(o.ctx, id)
	if err != nil {
		o.Fatalf("OverridesSince: %v", err)
	}
	return all
}

func ids(entries []runtime.OverrideEntry) (ids []int64) {
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func (o *operator) appendAndRead() {
	numbers, plan := o.capacity(100), o.forGood("b", runtime.OverridePlan)
	numbers.Key, numbers.Rate, numbers.MaxReserved = "a'|\\%", 50, 5
	plan.Plan, plan.Most.Unlimited = "pro", false
	all := []runtime.OverrideEntry{numbers, o.entry("", runtime.OverrideBlock), plan, o.entry("b", runtime.OverrideNone), o.entry("b", "of a later version")}
	for i, e := range all {
		all[i] = o.append(e)
	}
	if got := ids(all); !slices.Equal(got, []int64{1, 2, 3, 4, 5}) {
		o.broken("the IDs are %v", got)
	}
	for _, from := range []int64{1, 3, 5, 6} {
		if got := o.since(from); !slices.Equal(got, all[from-1:]) {
			o.broken("since %d there are %+v, want %+v", from, got, all[from-1:])
		}
	}
	for key, want := range map[string][]runtime.OverrideEntry{"": all[1:2], "b": all[2:], numbers.Key: all[:1], "c": nil} {
		got, err := o.log.OverrideHistory(o.ctx, "overridable", key)
		if err != nil || !slices.Equal(got, want) {
			o.broken("key %q has the entries %+v, %v, want %+v", key, got, err, want)
		}
	}
}

func (o *operator) exceed() {
	for _, edit := range []func(e *runtime.OverrideEntry){
		func(e *runtime.OverrideEntry) { e.Rate = 101 },
		func(e *runtime.OverrideEntry) { e.Capacity = 101 },
		func(e *runtime.OverrideEntry) { e.MaxReserved = 6 },
		func(e *runtime.OverrideEntry) { e.Rate = -1 },
		func(e *runtime.OverrideEntry) { e.What, e.Most.Unlimited = runtime.OverrideOff, false },
		func(e *runtime.OverrideEntry) { e.Reason = "" },
		func(e *runtime.OverrideEntry) { e.Author = "" },
		func(e *runtime.OverrideEntry) { e.Until = time.Time{} },
	} {
		e := o.entry("a", runtime.OverrideNumbers)
		edit(&e)
		if _, err := o.log.AppendOverride(o.ctx, e); !errors.Is(err, runtime.ErrInvalidOverride) {
			o.broken("%+v: the error is %v", e, err)
		}
	}
	if got := o.since(1); len(got) != 0 {
		o.broken("there are %+v", got)
	}
}

func (o *operator) appendAtOnce() {
	const writers, each = 4, 5
	atOnce(writers, each, func(int) { o.append(o.entry("a", runtime.OverrideBlock)) })
	got := ids(o.since(1))
	for i, id := range got {
		if id != int64(i)+1 || len(got) != writers*each {
			o.broken("the IDs are %v, want 1 to %d", got, writers*each)
		}
	}
}

func (o *operator) enforce() {
	o.allow(10, true)
	o.inForce(o.capacity(50))
	o.left(40)
	o.allow(30, true)
	if ds, err := o.limits.All(o.ctx, o.limit.N(4), o.limit.N(4)); err != nil || !ds.Allowed {
		o.broken("All returns %v, %v", ds, err)
	}
	if r, err := o.limit.ReserveN(o.ctx, 7); err != nil || !r.Allowed || r.Delay() <= 0 {
		o.broken("ReserveN returns %+v, %v", r, err)
	}
	o.left(0)
	o.inForce(o.entry("a", runtime.OverrideBlock))
	o.allow(1, false)
	o.clock.Add(time.Millisecond)
	o.blockEnds(time.Hour - time.Millisecond)
	o.inForce(o.entry("a", runtime.OverrideUnblock))
	o.inForce(o.entry("", runtime.OverrideOff))
	o.allow(1, false)
	o.inForce(o.entry("a", runtime.OverrideNone))
	o.allow(1000, true)
	o.clock.Add(time.Hour)
	o.left(10)
}

// blockEnds reports a blocked key for which a decision, alone or beside another limit, or a Peek has another end.
func (o *operator) blockEnds(after time.Duration) {
	o.Helper()
	if d, err := o.limit.Allow(o.ctx); err != nil || d.RetryAfter != after {
		o.broken("of a key that is blocked for %v, Allow returns %v, %v", after, d, err)
	}
	ds, err := o.limits.All(o.ctx, o.limit, o.limits.Limit(bucket(), keyOf("beside a block")))
	if err != nil || ds.Allowed || ds.RetryAfter != after {
		o.broken("of a key that is blocked for %v, All returns %v, %v", after, ds, err)
	}
	if b, err := o.limit.Peek(o.ctx); err != nil || b.Remaining != 0 || b.BlockedFor != after {
		o.broken("of a key that is blocked for %v, Peek returns %v, %v", after, b, err)
	}
}

func (o *operator) sweepObsolete() {
	sweeper, ok := ability.Of[sweep.Sweeper](o.store)
	if !ok {
		return
	}
	const halfAYear = 183 * 24 * time.Hour
	for _, e := range []runtime.OverrideEntry{
		o.entry("ends", runtime.OverrideBlock), o.forGood("stays", runtime.OverrideBlock), o.forGood("unblocked", runtime.OverrideBlock),
		o.entry("unblocked", runtime.OverrideUnblock), o.forGood("", runtime.OverrideOff), o.entry("", runtime.OverrideNone),
		o.entry("stays", runtime.OverrideGranted),
	} {
		o.append(e)
	}
	o.clock.Add(halfAYear)
	o.append(o.entry("recent", runtime.OverrideBlock))
	o.clock.Add(halfAYear)
	for _, want := range [][]int64{
		// What ends another entry stays while a process may have read that one, and only that one.
		{2, 4, 6, 8}, {2, 8},
		// The newest one stays.
		{2, 8}, {2, 8},
	} {
		if _, err := sweeper.Sweep(o.ctx, o.p); err != nil {
			o.Fatalf("Sweep: %v", err)
		}
		if got := ids(o.since(1)); !slices.Equal(got, want) {
			o.broken("after a sweep there are the entries %v, want %v", got, want)
		}
		// A store may look for them only now and then.
		o.clock.Add(halfAYear)
	}
	if e := o.append(o.entry("new", runtime.OverrideBlock)); e.ID != 9 {
		o.broken("the ID of the entry after a sweep is %d, not 9", e.ID)
	}
	if d, err := o.limits.Limit(o.p, keyOf("stays")).Allow(o.ctx); err != nil || d.Allowed {
		o.broken("a key that is blocked for good gets %v, %v", d, err)
	}
}
