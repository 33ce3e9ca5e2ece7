package runtime

import (
	"context"
	"slices"
)

// override replaces the policies of a call by those in force for their keys. The requests are copied before they are
// changed, because a reservation keeps the policies that the caller has given. The error is about limits whose policies
// are not replaced. now is the instant at which the policies are in force, 0 if no key of the call has any.
func (l *Limiter) override(ctx context.Context, c *Call) (changed bool, now int64, err error) {
	var view *OverrideView
	var snapshot *OverrideSnapshot
	// One instant for the whole call: requests for one key must have one policy.
	present := func() int64 {
		if now == 0 {
			now = view.Now()
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
		p, _, problem := snapshot.Policy(q.Policy, q.Key, present)
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
func (l *Limiter) overrides(ctx context.Context) (*OverrideView, *OverrideSnapshot, error) {
	s, ok := l.store.(OverrideStore)
	if !ok {
		return nil, nil, ErrNoOverrides
	}
	view := s.OverrideView()
	if !l.inTx {
		s = nil
	}
	snapshot, err := view.Load(ctx, s)
	return view, snapshot, err
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
	snapshot := view.Snapshot()
	if snapshot == nil {
		return nil, false
	}
	p, _, err := snapshot.Policy(p, key, view.Now)
	return p, err == nil
}
