package runtime

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultOverridesEvery is how often a process reads the new entries of the log of overrides, unless the store has an option
// for it.
const DefaultOverridesEvery = 5 * time.Second

// OverrideView is the overrides that a process holds in memory. A decision looks its key up there, and no request to the
// store is added to it.
//
// The first request for a limit with overrides reads the log; until that has succeeded, such requests fail with the
// store's error, subject to the limit's OnError. From then on a goroutine reads the new entries once per interval, until
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
func (v *OverrideView) InForce() (all []OverrideEntry) {
	s := v.snapshot.Load()
	if s == nil {
		return nil
	}
	now := v.now()
	for _, k := range s.keys {
		for _, o := range []*inForce{k.block.live(now), k.override.live(now)} {
			if o != nil {
				all = append(all, o.entry)
			}
		}
	}
	slices.SortFunc(all, func(a, b OverrideEntry) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// PolicyOf returns the policy in force for a key of a limit as of the last read: p itself if it has neither an override nor a
// block. [Decision.Override] of a decision with that policy is the entry. The error is [ErrUnknownOverride].
func (v *OverrideView) PolicyOf(p *Policy, key string) (*Policy, error) {
	s := v.snapshot.Load()
	if s == nil || !p.Overridable() {
		return p, nil
	}
	p, _, err := s.policy(p, key, v.now)
	return p, err
}

// Problems returns an error for each entry in force that this version does not understand, or whose plan the limits do not
// have. Entries of limits that are not among the policies may belong to another program: only their kind is checked. A number
// beyond the limit's bounds is no problem, because it is reduced to them. The policies may be nil.
func (v *OverrideView) Problems(policies []*Policy) (all []error) {
	for _, e := range v.InForce() {
		err := e.known()
		for _, p := range policies {
			if err == nil && p.Overridable() && p.Name == e.Limit {
				_, err = e.apply(p, nil)
			}
		}
		if err != nil {
			all = append(all, fmt.Errorf("limit %q: %w", e.Limit, err))
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
			effective, err := o.entry.apply(p, nil)
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

// Refresh reads the new entries of the log, and puts them in force.
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

// update reads the new entries, and starts the goroutine that does so again.
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
		// The entries in force stay in force after an error.
		_ = v.Refresh(ctx)
		timer.Reset(v.source.Every - time.Since(begin))
	}
}
