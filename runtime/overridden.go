package runtime

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// override replaces the policies of a call by those in force for their keys. The requests are copied before they are
// changed, because a reservation keeps the policies that the caller has given. The error is about limits whose policies
// are not replaced. now is the instant at which the policies are in force, 0 if no key of the call has any.
func (l *Limiter) override(ctx context.Context, c *Call) (changed bool, now int64, err error) {
	var view *OverrideView
	var snapshot *overrideSnapshot
	// One instant for the whole call: requests for one key must have one policy.
	present := func() int64 {
		if now == 0 {
			now = view.now()
		}
		return now
	}
	for i := range c.Requests {
		q := &c.Requests[i]
		if !q.Policy.Overridable() {
			continue
		}
		if snapshot == nil {
			if view, snapshot, err = l.overrides(ctx); err != nil {
				return false, 0, err
			}
		}
		p, _, problem := snapshot.policy(q.Policy, q.Key, present)
		switch {
		case problem != nil:
			// The others still apply: OnError must not let a request pass whose key is blocked.
			err = problem
			continue
		case p == q.Policy:
			continue
		case !changed:
			c.Requests, changed = slices.Clone(c.Requests), true
		}
		c.Requests[i].Policy = p
	}
	return changed, now, err
}

// overrides returns what this process holds in memory, after reading it at the first use.
func (l *Limiter) overrides(ctx context.Context) (*OverrideView, *overrideSnapshot, error) {
	s, ok := l.store.(OverrideStore)
	if !ok {
		return nil, nil, ErrNoOverrides
	}
	view := s.OverrideView()
	if !l.inTx {
		s = nil
	}
	snapshot, err := view.load(ctx, s)
	return view, snapshot, err
}

// needsOverrides reports whether a call fails if the overrides cannot be read: whatever its mode, a key may be blocked.
func (c *Call) needsOverrides() bool {
	return slices.ContainsFunc(c.Requests, func(q Request) bool {
		return q.Policy.Overridable() && q.Policy.OnError == FailClosed && q.Policy.Mode != ModeShadow
	})
}

// doAll executes calls that belong to reservations, without the timeouts and the OnError of their limits.
func (l *Limiter) doAll(ctx context.Context, calls []Call) ([]Answer, error) {
	for i := range calls {
		if _, _, err := l.override(ctx, &calls[i]); err != nil {
			return nil, err
		}
	}
	answers, err := l.store.Do(ctx, calls)
	if err != nil && l.settles {
		return l.afterTx(ctx, calls, err)
	}
	return answers, err
}

// inForceNow returns the policy in force for a key without a request to the store. It is false if the overrides have not
// been read, or have a problem.
func (l *Limiter) inForceNow(p *Policy, key string) (*Policy, bool) {
	if !p.Overridable() {
		return p, true
	}
	s, ok := l.store.(OverrideStore)
	if !ok {
		return nil, false
	}
	view := s.OverrideView()
	snapshot := view.snapshot.Load()
	if snapshot == nil {
		return nil, false
	}
	p, _, err := snapshot.policy(p, key, view.now)
	return p, err == nil
}

// present is the time by which overrides end.
func (l *Limiter) present() int64 {
	if s, ok := l.store.(OverrideStore); ok {
		return s.OverrideView().now()
	}
	return time.Now().UnixNano()
}

// sleepForRetry waits until a denied request may pass: for the given time, or until another policy is in force for one of
// the keys than the one by which it was denied.
func (l *Limiter) sleepForRetry(ctx context.Context, wait time.Duration, requests []Request, denied []Decision) error {
	s, ok := l.store.(OverrideStore)
	if !ok || !s.OverrideView().InUse() {
		return sleep(ctx, wait, nil)
	}
	view, begin := s.OverrideView(), time.Now()
	for {
		snapshot := view.snapshot.Load()
		next := min(wait-time.Since(begin), snapshot.lasts(requests, denied, view.now))
		if err := sleep(ctx, next, snapshot.changed); err != nil || next <= 0 {
			return err
		}
	}
}

// lasts returns how long the policies by which requests were denied stay in force. It is 0 if one of them was replaced,
// even by one that denies more: the next try finds that.
func (s *overrideSnapshot) lasts(requests []Request, denied []Decision, now func() int64) time.Duration {
	shortest := Never
	for i, q := range requests {
		if !q.Policy.Overridable() || denied[i].Policy == nil {
			continue
		}
		p, until, err := s.policy(q.Policy, q.Key, now)
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

// live returns the entries that have not ended.
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
	for _, o := range [...]*inForce{lastOf(whole.block, own.block), own.override, whole.override} {
		if o = o.live(at); o != nil {
			p, err = o.policy(p)
			return p, o.until, err
		}
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

type sinceFunc = func(ctx context.Context, id int64) ([]OverrideEntry, error)

// updated returns the snapshot after reading the new entries, or s without any. s may be nil.
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
	case OverrideGranted, OverrideTaken, OverrideReset:
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
