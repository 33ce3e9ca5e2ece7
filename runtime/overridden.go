package runtime

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// overridden returns a call with the policies that are in force for its keys. If there are none, it returns the call
// itself: the requests are copied before they are changed, because a reservation keeps the policies that the caller
// has given. Without limits that have overrides it does nothing.
func (l *Limiter) overridden(ctx context.Context, c Call) (_ Call, changed bool, err error) {
	if !c.overridable() {
		return c, false, nil
	}
	s, view, err := l.overrides(ctx)
	if err != nil {
		return c, false, err
	}
	// One instant for the whole call: requests for one key must have one policy.
	now := int64(math.MinInt64)
	for i := range c.Requests {
		q := &c.Requests[i]
		if !q.Policy.Overridable() {
			continue
		}
		p, _, err := s.policy(q.Policy, q.Key, func() int64 {
			if now == math.MinInt64 {
				now = view.now()
			}
			return now
		})
		switch {
		case err != nil:
			return c, false, err
		case p == q.Policy:
			continue
		case !changed:
			c.Requests, changed = slices.Clone(c.Requests), true
		}
		c.Requests[i].Policy = p
	}
	return c, changed, nil
}

// doAll executes calls that belong to reservations, without the timeouts and the OnError of their limits.
func (l *Limiter) doAll(ctx context.Context, calls []Call) ([]Answer, error) {
	for i, c := range calls {
		c, _, err := l.overridden(ctx, c)
		if err != nil {
			return nil, err
		}
		calls[i] = c
	}
	return l.store.Do(ctx, calls)
}

// overridable reports whether a limit of the call can have overrides.
func (c Call) overridable() bool {
	for i := range c.Requests {
		if c.Requests[i].Policy.Overridable() {
			return true
		}
	}
	return false
}

// needsOverrides reports whether a call fails if the overrides cannot be read: whatever its mode, a key may be blocked.
func (c Call) needsOverrides() bool {
	return slices.ContainsFunc(c.Requests, func(q Request) bool {
		return q.Policy.Overridable() && q.Policy.OnError == FailClosed && q.Policy.Mode != ModeShadow
	})
}

// decidedBy returns the policy by which d was made. It is not the handle's if an override was in force.
func (h Handle) decidedBy(d Decision) *Policy {
	if d.Policy == nil {
		return h.policy
	}
	return d.Policy
}

// overrides returns what this process holds in memory, after reading it at the first use.
func (l *Limiter) overrides(ctx context.Context) (*overrideSnapshot, *OverrideView, error) {
	s, ok := l.store.(OverrideStore)
	if !ok {
		return nil, nil, ErrNoOverrides
	}
	view := s.OverrideView()
	load := view.load
	if l.inTx {
		load = func(ctx context.Context) (*overrideSnapshot, error) { return view.loadInTx(ctx, s) }
	}
	snapshot, err := load(ctx)
	return snapshot, view, err
}

// inForceNow returns the policy in force for a key and the instant at which that ends by itself, without a request to the
// store. It is false if the overrides have not been read, or have a problem.
func (l *Limiter) inForceNow(p *Policy, key string) (_ *Policy, until int64, ok bool) {
	if !p.Overridable() {
		return p, math.MaxInt64, true
	}
	s, isStore := l.store.(OverrideStore)
	if !isStore {
		return nil, 0, false
	}
	view := s.OverrideView()
	snapshot := view.snapshot.Load()
	if snapshot == nil {
		return nil, 0, false
	}
	p, until, err := snapshot.policy(p, key, view.now)
	return p, until, err == nil
}

// sleepForRetry waits until a denied request may pass: for the given time, or until another policy is in force for one of
// the keys than the one by which it was denied.
func (l *Limiter) sleepForRetry(ctx context.Context, wait time.Duration, requests []Request, denied []Decision) error {
	if !(Call{Requests: requests}).overridable() {
		return sleep(ctx, wait)
	}
	s, ok := l.store.(OverrideStore)
	if !ok {
		return sleep(ctx, wait)
	}
	view, begin := s.OverrideView(), time.Now()
	for {
		snapshot := view.snapshot.Load()
		if snapshot == nil {
			return sleep(ctx, wait-time.Since(begin))
		}
		next := wait - time.Since(begin)
		for i, q := range requests {
			p, until, ok := l.inForceNow(q.Policy, q.Key)
			// By value, because a cached denial has the policy of another request.
			if ok && denied[i].Policy != nil && *p != *denied[i].Policy {
				// Even if it denies more: the next try finds that.
				return ctx.Err()
			}
			if ok && until != math.MaxInt64 {
				next = min(next, time.Duration(until-view.now()))
			}
		}
		if next <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-snapshot.changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Override returns the number of the entry in the log of overrides that was in force for the request, or false if none
// was. Policy then has the numbers of the override.
func (d Decision) Override() (entry int64, ok bool) {
	if d.Policy == nil {
		return 0, false
	}
	return d.Policy.Overrides.entry, d.Policy.Overrides.entry != 0
}

// errOverridesInTx is the error of a store in a transaction of the caller.
func errOverridesInTx() error {
	return fmt.Errorf("%w: overrides cannot be written in a transaction of the caller", ErrInvalidOverride)
}
