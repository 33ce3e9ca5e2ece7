package runtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	source   OverrideSource
	snapshot atomic.Pointer[overrideSnapshot]
	// reading has one element while a goroutine reads.
	reading chan struct{}
	started atomic.Bool
	read    atomic.Int64
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

// LastRead returns when the log was last read with success, by the clock of this process; zero if it never was.
func (v *OverrideView) LastRead() time.Time {
	if ns := v.read.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

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
	judges := slices.Clone(policies)
	for _, p := range policies {
		if !p.Overridable() {
			continue
		}
		view := v.snapshot.Load()
		if view == nil {
			return false
		}
		of := view.limits[row.Name]
		if of == nil {
			continue
		}
		for _, o := range []*inForce{of.keys[row.Key].override, of.whole.override} {
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

// load returns the overrides, and reads them if that has not been done.
func (v *OverrideView) load(ctx context.Context) (*overrideSnapshot, error) {
	if snapshot := v.snapshot.Load(); snapshot != nil {
		return snapshot, nil
	}
	if err := v.Refresh(ctx); err != nil {
		return nil, err
	}
	return v.snapshot.Load(), nil
}

// loadInTx is load by a store in a transaction of the caller, which may have the only connection of the pool: waiting for
// another goroutine to read would wait for that connection.
func (v *OverrideView) loadInTx(ctx context.Context, s OverrideStore) (*overrideSnapshot, error) {
	if snapshot := v.snapshot.Load(); snapshot != nil {
		return snapshot, nil
	}
	first, err := (*overrideSnapshot)(nil).updated(ctx, s.OverridesSince, v.now)
	if err != nil {
		return nil, fmt.Errorf("read the overrides: %w", err)
	}
	if v.snapshot.CompareAndSwap(nil, first) {
		v.wasRead()
	}
	return v.snapshot.Load(), nil
}

// Refresh reads what is new in the log, and puts it in force.
func (v *OverrideView) Refresh(ctx context.Context) error {
	begun := v.read.Load()
	select {
	case v.reading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-v.reading }()
	// Callers that have waited for the first read need no other one.
	if begun == 0 && v.read.Load() != 0 {
		return nil
	}
	for {
		before := v.snapshot.Load()
		next, err := before.updated(ctx, v.source.Since, v.now)
		if err != nil {
			return fmt.Errorf("read the overrides: %w", err)
		}
		// Only loadInTx changes it meanwhile, once.
		if next != before && !v.snapshot.CompareAndSwap(before, next) {
			continue
		}
		if next != before && before != nil {
			close(before.changed)
		}
		v.wasRead()
		return nil
	}
}

// wasRead notes the time, and starts the goroutine that reads again.
func (v *OverrideView) wasRead() {
	v.read.Store(time.Now().UnixNano())
	if v.source.Background != nil && v.started.CompareAndSwap(false, true) {
		v.source.Background(v.repeat)
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
	last   OverrideEntry
	limits map[string]*limitOverrides
	// changed is closed when another snapshot replaces this one.
	changed chan struct{}
}

// limitOverrides is the overrides of a limit.
type limitOverrides struct {
	whole keyOverrides
	keys  map[string]keyOverrides
}

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
	known := o.policies.Load()
	if known != nil {
		for i := range *known {
			if k := &(*known)[i]; k.base == base {
				return k.effective, k.err
			}
		}
	}
	made := effectivePolicy{base: base}
	made.effective, made.err = o.entry.apply(base)
	var next []effectivePolicy
	if known != nil {
		next = slices.Clone(*known)
	}
	if next = append(next, made); len(next) > maxEffective {
		return made.effective, made.err
	}
	if !o.policies.CompareAndSwap(known, &next) {
		return o.policy(base)
	}
	return made.effective, made.err
}

// live returns o if it has not ended.
func (o *inForce) live(now int64) *inForce {
	if o == nil || o.until != math.MaxInt64 && now >= o.until {
		return nil
	}
	return o
}

// of returns the block and the override in force for exactly a key.
func (s *overrideSnapshot) of(limit, key string, now int64) (block, override *inForce) {
	l := s.limits[limit]
	if l == nil {
		return nil, nil
	}
	k := l.whole
	if key != "" {
		k = l.keys[key]
	}
	return k.block.live(now), k.override.live(now)
}

// find returns what is in force for a key of a limit, or nil.
func (l *limitOverrides) find(key string, now int64) *inForce {
	k := l.keys[key]
	for _, o := range [...]*inForce{l.whole.block, k.block, k.override, l.whole.override} {
		if o = o.live(now); o != nil {
			return o
		}
	}
	return nil
}

// policy returns the policy in force for a key, and the instant at which that ends by itself.
func (s *overrideSnapshot) policy(p *Policy, key string, now func() int64) (_ *Policy, until int64, err error) {
	if p.Overrides.base != nil {
		// A policy that came from a decision.
		p = p.Overrides.base
	}
	l := s.limits[p.Name]
	if l == nil {
		return p, math.MaxInt64, nil
	}
	o := l.find(key, now())
	if o == nil {
		return p, math.MaxInt64, nil
	}
	p, err = o.policy(p)
	return p, o.until, err
}

// inForce returns all that has not ended, in the order of the log.
func (s *overrideSnapshot) inForce(now int64) (all []*inForce) {
	add := func(k keyOverrides) {
		for _, o := range []*inForce{k.block.live(now), k.override.live(now)} {
			if o != nil {
				all = append(all, o)
			}
		}
	}
	for _, l := range s.limits {
		add(l.whole)
		for _, k := range l.keys {
			add(k)
		}
	}
	slices.SortFunc(all, func(a, b *inForce) int { return int(a.entry.ID - b.entry.ID) })
	return all
}

// errRewound: the log does not continue where it was last read, as after a failover that lost its end, or a restored
// backup. It must be read from its beginning.
var errRewound = errors.New("the log of overrides has lost entries")

// updated returns the snapshot after reading what is new, or s if there is nothing.
func (s *overrideSnapshot) updated(ctx context.Context, since func(context.Context, int64) ([]OverrideEntry, error), now func() int64) (*overrideSnapshot, error) {
	if s == nil {
		return (&overrideSnapshot{}).extended(ctx, since, now, nil)
	}
	next, err := s.extended(ctx, since, now, s)
	if errors.Is(err, errRewound) {
		return (&overrideSnapshot{}).extended(ctx, since, now, s)
	}
	return next, err
}

// extended reads the entries after the last of s. The entries that known has too keep their policies.
func (s *overrideSnapshot) extended(
	ctx context.Context, since func(context.Context, int64) ([]OverrideEntry, error), now func() int64, known *overrideSnapshot,
) (*overrideSnapshot, error) {
	entries, err := since(ctx, max(1, s.last.ID))
	if err != nil {
		return nil, err
	}
	if s.last.ID > 0 {
		if len(entries) == 0 || entries[0] != s.last {
			return nil, errRewound
		}
		if len(entries) == 1 {
			return s, nil
		}
	}
	page := len(entries)
	entries = entries[min(1, int(s.last.ID)):]
	next := s.clone()
	for {
		for i := range entries {
			next.add(entries[i], known)
		}
		if page < OverridePage {
			break
		}
		if entries, err = since(ctx, next.last.ID+1); err != nil {
			return nil, err
		}
		page = len(entries)
	}
	next.prune(now())
	return next, nil
}

func (s *overrideSnapshot) clone() *overrideSnapshot {
	next := &overrideSnapshot{last: s.last, limits: make(map[string]*limitOverrides, len(s.limits)), changed: make(chan struct{})}
	for name, l := range s.limits {
		copied := &limitOverrides{whole: l.whole, keys: make(map[string]keyOverrides, len(l.keys))}
		for key, k := range l.keys {
			copied.keys[key] = k
		}
		next.limits[name] = copied
	}
	return next
}

// add puts an entry in force.
func (s *overrideSnapshot) add(e OverrideEntry, known *overrideSnapshot) {
	s.last = e
	switch e.What {
	case OverrideGranted, OverrideTaken, OverrideReset:
		return
	}
	l := s.limits[e.Limit]
	if l == nil {
		l = &limitOverrides{keys: map[string]keyOverrides{}}
		s.limits[e.Limit] = l
	}
	k := l.keys[e.Key]
	if e.Key == "" {
		k = l.whole
	}
	switch e.What {
	case OverrideNone:
		k = keyOverrides{}
	case OverrideUnblock:
		k.block = nil
	case OverrideBlock:
		k.block = known.same(e)
	default:
		k.override = known.same(e)
	}
	if e.Key == "" {
		l.whole = k
	} else {
		l.keys[e.Key] = k
	}
}

// same returns the entry as s has it, or a new one.
func (s *overrideSnapshot) same(e OverrideEntry) *inForce {
	if s != nil && s.limits[e.Limit] != nil {
		l := s.limits[e.Limit]
		k := l.keys[e.Key]
		for _, o := range []*inForce{l.whole.block, l.whole.override, k.block, k.override} {
			if o != nil && o.entry == e {
				return o
			}
		}
	}
	return &inForce{entry: e, until: e.Until.UnixNano()}
}

// prune drops what ended more than an hour ago, so that a clock that is set back by less still finds it.
func (s *overrideSnapshot) prune(now int64) {
	old := func(o *inForce) bool { return o == nil || o.live(now-int64(sweepAfter)) == nil }
	pruned := func(k keyOverrides) keyOverrides {
		if old(k.block) {
			k.block = nil
		}
		if old(k.override) {
			k.override = nil
		}
		return k
	}
	for name, l := range s.limits {
		l.whole = pruned(l.whole)
		for key, k := range l.keys {
			if k = pruned(k); k == (keyOverrides{}) {
				delete(l.keys, key)
			} else {
				l.keys[key] = k
			}
		}
		if len(l.keys) == 0 && l.whole == (keyOverrides{}) {
			delete(s.limits, name)
		}
	}
}
