package runtime

import (
	"context"
	"math"
	"slices"
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
		answers, err = l.afterTx(ctx, calls, err)
	}
	for i := range answers {
		if answers[i].Answered() {
			l.learn(calls[i], &answers[i])
		}
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
