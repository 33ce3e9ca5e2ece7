package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
)

// overrides are the clauses for a [override.Store]. Other stores have no overrides, and pass them.
func overrides() []clause {
	return []clause{
		{"OverrideLog", "entries come back as they were appended, numbered from 1, by their ID and by their key", (*subject).overrideLog},
		{"OverridesBeyondTheMost", "an entry that exceeds the most that its limit declares is not appended", (*subject).beyondTheMost},
		{"ConcurrentOverrides", "entries appended at once have all numbers from 1 on, each once", (*subject).concurrentOverrides},
		{"OverrideInForce", "every request is decided by the override in force, on the tokens used before", (*subject).overrideInForce},
		{"OverrideOfADenyCache", "a cached denial ends with the policy it was made by", (*subject).overrideOfDenyCache},
		{"OverrideOfALease", "leased tokens of a blocked key are not spent", (*subject).overrideOfLease},
		{"ObsoleteOverrides", "a sweep deletes old entries of the log that are not in force, and no ID is used again", (*subject).obsoleteOverrides},
	}
}

// overridable returns a bucket of ten tokens, of which overrides can make a hundred.
func overridable() *runtime.Policy {
	p := bucket()
	p.Name = "overridable"
	p.Overrides = runtime.OverrideBounds{Rate: 100, Capacity: 100, MaxReserved: 5, Unlimited: true}
	return p
}

// entry returns an override of a key that is in force for an hour.
func (s *subject) entry(key, what string) runtime.OverrideEntry {
	now := s.clock.Now().UTC()
	return runtime.OverrideEntry{
		Limit: "overridable", Key: key, What: what, Most: overridable().Overrides, Until: now.Add(time.Hour), At: now,
		Reason: "ein Grund: 理由", Author: "someone",
	}
}

func (s *subject) appended(log override.Store, e runtime.OverrideEntry) runtime.OverrideEntry {
	s.Helper()
	written, err := log.AppendOverride(s.ctx, e)
	if err != nil {
		s.Fatalf("AppendOverride: %v", err)
	}
	return written
}

func (s *subject) overrideLog() {
	log, ok := s.store.(override.Store)
	if !ok {
		return
	}
	numbers := s.entry("a'|\\%", runtime.OverrideNumbers)
	numbers.Rate, numbers.Capacity, numbers.MaxReserved = 50, 100, 5
	plan := s.entry("b", runtime.OverridePlan)
	plan.Plan, plan.Until, plan.Most.Unlimited = "pro", runtime.ForGood, false
	all := []runtime.OverrideEntry{numbers, s.entry("", runtime.OverrideBlock), plan, s.entry("b", runtime.OverrideNone), s.entry("b", "of a later version")}
	for i, e := range all {
		if all[i] = s.appended(log, e); all[i].ID != int64(i)+1 {
			s.broken("the ID of entry %d is %d", i+1, all[i].ID)
		}
	}
	for _, from := range []int64{1, 3, 5, 6} {
		got, err := log.OverridesSince(s.ctx, from)
		if err != nil || !slices.Equal(got, all[from-1:]) {
			s.broken("since %d there are %+v, %v, want %+v", from, got, err, all[from-1:])
		}
	}
	for key, want := range map[string][]runtime.OverrideEntry{"": all[1:2], "b": all[2:], numbers.Key: all[:1], "c": nil} {
		got, err := log.OverrideHistory(s.ctx, "overridable", key)
		if err != nil || !slices.Equal(got, want) {
			s.broken("key %q has the entries %+v, %v, want %+v", key, got, err, want)
		}
	}
}

func (s *subject) beyondTheMost() {
	log, ok := s.store.(override.Store)
	if !ok {
		return
	}
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
		e := s.entry("a", runtime.OverrideNumbers)
		edit(&e)
		if _, err := log.AppendOverride(s.ctx, e); !errors.Is(err, runtime.ErrInvalidOverride) {
			s.broken("%+v: the error is %v", e, err)
		}
	}
	if got, err := log.OverridesSince(s.ctx, 1); err != nil || len(got) != 0 {
		s.broken("there are %+v, %v", got, err)
	}
}

func (s *subject) concurrentOverrides() {
	log, ok := s.store.(override.Store)
	if !ok {
		return
	}
	const writers, each = 4, 5
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				if _, err := log.AppendOverride(s.ctx, s.entry("a", runtime.OverrideBlock)); err != nil {
					s.Errorf("AppendOverride: %v", err)
				}
			}
		})
	}
	all.Wait()
	got, err := log.OverridesSince(s.ctx, 1)
	if err != nil || len(got) != writers*each {
		s.broken("there are %d entries, %v, want %d", len(got), err, writers*each)
	}
	for i, e := range got {
		if e.ID != int64(i)+1 {
			s.broken("entry %d has the ID %d", i+1, e.ID)
		}
	}
}

// inForce appends an entry, and reads it.
func (s *subject) inForce(log override.Store, e runtime.OverrideEntry) {
	s.Helper()
	s.appended(log, e)
	if err := log.OverrideView().Refresh(s.ctx); err != nil {
		s.Fatalf("Refresh: %v", err)
	}
}

func (s *subject) overrideInForce() {
	log, ok := s.store.(override.Store)
	if !ok {
		return
	}
	limits, p := limiter.New(s.store), overridable()
	limit := limits.Reservable(p, runtime.KeyOf(runtime.String("a")))
	allowed := func(n int64, want bool) {
		s.Helper()
		if d, err := limit.AllowN(s.ctx, n); err != nil || d.Allowed != want {
			s.broken("AllowN(%d) returns %v, %v", n, d, err)
		}
	}
	left := func(want int64) {
		s.Helper()
		if b, err := limit.Peek(s.ctx); err != nil || b.Remaining != want {
			s.broken("Peek returns %v, %v, want %d left", b, err, want)
		}
	}
	allowed(10, true)
	numbers := s.entry("a", runtime.OverrideNumbers)
	numbers.Capacity = 50
	s.inForce(log, numbers)
	left(40)
	allowed(30, true)
	ds, err := limits.All(s.ctx, limit.N(4), limit.N(4))
	if err != nil || !ds.Allowed {
		s.broken("All returns %v, %v", ds, err)
	}
	if r, err := limit.ReserveN(s.ctx, 7); err != nil || !r.Allowed || r.Delay() <= 0 {
		s.broken("ReserveN returns %+v, %v", r, err)
	}
	left(0)
	s.inForce(log, s.entry("a", runtime.OverrideBlock))
	allowed(1, false)
	s.clock.Add(time.Millisecond)
	s.blockEnds(limits, limits.Limit(p, runtime.KeyOf(runtime.String("a"))), time.Hour-time.Millisecond)
	s.inForce(log, s.entry("a", runtime.OverrideUnblock))
	s.inForce(log, s.entry("", runtime.OverrideOff))
	allowed(1, false)
	s.inForce(log, s.entry("a", runtime.OverrideNone))
	allowed(1000, true)
	s.clock.Add(time.Hour)
	left(10)
}

// blockEnds reports a blocked key for which a decision, alone or beside another limit, or a Peek has another end.
func (s *subject) blockEnds(limits *limiter.Limiter, limit limiter.Limit, after time.Duration) {
	s.Helper()
	if d, err := limit.Allow(s.ctx); err != nil || d.RetryAfter != after {
		s.broken("of a key that is blocked for %v, Allow returns %v, %v", after, d, err)
	}
	ds, err := limits.All(s.ctx, limit, limits.Limit(bucket(), runtime.KeyOf(runtime.String("beside a block"))))
	if err != nil || ds.Allowed || ds.RetryAfter != after {
		s.broken("of a key that is blocked for %v, All returns %v, %v", after, ds, err)
	}
	if b, err := limit.Peek(s.ctx); err != nil || b.Remaining != 0 || b.BlockedFor != after {
		s.broken("of a key that is blocked for %v, Peek returns %v, %v", after, b, err)
	}
}

func (s *subject) overrideOfDenyCache() {
	log, ok := s.store.(override.Store)
	if !ok {
		return
	}
	p := overridable()
	p.DenyCache = time.Minute
	limit := limiter.New(s.store).Limit(p, runtime.KeyOf(runtime.String("a")))
	for _, want := range []bool{true, false} {
		if d, err := limit.AllowN(s.ctx, 10); err != nil || d.Allowed != want {
			s.Fatalf("AllowN: %v, %v", d, err)
		}
	}
	numbers := s.entry("a", runtime.OverrideNumbers)
	numbers.Capacity = 100
	s.inForce(log, numbers)
	if d, err := limit.AllowN(s.ctx, 10); err != nil || !d.Allowed {
		s.broken("after the raise, AllowN returns %v, %v", d, err)
	}
}

func (s *subject) overrideOfLease() {
	log, ok := s.store.(override.Store)
	if !ok {
		return
	}
	p := overridable()
	p.Lease = runtime.Lease{Tokens: 8, For: time.Minute}
	limit := limiter.New(s.store).Limit(p, runtime.KeyOf(runtime.String("a")))
	allow := func(want bool) {
		s.Helper()
		if d, err := limit.Allow(s.ctx); err != nil || d.Allowed != want {
			s.broken("Allow returns %v, %v", d, err)
		}
	}
	allow(true)
	allow(true)
	s.inForce(log, s.entry("a", runtime.OverrideBlock))
	allow(false)
	s.inForce(log, s.entry("a", runtime.OverrideNone))
	allow(true)
	small := s.entry("a", runtime.OverrideNumbers)
	small.Capacity = 3 // of which a store without leases has used 3
	s.inForce(log, small)
	allow(false)
}

func (s *subject) obsoleteOverrides() {
	log, ok := s.store.(override.Store)
	sweeper, sweeps := s.store.(runtime.Sweeper)
	if !ok || !sweeps {
		return
	}
	forGood := func(e runtime.OverrideEntry) runtime.OverrideEntry {
		e.Until = runtime.ForGood
		return e
	}
	const halfAYear = 183 * 24 * time.Hour
	for _, e := range []runtime.OverrideEntry{
		s.entry("ends", runtime.OverrideBlock),
		forGood(s.entry("stays", runtime.OverrideBlock)),
		forGood(s.entry("unblocked", runtime.OverrideBlock)),
		s.entry("unblocked", runtime.OverrideUnblock),
		forGood(s.entry("", runtime.OverrideOff)),
		s.entry("", runtime.OverrideNone),
		s.entry("stays", runtime.OverrideGranted),
	} {
		s.appended(log, e)
	}
	s.clock.Add(halfAYear)
	s.appended(log, s.entry("recent", runtime.OverrideBlock))
	s.clock.Add(halfAYear)
	for _, want := range [][]int64{
		// What ends another entry stays while a process may have read that one, and only that one.
		{2, 4, 6, 8}, {2, 8},
		// The newest one stays.
		{2, 8}, {2, 8},
	} {
		if _, err := sweeper.Sweep(s.ctx, overridable()); err != nil {
			s.Fatalf("Sweep: %v", err)
		}
		entries, err := log.OverridesSince(s.ctx, 1)
		var ids []int64
		for _, e := range entries {
			ids = append(ids, e.ID)
		}
		if err != nil || !slices.Equal(ids, want) {
			s.broken("after a sweep there are the entries %v, %v, want %v", ids, err, want)
		}
		// A store may look for them only now and then.
		s.clock.Add(halfAYear)
	}
	if e := s.appended(log, s.entry("new", runtime.OverrideBlock)); e.ID != 9 {
		s.broken("the ID of the entry after a sweep is %d, not 9", e.ID)
	}
	if d, err := limiter.New(s.store).Limit(overridable(), runtime.KeyOf(runtime.String("stays"))).Allow(s.ctx); err != nil || d.Allowed {
		s.broken("a key that is blocked for good gets %v, %v", d, err)
	}
}
