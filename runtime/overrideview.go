package runtime

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultOverridesEvery is how often a process reads what is new in the log of overrides, unless the store has an option
// for it.
const DefaultOverridesEvery = 5 * time.Second

// OverrideStore is a [Store] with a log of overrides.
type OverrideStore interface {
	Store
	// AppendOverride validates an entry, and appends it with the next ID, which it returns. An entry is visible to other
	// processes only after all those before it.
	AppendOverride(ctx context.Context, e OverrideEntry) (OverrideEntry, error)
	// OverridesSince returns the entries from an ID on, in their order: all, or the first [OverridePage].
	OverridesSince(ctx context.Context, id int64) ([]OverrideEntry, error)
	// OverrideHistory returns the entries of a key of a limit, or with the key "" those of the whole limit, in their order.
	OverrideHistory(ctx context.Context, limit, key string) ([]OverrideEntry, error)
	// OverrideView returns the overrides that this process holds in memory, always the same one.
	OverrideView() *OverrideView
}

// OverridePage is how many entries [OverrideStore.OverridesSince] returns at once.
const OverridePage = 1000

// OverrideView is the overrides that a process holds in memory. A decision looks its key up there, and no request to the
// store is added to it.
//
// The first request for a limit with overrides reads the log; until that has succeeded, such requests fail with the
// store's error, subject to the limit's OnError. From then on a goroutine reads what is new once per interval, until
// the store is closed. So another process decides by an entry within the interval and the time of a read, and on a replica
// or a cluster's node when the entry has arrived there; the process that wrote it does so at once. A denial that another
// process has cached is dropped together with the policy it was made by. An entry ends by the store's clock, whether or
// not anything can be read then. If a read fails, the entries in force stay in force, and the next read is an interval
// later.
type OverrideView struct {
	source OverrideSource
	// snapshot is nil until the log has been read.
	snapshot atomic.Pointer[overrideSnapshot]
	// reading has one element while a goroutine reads.
	reading chan struct{}
	// repeating starts the goroutine that reads again.
	repeating sync.Once
}

// OverrideSource is what a store gives its [OverrideView].
type OverrideSource struct {
	// Since is [OverrideStore.OverridesSince].
	Since func(ctx context.Context, id int64) ([]OverrideEntry, error)
	// Now is the clock of the store, in nanoseconds since 1970 UTC. It must not make a request.
	Now func() int64
	// Every is the interval between two reads; 0 means [DefaultOverridesEvery].
	Every time.Duration
	// Background runs a function in a goroutine with a context that ends when the store is closed. If it is nil, nothing is
	// read in the background: for a store whose entries are all written by this process.
	Background func(f func(ctx context.Context))
}

// NewOverrideView returns an empty view of a log. It reads nothing yet.
func NewOverrideView(source OverrideSource) *OverrideView {
	if source.Every <= 0 {
		source.Every = DefaultOverridesEvery
	}
	return &OverrideView{source: source, reading: make(chan struct{}, 1)}
}

// InUse reports whether the log has been read, as it is for the first request to a limit with overrides.
func (v *OverrideView) InUse() bool { return v.snapshot.Load() != nil }

// InForce returns the entries in force, in the order of their IDs.
func (v *OverrideView) InForce() []OverrideEntry {
	s := v.snapshot.Load()
	if s == nil {
		return nil
	}
	var all []OverrideEntry
	for _, o := range s.inForce(v.now()) {
		all = append(all, o.entry)
	}
	return all
}

// Problems returns an error for each entry in force that this version does not understand, or whose plan the limits do not
// have. Limits that are not among the policies are left out: their entries may belong to another program, and those of a
// limit that was removed must not keep its successor from starting. So is a number beyond the limit's bounds, which is
// reduced to them. The policies may be nil.
func (v *OverrideView) Problems(policies []*Policy) (all []error) {
	s := v.snapshot.Load()
	if s == nil {
		return nil
	}
	for _, o := range s.inForce(v.now()) {
		// Any policy is good enough to find out whether the kind is known.
		of := []*Policy{{Name: o.entry.Limit, Kind: TokenBucket, Mode: ModeUnlimited, Overrides: OverrideBounds{Rate: 1, Unlimited: true}}}
		if o.entry.What == OverridePlan {
			of = nil
		}
		for _, p := range policies {
			if p.Overridable() && p.Name == o.entry.Limit {
				of = append(of, p)
			}
		}
		for _, p := range of {
			if _, err := o.entry.apply(p); err != nil {
				all = append(all, fmt.Errorf("limit %q: %w", o.entry.Limit, err))
				break
			}
		}
	}
	return all
}

// Sweepable is the function [Sweepable] for limits that may have overrides: a row that is full by the policies may not be
// by the numbers that its key has now.
func (v *OverrideView) Sweepable(policies []*Policy, row Row, s State, now int64) bool {
	judges, snapshot := slices.Clone(policies), v.snapshot.Load()
	for _, p := range policies {
		if !p.Overridable() {
			continue
		}
		if snapshot == nil {
			return false
		}
		for _, key := range []string{row.Key, ""} {
			o := snapshot.keys[overrideKey{row.Name, key}].override
			if o == nil {
				continue
			}
			effective, err := o.policy(p)
			if err != nil {
				return false
			}
			judges = append(judges, effective)
		}
	}
	return Sweepable(judges, row, s, now)
}

func (v *OverrideView) now() int64 { return v.source.Now() }

// load returns the overrides, and reads them if that has not been done. In a transaction of the caller, given as in, it
// does so by itself: the transaction may have the only connection of the pool, for which another goroutine that reads
// would wait.
func (v *OverrideView) load(ctx context.Context, in OverrideStore) (*overrideSnapshot, error) {
	if snapshot := v.snapshot.Load(); snapshot != nil {
		return snapshot, nil
	}
	since := v.source.Since
	if in != nil {
		since = in.OverridesSince
	} else {
		if err := v.lock(ctx); err != nil {
			return nil, err
		}
		defer v.unlock()
	}
	// Callers that have waited for the first read need no other one.
	if !v.InUse() {
		if err := v.update(ctx, since); err != nil {
			return nil, err
		}
	}
	return v.snapshot.Load(), nil
}

// Refresh reads what is new in the log, and puts it in force.
func (v *OverrideView) Refresh(ctx context.Context) error {
	if err := v.lock(ctx); err != nil {
		return err
	}
	defer v.unlock()
	return v.update(ctx, v.source.Since)
}

func (v *OverrideView) lock(ctx context.Context) error {
	select {
	case v.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *OverrideView) unlock() { <-v.reading }

// update reads what is new, and starts the goroutine that does so again.
func (v *OverrideView) update(ctx context.Context, since sinceFunc) error {
	for {
		before := v.snapshot.Load()
		next, err := before.updated(ctx, since, v.now)
		if err != nil {
			return fmt.Errorf("read the overrides: %w", err)
		}
		if !v.snapshot.CompareAndSwap(before, next) {
			// A transaction of a caller has read them for the first time.
			continue
		}
		if before != nil && next != before {
			close(before.changed)
		}
		v.repeating.Do(func() {
			if v.source.Background != nil {
				v.source.Background(v.repeat)
			}
		})
		return nil
	}
}

// repeat reads once per interval until ctx ends.
func (v *OverrideView) repeat(ctx context.Context) {
	// The first time earlier, so that processes that were started together do not read together.
	timer := time.NewTimer(rand.N(v.source.Every))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		begin := time.Now()
		// What is in force stays in force after an error.
		_ = v.Refresh(ctx)
		timer.Reset(v.source.Every - time.Since(begin))
	}
}

// overrideSnapshot is the overrides as of one read. It is never changed.
type overrideSnapshot struct {
	// last is the newest entry that was read.
	last OverrideEntry
	keys map[overrideKey]keyOverrides
	// changed is closed when another snapshot replaces this one.
	changed chan struct{}
}

// overrideKey is a key of a limit, or the whole limit if key is empty.
type overrideKey struct{ limit, key string }

// keyOverrides is the newest block and override of a key. Each may have ended.
type keyOverrides struct{ block, override *inForce }

// inForce is an entry, and the policies that it puts in force.
type inForce struct {
	entry OverrideEntry
	until int64
	// policies are made at their first use, and kept: a lease belongs to the address of its policy.
	policies atomic.Pointer[[]effectivePolicy]
}

type effectivePolicy struct {
	base, effective *Policy
	err             error
}

// maxEffective is how many policies of an entry are kept, more than a limit has plans. Only a program that makes a policy
// for each request has more.
const maxEffective = 256

// policy returns the policy that is in force in place of base.
func (o *inForce) policy(base *Policy) (*Policy, error) {
	var known []effectivePolicy
	before := o.policies.Load()
	if before != nil {
		known = *before
	}
	for i := range known {
		if known[i].base == base {
			return known[i].effective, known[i].err
		}
	}
	effective, err := o.entry.apply(base)
	next := append(slices.Clip(known), effectivePolicy{base, effective, err})
	if len(next) <= maxEffective && !o.policies.CompareAndSwap(before, &next) {
		return o.policy(base)
	}
	return effective, err
}

// live returns o if it has not ended.
func (o *inForce) live(now int64) *inForce {
	if o == nil || o.until != math.MaxInt64 && now >= o.until {
		return nil
	}
	return o
}

// live returns what has not ended.
func (k keyOverrides) live(now int64) keyOverrides {
	return keyOverrides{k.block.live(now), k.override.live(now)}
}

// policy returns the policy in force for a key, and the instant at which that ends by itself.
func (s *overrideSnapshot) policy(p *Policy, key string, now func() int64) (_ *Policy, until int64, err error) {
	if p.Overrides.base != nil {
		// A policy that came from a decision.
		p = p.Overrides.base
	}
	whole, own := s.keys[overrideKey{p.Name, ""}], s.keys[overrideKey{p.Name, key}]
	if whole == (keyOverrides{}) && own == (keyOverrides{}) {
		return p, math.MaxInt64, nil
	}
	at := now()
	for _, o := range [...]*inForce{whole.block, own.block, own.override, whole.override} {
		if o = o.live(at); o != nil {
			p, err = o.policy(p)
			return p, o.until, err
		}
	}
	return p, math.MaxInt64, nil
}

// inForce returns all that has not ended, in the order of the log.
func (s *overrideSnapshot) inForce(now int64) (all []*inForce) {
	for _, k := range s.keys {
		for _, o := range []*inForce{k.block.live(now), k.override.live(now)} {
			if o != nil {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b *inForce) int { return cmp.Compare(a.entry.ID, b.entry.ID) })
	return all
}

type sinceFunc = func(ctx context.Context, id int64) ([]OverrideEntry, error)

// updated returns the snapshot after reading what is new, or s if there is nothing. s may be nil.
func (s *overrideSnapshot) updated(ctx context.Context, since sinceFunc, now func() int64) (*overrideSnapshot, error) {
	next := &overrideSnapshot{changed: make(chan struct{})}
	if s != nil {
		next.last, next.keys = s.last, s.keys
	}
	entries, err := since(ctx, max(1, next.last.ID))
	switch last := next.last; {
	case err != nil:
		return nil, err
	case last.ID > 0 && (len(entries) == 0 || entries[0] != last):
		// The log has lost entries, as after a failover or a restored backup: it must be read from its beginning.
		if entries, err = since(ctx, 1); err != nil {
			return nil, err
		}
		next.last, next.keys = OverrideEntry{}, nil
	case s != nil && (len(entries) == 0 || entries[len(entries)-1] == last):
		return s, nil
	}
	if next.keys = maps.Clone(next.keys); next.keys == nil {
		next.keys = map[overrideKey]keyOverrides{}
	}
	for {
		for _, e := range entries {
			next.add(e, s)
		}
		if len(entries) < OverridePage {
			next.prune(now())
			return next, nil
		}
		if entries, err = since(ctx, next.last.ID+1); err != nil {
			return nil, err
		}
	}
}

// add puts an entry in force. If the earlier snapshot has the entry, it keeps its policies.
func (s *overrideSnapshot) add(e OverrideEntry, earlier *overrideSnapshot) {
	at := overrideKey{e.Limit, e.Key}
	k, o := s.keys[at], &inForce{entry: e, until: e.Until.UnixNano()}
	if earlier != nil {
		for _, known := range []*inForce{earlier.keys[at].block, earlier.keys[at].override} {
			if known != nil && known.entry == e {
				o = known
			}
		}
	}
	switch e.What {
	case OverrideNone:
		k = keyOverrides{}
	case OverrideUnblock:
		k.block = nil
	case OverrideBlock:
		k.block = o
	default:
		k.override = o
	}
	s.last, s.keys[at] = e, k
}

// prune drops what ended more than an hour ago, so that a clock that is set back by less still finds it.
func (s *overrideSnapshot) prune(now int64) {
	for at, k := range s.keys {
		if k = k.live(now - int64(sweepAfter)); k == (keyOverrides{}) {
			delete(s.keys, at)
		} else {
			s.keys[at] = k
		}
	}
}
