// Package override holds the overrides of a store's log in memory, and finds the policy that is in force for a key.
package override

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
)

// DefaultEvery is how often a process reads the new entries of the log of overrides, unless the store has an option
// for it.
const DefaultEvery = 5 * time.Second

// View is the overrides that a process holds in memory. A decision looks its key up there, and no request to the
// store is added to it.
//
// The first request for a limit with overrides starts a goroutine that reads the log, and after that the new entries
// once per interval, until the store is closed. Requests for such limits wait for the end of the first read, within
// their timeouts and deadlines. If they cannot wait that long, or the read fails, they fail with
// [runtime.ErrOverridesUnread], subject to the limit's OnError; the read goes on, and after an error it is tried again
// at most a second later, from the page that has failed.
//
// So another process decides by an entry within the interval and the time of a read, and on a replica or a cluster's
// node when the entry has arrived there; the process that wrote it does so at once. A denial that another process has
// cached is dropped together with the policy it was made by. An entry ends by the store's clock, whether or not
// anything can be read then. If a later read fails, the entries in force stay in force, and the next read is an
// interval later.
//
// An entry in force takes about 120 bytes, its key and its reason, and one that has ended nothing. A change copies some
// kilobytes, so that decisions need no lock.
type View struct {
	source Source
	// snapshot is nil until the log has been read.
	snapshot atomic.Pointer[Snapshot]
	// loaded is closed when the log has been read.
	loaded chan struct{}
	// reading has one element while a goroutine reads. It guards next.
	reading chan struct{}
	// next has the pages of a read that is not complete, or is nil.
	next *builder

	// mu guards the rest, and the storing of snapshots.
	mu sync.Mutex
	// following is whether the goroutine that reads has been started, and stopped whether it has returned.
	following, stopped bool
	// attempt is the read for which first requests wait, and failed the error of the last one.
	attempt *firstRead
	failed  error
	// relaxed is the mode of [View.Relax], and onRelaxed is called with it; nil for none.
	relaxed   runtime.Mode
	onRelaxed func(runtime.Mode)
}

// firstRead is a read of the log by the goroutine of a view that has not been loaded.
type firstRead struct {
	done chan struct{}
	err  error
}

// Source is what a store gives its [View].
type Source struct {
	// Since is [Reader.OverridesSince].
	Since func(ctx context.Context, id int64) ([]runtime.OverrideEntry, error)
	// Now is the clock of the store, in nanoseconds since 1970 UTC. It must not make a request.
	Now func() int64
	// Every is the interval between two reads; 0 means [DefaultEvery].
	Every time.Duration
	// Background runs a function in a goroutine with a context that ends when the store is closed, and also if it is
	// closed already. If it is nil, nothing is read in the background: for a store whose entries are all written by
	// this process.
	Background func(f func(ctx context.Context))
}

// New returns an empty view of a log. It reads nothing yet.
func New(source Source) *View {
	if source.Every <= 0 {
		source.Every = DefaultEvery
	}
	return &View{source: source, loaded: make(chan struct{}), reading: make(chan struct{}, 1)}
}

// InUse reports whether the log has been read, as it is for the first request to a limit with overrides.
func (v *View) InUse() bool { return v.snapshot.Load() != nil }

// InForce returns the entries in force, in the order of their IDs.
func (v *View) InForce() (all []runtime.OverrideEntry) {
	s := v.snapshot.Load()
	if s == nil {
		return nil
	}
	now := v.Now()
	for i := range s.shards {
		for _, o := range s.shards[i].entries {
			if o.live(now) != nil {
				all = append(all, o.entry())
			}
		}
	}
	slices.SortFunc(all, func(a, b runtime.OverrideEntry) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// PolicyOf returns the policy in force for a key of a limit as of the last read: p itself if it has neither an override
// nor a block. [runtime.Decision.Override] of a decision with that policy is the entry. The error is
// [runtime.ErrUnknownOverride].
func (v *View) PolicyOf(p *runtime.Policy, key string) (*runtime.Policy, error) {
	s := v.snapshot.Load()
	if s == nil || !p.Overridable() {
		return p, nil
	}
	return s.Policy(p, key, v.Now)
}

// Problems returns an error for each entry in force that this version does not understand, or whose plan the limits do
// not have. Entries of limits that are not among the policies may belong to another program: only their kind is
// checked, and [View.Unused] names them. A number beyond the limit's bounds is no problem, because it is reduced to
// them. The policies may be nil.
func (v *View) Problems(policies []*runtime.Policy) (all []error) {
	for _, e := range v.InForce() {
		err := e.Known()
		for _, p := range policies {
			if err == nil && p.Overridable() && p.Name == e.Limit {
				_, err = e.Apply(p, nil)
			}
		}
		if err != nil {
			all = append(all, fmt.Errorf("limit %q: %w", e.Limit, err))
		}
	}
	return all
}

// Unused returns nil, or an error that wraps [runtime.ErrUnusedOverrides] and names the limits with blocks or overrides
// in force that are not among the policies, or have no overrides any more. The others are limits of other programs.
func (v *View) Unused(policies []*runtime.Policy, others ...string) error {
	type unused struct{ blocks, overrides int }
	byLimit := map[string]*unused{}
	for _, e := range v.InForce() {
		if slices.Contains(others, e.Limit) {
			continue
		}
		of := byLimit[e.Limit]
		if of == nil {
			of = new(unused)
			byLimit[e.Limit] = of
		}
		if e.What == runtime.OverrideBlock {
			of.blocks++
		} else {
			of.overrides++
		}
	}
	var exists []string
	for _, p := range policies {
		if p.Overridable() {
			delete(byLimit, p.Name)
		} else if p != nil {
			exists = append(exists, p.Name)
		}
	}
	var all []error
	for _, limit := range slices.Sorted(maps.Keys(byLimit)) {
		of := byLimit[limit]
		why, remedy := "is not among the policies", ", or call Forget of the store to end them"
		if slices.Contains(exists, limit) {
			why, remedy = "has no overrides any more", ""
		}
		all = append(all, fmt.Errorf("limit %q %s, but %s and %s of it are in force: %w; run the SQL that \"ratelimitgen diff\" prints for that edit%s",
			limit, why, words.Counted(of.blocks, "block"), words.Counted(of.overrides, "override"),
			runtime.ErrUnusedOverrides, remedy))
	}
	return errors.Join(all...)
}

// Sweepable is the function [meter.Sweepable] for limits that may have overrides: a row that is full by the policies
// may not be by the numbers that its key has now.
func (v *View) Sweepable(policies []*runtime.Policy, row runtime.Row, s runtime.State, now int64) bool {
	var judges []*runtime.Policy
	for _, p := range policies {
		judges = append(judges, p)
		if of := p.Inside().Except(row.Key); of != p {
			judges = append(judges, of)
		}
	}
	snapshot := v.snapshot.Load()
	for _, p := range slices.Clone(judges) {
		if !p.Overridable() {
			continue
		}
		if snapshot == nil {
			return false
		}
		for _, key := range []string{row.Key, ""} {
			o := snapshot.of(row.Name, key).override
			if o == nil {
				continue
			}
			effective, err := o.apply(p, nil, o.until)
			if err != nil {
				return false
			}
			judges = append(judges, effective)
		}
	}
	return meter.Sweepable(judges, row, s, now)
}

// Now returns the instant by the clock of the store, in nanoseconds since 1970 UTC.
func (v *View) Now() int64 { return v.source.Now() }

// Snapshot returns the overrides as of the last read, or nil if the log has not been read.
func (v *View) Snapshot() *Snapshot { return v.snapshot.Load() }

// Load returns the overrides, and waits for the first read if that is not complete. In a transaction of the caller,
// given as in, it reads by itself: the transaction may have the only connection of the pool, for which the goroutine
// that reads waits.
func (v *View) Load(ctx context.Context, in Reader) (_ *Snapshot, err error) {
	if snapshot := v.snapshot.Load(); snapshot != nil {
		return snapshot, nil
	}
	switch follows := v.follow(); {
	case in != nil:
		b := v.snapshot.Load().builder()
		if err = b.read(ctx, in.OverridesSince); err == nil {
			v.publish(b)
		}
	case follows:
		err = v.awaitFirst(ctx)
	default:
		err = v.Refresh(ctx)
	}
	if snapshot := v.snapshot.Load(); snapshot != nil {
		return snapshot, nil
	}
	return nil, fmt.Errorf("%w: %w", runtime.ErrOverridesUnread, err)
}

// awaitFirst waits for the attempt in flight to read the log for the first time. Between two attempts it returns the
// error of the last one at once.
func (v *View) awaitFirst(ctx context.Context) error {
	v.mu.Lock()
	attempt, failed := v.attempt, v.failed
	v.mu.Unlock()
	if attempt == nil {
		return failed
	}
	select {
	case <-attempt.done:
		return attempt.err
	case <-v.loaded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Refresh reads the new entries of the log, and puts them in force. If it fails, the pages that were read are kept for
// the next Refresh.
func (v *View) Refresh(ctx context.Context) error {
	select {
	case v.reading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-v.reading }()
	if v.next == nil {
		v.next = v.snapshot.Load().builder()
	}
	if err := v.next.read(ctx, v.source.Since); err != nil {
		return err
	}
	v.publish(v.next)
	v.next = nil
	v.follow()
	return nil
}

// publish puts what was read in force.
func (v *View) publish(b *builder) {
	b.drop(v.Now())
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.snapshot.Load()
	switch {
	case before == nil:
		defer close(v.loaded)
	case b.shards == before.shards && b.last == before.last:
		return
	default:
		defer close(before.changed)
	}
	v.snapshot.Store(&Snapshot{b.last, b.shards, make(chan struct{})})
}

// follow starts the goroutine that reads, and reports whether it runs.
func (v *View) follow() bool {
	if v.source.Background == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.following {
		v.following, v.attempt = true, &firstRead{done: make(chan struct{})}
		v.source.Background(v.run)
	}
	return !v.stopped
}

// The pauses after a first read that has failed: each is twice the one before.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
)

// run reads the log until that has succeeded, and then once per interval until ctx ends.
func (v *View) run(ctx context.Context) {
	// Processes that were started together do not read together.
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := firstPause; !v.readFirst(ctx); pause = min(2*pause, maxPause) {
		timer.Reset(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-v.loaded:
		case <-ctx.Done():
			v.mu.Lock()
			v.stopped = true
			v.mu.Unlock()
			return
		}
	}
	timer.Reset(rand.N(v.source.Every))
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

// readFirst reads the log unless that has been done, and wakes the requests that wait for it.
func (v *View) readFirst(ctx context.Context) bool {
	v.mu.Lock()
	if v.attempt == nil {
		v.attempt = &firstRead{done: make(chan struct{})}
	}
	attempt := v.attempt
	v.mu.Unlock()
	if !v.InUse() {
		attempt.err = v.Refresh(ctx)
	}
	v.mu.Lock()
	v.attempt, v.failed = nil, attempt.err
	v.mu.Unlock()
	close(attempt.done)
	return attempt.err == nil
}

// Endings returns the entries that end the blocks and overrides in force of a limit, for a store that forgets the
// limit.
func (v *View) Endings(limit string) (all []runtime.OverrideEntry) {
	now, ended := arith.Time(v.Now()), map[string]bool{}
	for _, e := range v.InForce() {
		if e.Limit == limit && !ended[e.Key] {
			ended[e.Key] = true
			all = append(all, runtime.OverrideEntry{
				Limit: limit, Key: e.Key, What: runtime.OverrideNone, Until: now, At: now, Reason: "the limit was removed", Author: "Forget",
			})
		}
	}
	return all
}

// Reader reads a log of overrides. A store in a transaction of the caller is one: it reads there, and writes none.
type Reader interface {
	// OverridesSince returns the entries from an ID on, in their order: all, or the first [Page]. A sweep of the store
	// may have deleted the ones that [Obsolete] returns.
	OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error)
	// OverrideView returns the overrides that this process holds in memory, always the same one.
	OverrideView() *View
}

// Store is a [runtime.Store] with a log of overrides.
type Store interface {
	runtime.Store
	Reader
	// AppendOverride validates an entry, and appends it with the next ID, which it returns. An entry is visible to other
	// processes only after all those before it.
	AppendOverride(ctx context.Context, e runtime.OverrideEntry) (runtime.OverrideEntry, error)
	// OverrideHistory returns the entries of a key of a limit, or with the key "" the entries of the whole limit, in their
	// order.
	OverrideHistory(ctx context.Context, limit, key string) ([]runtime.OverrideEntry, error)
}
