package limiter

import (
	"context"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
)

// Overrides writes and reads the overrides of one key of a limit, or those of all its keys together. Its methods are
// requests to the store, as an operator makes them; see [runtime.Override] for when they are in force. Their errors are
// [runtime.ErrInvalidOverride], upon which nothing was written, [runtime.ErrNoOverrides], [runtime.ErrInvalidKey],
// [runtime.ErrInvalidPolicy], or the store's. In a transaction of the caller they return [runtime.ErrInvalidOverride].
type Overrides struct{ of Limit }

// Overrides returns the overrides of one key of a limit.
func (l *Limiter) Overrides(p *runtime.Policy, key runtime.Key) Overrides {
	return Overrides{l.Limit(p, key)}
}

// OverridesForAll returns the overrides of all keys of a limit together.
func (l *Limiter) OverridesForAll(p *runtime.Policy) Overrides { return l.Overrides(p, runtime.Key{}) }

// Set puts an override in force, in place of the one before. It returns the entry of the log.
func (o Overrides) Set(ctx context.Context, v runtime.Override) (runtime.OverrideEntry, error) {
	return o.append(ctx, func(e *runtime.OverrideEntry, _, _ bool) error { return v.Complete(e, o.of.policy) })
}

// Block denies all requests. An override of the key is in force again when the block ends. It returns the entry of the
// log.
func (o Overrides) Block(ctx context.Context, b runtime.Block) (runtime.OverrideEntry, error) {
	return o.append(ctx, func(e *runtime.OverrideEntry, _, _ bool) error {
		e.What, e.Until, e.Reason, e.Author = runtime.OverrideBlock, b.Until, b.Reason, b.Author
		return nil
	})
}

// Unblock ends the block in force, and a penalty of the key, and leaves an override in force. It returns the entry of
// the log, or [runtime.ErrNoOverride] if there is neither a block nor a penalty.
func (o Overrides) Unblock(ctx context.Context, end runtime.OverrideEnd) (runtime.OverrideEntry, error) {
	of, penalty, err := o.penalized(ctx)
	if err != nil {
		return runtime.OverrideEntry{}, err
	}
	e, err := o.end(ctx, runtime.OverrideUnblock, end, penalty)
	if err == nil && penalty {
		_, err = of.do(ctx, runtime.Request{Op: runtime.Reset, PenaltyOnly: true}, nil)
	}
	return e, err
}

// penalized reports whether the key has a penalty, whatever its plan, and also if the limit is lifted now. It returns the
// key with a plan that has penalties.
func (o Overrides) penalized(ctx context.Context) (of Limit, penalty bool, err error) {
	of = o.of
	if of.policy = of.policy.Inside().Plan((*runtime.Policy).Penalizes); of.policy == nil {
		return of, false, nil
	}
	// A penalty does not depend on the windows of the key.
	of.key = of.key.In(time.UTC).Since(time.Unix(0, 0))
	q := runtime.Request{Op: runtime.Peek}
	_, err = o.store(ctx)
	if err == nil {
		_, err = of.complete(&q)
	}
	if err != nil {
		return of, false, err
	}
	answers, err := of.limiter.store.Do(ctx, []runtime.Call{{Requests: []runtime.Request{q}}})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return of, false, o.of.wrap(err)
	}
	return of, answers[0].Decisions[0].PenaltyFor > 0, nil
}

// End ends the override and the block in force. It returns the entry of the log, or [runtime.ErrNoOverride] if the
// key has neither. Those of all keys stay in force for the key.
func (o Overrides) End(ctx context.Context, end runtime.OverrideEnd) (runtime.OverrideEntry, error) {
	return o.end(ctx, runtime.OverrideNone, end, false)
}

// History returns the entries of the log about the key, or about all keys, the oldest first.
func (o Overrides) History(ctx context.Context) ([]runtime.OverrideEntry, error) {
	s, err := o.store(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := s.OverrideHistory(ctx, o.of.policy.Name, o.of.key.String())
	if err != nil {
		return nil, o.of.wrap(err)
	}
	return entries, nil
}

func (o Overrides) end(ctx context.Context, what string, end runtime.OverrideEnd, penalty bool) (runtime.OverrideEntry, error) {
	return o.append(ctx, func(e *runtime.OverrideEntry, blocked, overridden bool) error {
		if !blocked && !penalty && (!overridden || what == runtime.OverrideUnblock) {
			return runtime.ErrNoOverride
		}
		e.What, e.Until, e.Reason, e.Author = what, e.At, end.Reason, end.Author
		return nil
	})
}

// append appends an entry that fill completes, given what is in force for the key.
func (o Overrides) append(ctx context.Context, fill func(e *runtime.OverrideEntry, blocked, overridden bool) error) (runtime.OverrideEntry, error) {
	s, err := o.store(ctx)
	if err != nil {
		return runtime.OverrideEntry{}, err
	}
	if err := override.CheckCounts(ctx, o.of.limiter.store, o.of.policy); err != nil {
		return runtime.OverrideEntry{}, o.of.wrap(err)
	}
	e, err := o.entry(ctx, s.OverrideView(), fill)
	if err == nil {
		e, err = s.AppendOverride(ctx, e)
	}
	if err != nil {
		return runtime.OverrideEntry{}, o.of.wrap(err)
	}
	// It is written, and in force after the interval even if this fails.
	_ = s.OverrideView().Refresh(ctx)
	return e, nil
}

// entry returns the entry that fill completes, if it is valid.
func (o Overrides) entry(ctx context.Context, v *override.View, fill func(e *runtime.OverrideEntry, blocked, overridden bool) error) (e runtime.OverrideEntry, err error) {
	// Also so that the clock of the store is known.
	if err := v.Refresh(ctx); err != nil {
		return e, err
	}
	p, now := o.of.policy, v.Now()
	e = runtime.OverrideEntry{Limit: p.Name, Key: o.of.key.String(), At: arith.Time(now)}
	blocked, overridden := v.Snapshot().Has(e.Limit, e.Key, now)
	if err := fill(&e, blocked, overridden); err != nil {
		return e, err
	}
	if err := e.Validate(); err != nil {
		return e, err
	}
	e.Until = e.Until.Round(0).UTC()
	if !e.Ends() && !e.Until.After(e.At) {
		return e, fmt.Errorf("%w: its end, %v, is not after the present, %v", runtime.ErrInvalidOverride, e.Until, e.At)
	}
	return e, nil
}

// store returns the store, if it can keep overrides of the limit.
func (o Overrides) store(ctx context.Context) (override.Store, error) {
	l := o.of
	if l.limiter == nil || l.limiter.store == nil {
		return nil, l.wrap(runtime.ErrNoStore)
	}
	s, ok := ability.Of[override.Store](l.limiter.store)
	switch err := l.policy.Validate(); {
	case l.key.Err() != nil:
		return nil, l.wrap(l.key.Err())
	case contextErr(ctx) != nil:
		return nil, l.wrap(contextErr(ctx))
	case err != nil:
		return nil, l.wrap(err)
	case !l.policy.Overridable():
		return nil, l.wrap(fmt.Errorf("%w: the limit has no overrides: add overrides to it in limits.yaml", runtime.ErrInvalidOverride))
	case l.limiter.inTx:
		return nil, l.wrap(runtime.ErrOverridesInTx)
	case !ok:
		return nil, l.wrap(ability.Missing(runtime.ErrNoOverrides, l.limiter.store))
	}
	return s, nil
}
