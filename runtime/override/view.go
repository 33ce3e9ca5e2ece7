// Package override holds the overrides of a store's log in memory, and finds the policy that is in force for a key.
package override

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// DefaultEvery is how often a process reads the new entries of the log of overrides, unless the store has an option
// for it.
const DefaultEvery = 5 * time.Second

// View is the overrides that a process holds in memory. A decision looks its key up there, and no request to the
// store is added to it.
//
// The first request for a limit with overrides starts a goroutine that reads the log, and after that the new entries once per
// interval, until the store is closed. Requests for such limits wait for the end of the first read, within their timeouts and
// deadlines. If they cannot wait that long, or the read fails, they fail with [runtime.ErrOverridesUnread], subject to the limit's
// OnError; the read goes on, and after an error it is tried again at most a second later, from the page that has failed.
//
// So another process decides by an entry within the interval and the time of a read, and on a replica
// or a cluster's node when the entry has arrived there; the process that wrote it does so at once. A denial that another
// process has cached is dropped together with the policy it was made by. An entry ends by the store's clock, whether or
// not anything can be read then. If a later read fails, the entries in force stay in force, and the next read is an interval
// later.
//
// An entry in force takes about half a kilobyte, and one that has ended nothing. A change copies some kilobytes, so that
// decisions need no lock.
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
}

// firstRead is a read of the log by the goroutine of a view that has not been loaded.
type firstRead struct {
	done chan struct{}
	err  error
}

// Source is what a store gives its [View].
type Source struct {
	// Since is [Store.OverridesSince].
	Since func(ctx context.Context, id int64) ([]runtime.OverrideEntry, error)
	// Now is the clock of the store, in nanoseconds since 1970 UTC. It must not make a request.
	Now func() int64
	// Every is the interval between two reads; 0 means [DefaultEvery].
	Every time.Duration
	// Background runs a function in a goroutine with a context that ends when the store is closed, and also if it is closed
	// already. If it is nil, nothing is read in the background: for a store whose entries are all written by this process.
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
		for _, k := range s.shards[i].keys {
			for _, o := range [...]*inForce{k.block.live(now), k.override.live(now)} {
				if o != nil {
					all = append(all, o.entry)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b runtime.OverrideEntry) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// PolicyOf returns the policy in force for a key of a limit as of the last read: p itself if it has neither an override nor a
// block. [runtime.Decision.Override] of a decision with that policy is the entry. The error is [runtime.ErrUnknownOverride].
func (v *View) PolicyOf(p *runtime.Policy, key string) (*runtime.Policy, error) {
	s := v.snapshot.Load()
	if s == nil || !p.Overridable() {
		return p, nil
	}
	p, _, err := s.Policy(p, key, v.Now)
	return p, err
}

// Problems returns an error for each entry in force that this version does not understand, or whose plan the limits do not
// have. Entries of limits that are not among the policies may belong to another program: only their kind is checked, and
// [View.Unused] names them. A number
// beyond the limit's bounds is no problem, because it is reduced to them. The policies may be nil.
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

// Unused returns nil, or an error that wraps [runtime.ErrUnusedOverrides] and names the limits with blocks or overrides in force that
// are not among the policies, or have no overrides any more.
func (v *View) Unused(policies []*runtime.Policy) error {
	type unused struct{ blocks, overrides int }
	byLimit := map[string]*unused{}
	for _, e := range v.InForce() {
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
			limit, why, words.Counted(of.blocks, "block"), words.Counted(of.overrides, "override"), runtime.ErrUnusedOverrides, remedy))
	}
	return errors.Join(all...)
}

// Sweepable is the function [meter.Sweepable] for limits that may have overrides: a row that is full by the policies may not be
// by the numbers that its key has now.
func (v *View) Sweepable(policies []*runtime.Policy, row runtime.Row, s runtime.State, now int64) bool {
	judges, snapshot := slices.Clone(policies), v.snapshot.Load()
	for _, p := range policies {
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
			effective, err := o.entry.Apply(p, nil)
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

// Load returns the overrides, and waits for the first read if that is not complete. In a transaction of the caller, given as
// in, it reads by itself: the transaction may have the only connection of the pool, for which the goroutine that reads waits.
func (v *View) Load(ctx context.Context, in Store) (_ *Snapshot, err error) {
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

// awaitFirst waits for the attempt in flight to read the log for the first time. Between two attempts it returns the error of
// the last one at once.
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

// Refresh reads the new entries of the log, and puts them in force. If it fails, the pages that were read are kept for the
// next Refresh.
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

// Snapshot is the overrides as of one read. It is never changed.
type Snapshot struct {
	// last is the newest entry that was read.
	last   runtime.OverrideEntry
	shards *parts
	// changed is closed when another snapshot replaces this one.
	changed chan struct{}
}

// Changed returns a channel that is closed when another snapshot replaces this one.
func (s *Snapshot) Changed() <-chan struct{} { return s.changed }

// Has reports whether a block and an override of a key, or with the key "" of the whole limit, are in force.
func (s *Snapshot) Has(limit, key string, now int64) (block, override bool) {
	k := s.of(limit, key).live(now)
	return k.block != nil, k.override != nil
}

// parts is a map in parts, so that a change copies one of them: at 100,000 keys, 200 of these and the 8 kB of the
// parts themselves.
type parts [512]part

type part struct {
	keys map[limitKey]keyOverrides
	// ends is when the first entry ends, or earlier.
	ends int64
}

// limitKey is a key of a limit, or the whole limit if key is empty.
type limitKey struct{ limit, key string }

var shardSeed = maphash.MakeSeed()

func (k limitKey) shard() int {
	return int(maphash.String(shardSeed, k.key) % uint64(len(parts{})))
}

// of returns the overrides of a key, or with the key "" those of the whole limit.
func (s *Snapshot) of(limit, key string) keyOverrides {
	at := limitKey{limit, key}
	return s.shards[at.shard()].keys[at]
}

// keyOverrides is the newest block and override of a key. Each may have ended.
type keyOverrides struct{ block, override *inForce }

// inForce is an entry, and the policies that it puts in force.
type inForce struct {
	entry runtime.OverrideEntry
	until int64
	// policies are made at their first use, and kept: a lease belongs to the address of its policy.
	policies atomic.Pointer[[]effectivePolicy]
}

// effectivePolicy is the policy in force in place of base, until next is.
type effectivePolicy struct {
	base, next, effective *runtime.Policy
	err                   error
}

// maxEffective is how many policies of an entry are kept, more than a limit has plans. Only a program that makes a policy
// for each request has more.
const maxEffective = 256

// policy returns the policy that is in force in place of base, until next is.
func (o *inForce) policy(base, next *runtime.Policy) (*runtime.Policy, error) {
	var known []effectivePolicy
	before := o.policies.Load()
	if before != nil {
		known = *before
	}
	outdated := -1
	for i := range known {
		switch {
		case known[i].base != base:
		case known[i].next == next:
			return known[i].effective, known[i].err
		default:
			outdated = i
		}
	}
	effective, err := o.entry.Apply(base, next)
	kept := slices.Clone(known)
	if made := (effectivePolicy{base, next, effective, err}); outdated < 0 {
		kept = append(kept, made)
	} else {
		kept[outdated] = made
	}
	if len(kept) <= maxEffective && !o.policies.CompareAndSwap(before, &kept) {
		return o.policy(base, next)
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

// live returns the entries that have not ended.
func (k keyOverrides) live(now int64) keyOverrides {
	return keyOverrides{k.block.live(now), k.override.live(now)}
}

// Policy returns the policy in force for a key, and the instant at which that ends by itself.
func (s *Snapshot) Policy(p *runtime.Policy, key string, now func() int64) (_ *runtime.Policy, until int64, err error) {
	p = p.Base() // p may have come from a decision
	whole, own := s.of(p.Name, ""), s.of(p.Name, key)
	if whole == (keyOverrides{}) && own == (keyOverrides{}) {
		return p, math.MaxInt64, nil
	}
	order := [...]*inForce{lastOf(whole.block, own.block), own.override, whole.override}
	return firstOf(order[:], p, now())
}

// firstOf returns the policy that the first of some entries which has not ended puts in force in place of p, and when that
// ends by itself. The policy has the ones that follow it: each is in force only after the entries before it have ended.
func firstOf(order []*inForce, p *runtime.Policy, now int64) (_ *runtime.Policy, until int64, err error) {
	for i, o := range order {
		if o = o.live(now); o == nil {
			continue
		}
		var next *runtime.Policy
		if o.until != math.MaxInt64 {
			if next, _, err = firstOf(order[i+1:], p, o.until); err != nil {
				next = nil
			}
		}
		p, err = o.policy(p, next)
		return p, o.until, err
	}
	return p, math.MaxInt64, nil
}

// lastOf returns the one that ends last. Both may be nil.
func lastOf(a, b *inForce) *inForce {
	if a == nil || b != nil && b.until > a.until {
		return b
	}
	return a
}

// Lasts returns how long the policies by which requests were denied stay in force. It is 0 if one of them was replaced,
// even by one that denies more: the next try finds that.
func (s *Snapshot) Lasts(requests []runtime.Request, denied []runtime.Decision, now func() int64) time.Duration {
	shortest := runtime.Never
	for i, q := range requests {
		if !q.Policy.Overridable() || denied[i].Policy == nil {
			continue
		}
		p, until, err := s.Policy(q.Policy, q.Key, now)
		switch {
		case err != nil:
		case *p != *denied[i].Policy:
			// Not by address, because a cached denial has the policy of another request.
			return 0
		case until != math.MaxInt64:
			shortest = min(shortest, time.Duration(until-now()))
		}
	}
	return shortest
}

type sinceFunc = func(ctx context.Context, id int64) ([]runtime.OverrideEntry, error)

// builder makes a snapshot from an earlier one and the entries after it.
type builder struct {
	last runtime.OverrideEntry
	// shards is from's until the first change, and owned are the parts that are not shared with from.
	shards *parts
	owned  [len(parts{})]bool
	from   *Snapshot
}

var noShards parts

// builder returns a builder on top of s, which may be nil.
func (s *Snapshot) builder() *builder {
	if s == nil {
		return &builder{shards: &noShards}
	}
	return &builder{last: s.last, shards: s.shards, from: s}
}

// read reads the log from the last entry to its end. It can be called again after an error.
func (b *builder) read(ctx context.Context, since sinceFunc) error {
	for {
		entries, err := since(ctx, max(1, b.last.ID))
		if err != nil {
			return fmt.Errorf("read the overrides: %w", err)
		}
		full := len(entries) >= Page
		switch {
		case b.last.ID == 0:
		case len(entries) == 0, entries[0].ID == b.last.ID && entries[0] != b.last:
			// The log has lost entries, as after a failover or a restored backup: it must be read from its beginning.
			*b = builder{shards: &noShards, from: b.from}
			continue
		case entries[0].ID == b.last.ID:
			entries = entries[1:]
		}
		for _, e := range entries {
			b.add(e)
		}
		if !full {
			return nil
		}
	}
}

// add puts an entry in force. If the earlier snapshot has the entry, it keeps its policies.
func (b *builder) add(e runtime.OverrideEntry) {
	b.last = e
	if e.What == runtime.OverrideGranted || e.What == runtime.OverrideTaken || e.What == runtime.OverrideReset {
		return
	}
	at := limitKey{e.Limit, e.Key}
	shard := b.writable(at.shard())
	k, o := shard.keys[at], &inForce{entry: e, until: e.Until.UnixNano()}
	if b.from != nil {
		earlier := b.from.of(e.Limit, e.Key)
		for _, known := range [...]*inForce{earlier.block, earlier.override} {
			if known != nil && known.entry == e {
				o = known
			}
		}
	}
	switch e.What {
	case runtime.OverrideNone:
		k = keyOverrides{}
	case runtime.OverrideUnblock:
		k.block = nil
	case runtime.OverrideBlock:
		k.block = o
	default:
		k.override = o
	}
	shard.put(at, k)
}

// put keeps the overrides of a key, if it has any.
func (s *part) put(at limitKey, k keyOverrides) {
	if k == (keyOverrides{}) {
		delete(s.keys, at)
		return
	}
	s.keys[at] = k
	for _, o := range [...]*inForce{k.block, k.override} {
		if o != nil {
			s.ends = min(s.ends, o.until)
		}
	}
}

// writable returns a part that no snapshot has.
func (b *builder) writable(i int) *part {
	if b.owned == [len(b.owned)]bool{} {
		shards := *b.shards
		b.shards = &shards
	}
	shard := &b.shards[i]
	if !b.owned[i] {
		b.owned[i] = true
		if shard.keys = maps.Clone(shard.keys); shard.keys == nil {
			*shard = part{map[limitKey]keyOverrides{}, math.MaxInt64}
		}
	}
	return shard
}

// drop removes what has ended.
func (b *builder) drop(now int64) {
	for i := range b.shards {
		if len(b.shards[i].keys) == 0 || b.shards[i].ends > now {
			continue
		}
		shard := b.writable(i)
		shard.ends = math.MaxInt64
		for at, k := range shard.keys {
			shard.put(at, k.live(now))
		}
	}
}

// DefaultKeep is how long the log keeps entries that have ended or were replaced, unless the store has an option for
// it: a year.
const DefaultKeep = 365 * 24 * time.Hour

// class is whether an entry is about blocks or about overrides. Of each, the newest entry of a key is in force.
type class struct {
	key   limitKey
	block bool
}

// classesOf returns the classes of an entry: both for one that ends whatever is in force, and neither for a record of an operation.
func classesOf(e *runtime.OverrideEntry) []class {
	key := limitKey{e.Limit, e.Key}
	switch e.What {
	case runtime.OverrideGranted, runtime.OverrideTaken, runtime.OverrideReset:
		return nil
	case runtime.OverrideNone:
		return []class{{key, true}, {key, false}}
	}
	return []class{{key, e.What == runtime.OverrideBlock || e.What == runtime.OverrideUnblock}}
}

// Obsolete returns the IDs of entries that a store may delete from its log, because they ended, or were replaced,
// before an instant. The log must have all entries in their order, up to the first one that was written since then. Nothing
// that is in force changes, for processes that read the log later, and for those that have read a part of it:
//
//   - The newest entry stays, so that its ID is not used again.
//   - The newest block of a key, and its newest override, stay as long as the log has older ones, which they have ended or
//     replaced. So they are deleted by the sweep after the one that has deleted those.
func Obsolete(log []runtime.OverrideEntry, before time.Time) (ids []int64) {
	type span struct{ first, last int }
	spans := map[class]span{}
	for i := range log {
		if !log[i].At.Before(before) {
			log = log[:i+1]
			break
		}
		for _, class := range classesOf(&log[i]) {
			of, ok := spans[class]
			if !ok {
				of.first = i
			}
			of.last = i
			spans[class] = of
		}
	}
	for i := range log[:max(0, len(log)-1)] {
		obsolete, needed := log[i].Until.Before(before), false
		for _, class := range classesOf(&log[i]) {
			of := spans[class]
			obsolete = obsolete || i < of.last
			needed = needed || i == of.last && of.first < i
		}
		if obsolete && !needed {
			ids = append(ids, log[i].ID)
		}
	}
	return ids
}

// Endings returns the entries that end the blocks and overrides in force of a limit, for a store that forgets the limit.
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

// Store is a [runtime.Store] with a log of overrides.
type Store interface {
	runtime.Store
	// AppendOverride validates an entry, and appends it with the next ID, which it returns. An entry is visible to other
	// processes only after all those before it.
	AppendOverride(ctx context.Context, e runtime.OverrideEntry) (runtime.OverrideEntry, error)
	// OverridesSince returns the entries from an ID on, in their order: all, or the first [Page]. A sweep of the store
	// may have deleted the ones that [Obsolete] returns.
	OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error)
	// OverrideHistory returns the entries of a key of a limit, or with the key "" those of the whole limit, in their order.
	OverrideHistory(ctx context.Context, limit, key string) ([]runtime.OverrideEntry, error)
	// OverrideView returns the overrides that this process holds in memory, always the same one.
	OverrideView() *View
}

// Page is how many entries [Store.OverridesSince] returns at once.
const Page = 1000
