package runtime

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// OverrideStore is a [Store] with a log of overrides.
type OverrideStore interface {
	Store
	// AppendOverride validates an entry, and appends it with the next ID, which it returns. An entry is visible to other
	// processes only after all those before it.
	AppendOverride(ctx context.Context, e OverrideEntry) (OverrideEntry, error)
	// OverridesSince returns the entries from an ID on, in their order: all, or the first [OverridePage]. A sweep of the store
	// may have deleted the ones that [ObsoleteOverrides] returns.
	OverridesSince(ctx context.Context, id int64) ([]OverrideEntry, error)
	// OverrideHistory returns the entries of a key of a limit, or with the key "" those of the whole limit, in their order.
	OverrideHistory(ctx context.Context, limit, key string) ([]OverrideEntry, error)
	// OverrideView returns the overrides that this process holds in memory, always the same one.
	OverrideView() *OverrideView
}

// OverridePage is how many entries [OverrideStore.OverridesSince] returns at once.
const OverridePage = 1000

// Overriding has the methods that write and read the overrides of one key, or of a whole limit. They are requests to the
// store, as the operator makes them; see [OverrideView] for when they are in force. Their errors are
// [ErrInvalidOverride], upon which nothing was written, [ErrNoOverrides], [ErrInvalidKey], [ErrInvalidPolicy], or the
// store's. In a transaction of the caller they return [ErrInvalidOverride].
type Overriding struct {
	of Handle
}

// OverridableLimit is a [Limit] with overrides.
type OverridableLimit struct {
	taking
	overriding
}

// OverridableReservableLimit is a [ReservableLimit] with overrides.
type OverridableReservableLimit struct {
	reservable
	overriding
}

// OverridableReserveOnlyLimit is a [ReserveOnlyLimit] with overrides.
type OverridableReserveOnlyLimit struct {
	reserveOnly
	overriding
}

// Overridable returns one key of a limit with overrides and without reservations.
func (l *Limiter) Overridable(p *Policy, key Key) OverridableLimit {
	return OverridableLimit{l.Limit(p, key), l.Overriding(p, key)}
}

// OverridableReservable returns one key of a limit with overrides and reservations.
func (l *Limiter) OverridableReservable(p *Policy, key Key) OverridableReservableLimit {
	return OverridableReservableLimit{l.Reservable(p, key), l.Overriding(p, key)}
}

// OverridableReserveOnly returns one key of a limit with overrides and capacity 0.
func (l *Limiter) OverridableReserveOnly(p *Policy, key Key) OverridableReserveOnlyLimit {
	return OverridableReserveOnlyLimit{l.ReserveOnly(p, key), l.Overriding(p, key)}
}

// Overriding returns the overrides of one key of a limit.
func (l *Limiter) Overriding(p *Policy, key Key) Overriding { return Overriding{l.handle(p, key)} }

// WholeLimit returns the overrides of all keys of a limit together.
func (l *Limiter) WholeLimit(p *Policy) Overriding { return Overriding{l.handle(p, Key{})} }

// Override puts an override in force, in place of the one before. It returns the entry of the log.
func (o Overriding) Override(ctx context.Context, v Override) (OverrideEntry, error) {
	return o.append(ctx, func(e *OverrideEntry, _ keyOverrides) error {
		e.Rate, e.Capacity, e.MaxReserved = v.Rate, v.Capacity, v.MaxReserved
		e.Until, e.Reason, e.Author = v.Until, v.Reason, v.Author
		p := o.of.policy
		if e.Key == "" {
			// Its numbers are for all plans: those of an unlimited one say nothing about them.
			p = p.Overrides.plans.counted(p)
		}
		return v.complete(e, p)
	})
}

// Block denies all requests. An override of the key is in force again when the block ends. It returns the entry of the log.
func (o Overriding) Block(ctx context.Context, b Block) (OverrideEntry, error) {
	return o.append(ctx, func(e *OverrideEntry, _ keyOverrides) error {
		e.What, e.Until, e.Reason, e.Author = OverrideBlock, b.Until, b.Reason, b.Author
		return nil
	})
}

// Unblock ends the block in force, and leaves an override in force. It returns the entry of the log, or [ErrNoOverride] if
// there is no block.
func (o Overriding) Unblock(ctx context.Context, end OverrideEnd) (OverrideEntry, error) {
	return o.end(ctx, OverrideUnblock, end)
}

// EndOverride ends the override and the block in force. It returns the entry of the log, or [ErrNoOverride] if the
// key has neither. Those of the whole limit stay in force for the key.
func (o Overriding) EndOverride(ctx context.Context, end OverrideEnd) (OverrideEntry, error) {
	return o.end(ctx, OverrideNone, end)
}

// Overrides returns all entries of the log about the key, or about the whole limit, the oldest first.
func (o Overriding) Overrides(ctx context.Context) ([]OverrideEntry, error) {
	s, err := o.store()
	if err != nil {
		return nil, err
	}
	entries, err := s.OverrideHistory(ctx, o.of.policy.Name, o.of.key.text)
	if err != nil {
		return nil, o.of.wrap(err)
	}
	return entries, nil
}

func (o Overriding) end(ctx context.Context, what string, end OverrideEnd) (OverrideEntry, error) {
	return o.append(ctx, func(e *OverrideEntry, inForce keyOverrides) error {
		if inForce.block == nil && (inForce.override == nil || what == OverrideUnblock) {
			return ErrNoOverride
		}
		e.What, e.Until, e.Reason, e.Author = what, e.At, end.Reason, end.Author
		return nil
	})
}

// append appends an entry that fill completes, given the entries in force for the key.
func (o Overriding) append(ctx context.Context, fill func(e *OverrideEntry, inForce keyOverrides) error) (OverrideEntry, error) {
	s, err := o.store()
	if err != nil {
		return OverrideEntry{}, err
	}
	e, err := o.entry(ctx, s.OverrideView(), fill)
	if err == nil {
		e, err = s.AppendOverride(ctx, e)
	}
	if err != nil {
		return OverrideEntry{}, o.of.wrap(err)
	}
	// It is written, and in force after the interval even if this fails.
	_ = s.OverrideView().Refresh(ctx)
	return e, nil
}

// entry returns the entry that fill completes, if it is valid.
func (o Overriding) entry(ctx context.Context, v *OverrideView, fill func(*OverrideEntry, keyOverrides) error) (e OverrideEntry, err error) {
	// Also so that the clock of the store is known.
	if err := v.Refresh(ctx); err != nil {
		return e, err
	}
	p, now := o.of.policy, v.now()
	e = OverrideEntry{Limit: p.Name, Key: o.of.key.text, Most: p.Overrides.declared(), At: instant(now)}
	if err := fill(&e, v.snapshot.Load().of(e.Limit, e.Key).live(now)); err != nil {
		return e, err
	}
	if err := e.Validate(); err != nil {
		return e, err
	}
	e.Until = e.Until.Round(0).UTC()
	if ends := e.What == OverrideNone || e.What == OverrideUnblock; !ends && !e.Until.After(e.At) {
		return e, fmt.Errorf("%w: its end, %v, is not after the present, %v", ErrInvalidOverride, e.Until, e.At)
	}
	return e, nil
}

// errOverridesInTx: the log is not part of a transaction of the caller.
var errOverridesInTx = fmt.Errorf("%w: overrides cannot be written or read in a transaction of the caller: use the limits without WithTx", ErrInvalidOverride)

// store returns the store, if it can keep overrides for the handle.
func (o Overriding) store() (OverrideStore, error) {
	h := o.of
	if h.limiter == nil || h.limiter.store == nil {
		return nil, h.wrap(ErrNoStore)
	}
	s, ok := h.limiter.store.(OverrideStore)
	switch err := h.policy.Validate(); {
	case h.key.err != nil:
		return nil, h.wrap(h.key.err)
	case err != nil:
		return nil, h.wrap(err)
	case !h.policy.Overridable():
		return nil, h.wrap(fmt.Errorf("%w: the limit has no overrides: add overrides to it in limits.yaml", ErrInvalidOverride))
	case h.limiter.inTx:
		return nil, h.wrap(errOverridesInTx)
	case !ok:
		return nil, h.wrap(ErrNoOverrides)
	}
	return s, nil
}

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
