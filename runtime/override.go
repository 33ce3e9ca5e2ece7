package runtime

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Overrides give single keys, or all keys of a limit, other numbers or another plan while the program runs, lift the limit
// or block it. Each has an end, a reason and an author, and is an entry of a log that is never changed.
//
// A limit has overrides if its policy has [Policy.Overrides]. What is in force for a key is, in this order:
//
//  1. a block of the whole limit or of the key,
//  2. the override of the key,
//  3. the override of the whole limit,
//  4. the policy itself, which is that of the plan if the limit has plans.
//
// A new block or override replaces the one before, of the same key. Tokens that were used stay used whatever the numbers
// are: see [State.Value]. See [OverrideView] for when processes decide by a new entry.
var (
	// ErrInvalidOverride: an override lacks an end, a reason or an author, or exceeds what the limit declares as the most.
	ErrInvalidOverride = errors.New("invalid override")
	// ErrNoOverride: there is nothing to end, because neither an override nor a block of the key is in force.
	ErrNoOverride = errors.New("no override is in force")
	// ErrUnknownOverride: the override in force was written by another version, and this one does not understand it.
	ErrUnknownOverride = errors.New("unknown override")
	// ErrNoOverrides: the store cannot keep overrides.
	ErrNoOverrides = errors.New("the store does not support overrides")
)

// ForGood as the end of an override means that it has none.
var ForGood = instant(math.MaxInt64)

// Override is what an operator gives a key in place of the numbers of its plan or of limits.yaml: a plan, numbers, or a
// Mode. A number of 0 is that of the plan. If the plan's capacity equals its rate, Rate without Capacity is both.
type Override struct {
	// Plan is the plan whose numbers the key gets, a constant of generated code or a [PlanText]; nil keeps the key's own.
	Plan encoding.TextMarshaler
	// Rate, Capacity and MaxReserved are in tokens, at most those of the policy's [OverrideBounds]. They have no effect on
	// a key whose plan is unlimited.
	Rate, Capacity, MaxReserved int64
	// Mode is ModeOff or ModeUnlimited, which both lift the limit, or ModeShadow, without plan and numbers. Limits can be
	// lifted if their [OverrideBounds] have Unlimited. The zero Mode changes none. See [Block] to deny requests.
	Mode Mode
	// Until is when the override ends, at once and without a process that runs then; [ForGood] if it never does. Required.
	Until time.Time
	// Reason and Author are for the log: text without control characters, at most [MaxReason] and [MaxKey] bytes. Required.
	Reason, Author string
}

// Block denies all requests for a key. Its fields are those of an [Override], and required.
type Block struct {
	Until          time.Time
	Reason, Author string
}

// OverrideEnd says why overrides are ended before their time. Its fields are those of an [Override], and required.
type OverrideEnd struct {
	Reason, Author string
}

// MaxReason is the longest reason of an override, in bytes.
const MaxReason = 1000

// PlanText is the name of a plan, for [Override.Plan] where the generated constants are not known.
type PlanText string

// MarshalText returns the name.
func (p PlanText) MarshalText() ([]byte, error) { return []byte(p), nil }

// The values of [OverrideEntry.What].
const (
	// OverridePlan gives the key another plan, and possibly other numbers.
	OverridePlan = "plan"
	// OverrideNumbers gives it other numbers.
	OverrideNumbers = "numbers"
	// OverrideUnlimited, OverrideOff and OverrideShadow lift the limit, by the Mode with that name.
	OverrideUnlimited = "unlimited"
	OverrideOff       = "off"
	OverrideShadow    = "shadow"
	// OverrideBlock denies all requests, and OverrideUnblock ends that.
	OverrideBlock   = "block"
	OverrideUnblock = "unblock"
	// OverrideNone ends whatever is in force.
	OverrideNone = "none"
)

// OverrideEntry is an entry of the log of overrides.
type OverrideEntry struct {
	// ID numbers the entries of a store from 1, in the order in which they were committed.
	ID int64
	// Limit is the name of the limit.
	Limit string
	// Key is the key as it is stored; see [Key.String]. It is empty for the whole limit.
	Key string
	// What the entry does: one of the constants above, or a word of a later version.
	What string
	// Plan is the name of a plan, or empty.
	Plan string
	// Rate, Capacity and MaxReserved are those of the Override.
	Rate, Capacity, MaxReserved int64
	// Most is the most that the limit declared when the entry was written. A store refuses an entry that exceeds it.
	Most OverrideBounds
	// Until is when the entry ends; [ForGood] if it never does. An entry that ends another one has At in it.
	Until time.Time
	// Reason and Author are those of the Override.
	Reason, Author string
	// At is when the entry was written, by the clock of the store.
	At time.Time
}

// within reports whether the entry stays within its Most.
func (e *OverrideEntry) within() bool {
	m, lifts := &e.Most, e.What == OverrideUnlimited || e.What == OverrideOff || e.What == OverrideShadow
	return min(e.Rate, e.Capacity, e.MaxReserved) >= 0 && e.Rate <= m.Rate && e.Capacity <= m.Capacity &&
		e.MaxReserved <= m.MaxReserved && (!lifts || m.Unlimited)
}

// Validate returns nil for an entry that a store may append, and otherwise an error that wraps [ErrInvalidOverride].
func (e *OverrideEntry) Validate() error {
	switch {
	case !e.within():
		return fmt.Errorf("%w: it exceeds the most that the limit declares", ErrInvalidOverride)
	case e.Limit == "" || e.What == "":
		return fmt.Errorf("%w: the entry has no limit, or does nothing", ErrInvalidOverride)
	case strings.TrimSpace(e.Reason) == "" || len(e.Reason) > MaxReason || !printable(e.Reason):
		return fmt.Errorf("%w: it needs a reason, of at most %d bytes of UTF-8 without control characters", ErrInvalidOverride, MaxReason)
	case strings.TrimSpace(e.Author) == "" || len(e.Author) > MaxKey || !printable(e.Author):
		return fmt.Errorf("%w: it needs an author, of at most %d bytes of UTF-8 without control characters", ErrInvalidOverride, MaxKey)
	case e.Until.IsZero():
		return fmt.Errorf("%w: Until is not set: say when it ends, or ForGood", ErrInvalidOverride)
	case e.Until.After(ForGood) || e.Until.Before(time.Unix(0, 0)):
		return fmt.Errorf("%w: its end, %v, is out of range: for an override without an end, set ForGood", ErrInvalidOverride, e.Until)
	}
	return nil
}

// Overriding has the methods that write and read the overrides of one key, or of a whole limit. They are requests to the
// store, as the operator makes them; see [OverrideView] for when they are in force. Their errors are
// [ErrInvalidOverride], upon which nothing was written, [ErrNoOverrides], [ErrInvalidKey], [ErrInvalidPolicy], or the
// store's. In a transaction of the caller they return [ErrInvalidOverride].
type Overriding struct {
	of Handle
}

// OverridableLimit is a [Limit] with overrides.
type OverridableLimit struct {
	Limit
	Overriding
}

// OverridableReservableLimit is a [ReservableLimit] with overrides.
type OverridableReservableLimit struct {
	ReservableLimit
	Overriding
}

// OverridableReserveOnlyLimit is a [ReserveOnlyLimit] with overrides.
type OverridableReserveOnlyLimit struct {
	ReserveOnlyLimit
	Overriding
}

// Overridable returns one key of a limit with overrides and without reservations.
func (l *Limiter) Overridable(p *Policy, key Key) OverridableLimit {
	return OverridableLimit{l.Limit(p, key), Overriding{l.handle(p, key)}}
}

// OverridableReservable returns one key of a limit with overrides and reservations.
func (l *Limiter) OverridableReservable(p *Policy, key Key) OverridableReservableLimit {
	return OverridableReservableLimit{l.Reservable(p, key), Overriding{l.handle(p, key)}}
}

// OverridableReserveOnly returns one key of a limit with overrides and capacity 0.
func (l *Limiter) OverridableReserveOnly(p *Policy, key Key) OverridableReserveOnlyLimit {
	return OverridableReserveOnlyLimit{l.ReserveOnly(p, key), Overriding{l.handle(p, key)}}
}

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

// EndOverride ends the override and the block in force. It returns the entry of the log, or [ErrNoOverride] if there are
// none. Those of the whole limit stay in force for the key.
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

// append appends an entry that fill completes, given what is in force for the key.
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
	if err := fill(&e, v.snapshot.Load().keys[overrideKey{e.Limit, e.Key}].live(now)); err != nil {
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

// complete sets what an entry does, and reports a problem of the override with a policy.
func (v *Override) complete(e *OverrideEntry, p *Policy) error {
	if v.Plan != nil {
		name, err := v.Plan.MarshalText()
		if err == nil {
			e.Plan = string(name)
			p, err = p.Overrides.plans.policyOf(e.Plan)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidOverride, err)
		}
	}
	numbers := v.Rate != 0 || v.Capacity != 0 || v.MaxReserved != 0
	switch {
	case v.Mode != ModeEnforce && (numbers || v.Plan != nil):
		return fmt.Errorf("%w: with a Mode it can have neither a plan nor numbers", ErrInvalidOverride)
	case v.Mode == ModeShadow || v.Mode == ModeOff || v.Mode == ModeUnlimited:
		if !p.Overrides.Unlimited {
			return fmt.Errorf("%w: the limit cannot be lifted: declare overrides with rate: unlimited in limits.yaml", ErrInvalidOverride)
		}
		e.What = v.Mode.String()
	case v.Mode == ModeBlock:
		return fmt.Errorf("%w: ModeBlock is not a Mode of it: use the method Block", ErrInvalidOverride)
	case v.Mode != ModeEnforce:
		return fmt.Errorf("%w: %v is not a Mode", ErrInvalidOverride, v.Mode)
	case v.Plan != nil:
		e.What = OverridePlan
	case numbers:
		e.What = OverrideNumbers
	default:
		return fmt.Errorf("%w: it has no plan, no number and no Mode, so it changes nothing", ErrInvalidOverride)
	}
	if !numbers {
		return nil
	}
	return v.checkNumbers(p)
}
