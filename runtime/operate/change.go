package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Verb is what a [Change] does.
type Verb string

// The verbs.
const (
	// Grant gives tokens back to a key, up to its capacity, Take takes tokens, available or not, and Reset makes a key full.
	Grant Verb = "grant"
	Take  Verb = "take"
	Reset Verb = "reset"
	// Erase deletes the count of a key, and replaces the key in the log: see [runtime.Eraser].
	Erase Verb = "erase"
	// Block denies all requests, and Unblock ends that and a penalty.
	Block   Verb = "block"
	Unblock Verb = "unblock"
	// Override gives other numbers, another plan or a mode, and End ends that and a block.
	Override Verb = "override"
	End      Verb = "end"
)

// Change is a write of an operator: to the count of a key, or to what is in force for a key or for a whole limit.
type Change struct {
	Verb Verb
	// Limit is the name of the limit.
	Limit string
	// Key is the key, from [runtime.CatalogLimit.ParseKey] or ParseStored. The zero Key is only the one of a limit without
	// a key, so that a forgotten Key changes nothing.
	Key runtime.Key
	// Whole, in place of a Key, means all keys of the limit: for Block, Unblock, Override and End.
	Whole bool
	// Tokens are how many to Grant or Take, at least 1, and Plan is by which plan, if the limit depends on it.
	Tokens int64
	Plan   string
	// Zone and Since are the time zone and the anniversary of the key, as "Europe/Berlin" and "2024-05-31", if the limit
	// has windows of its own for each key. They are for changes of its count.
	Zone, Since string
	// Rate, Capacity and MaxReserved, ToPlan or Mode ("unlimited", "off" or "shadow") are what an Override gives; 0 and ""
	// leave them as they are. As in limits.yaml, the Capacity of a limit in flight is its slots. To Grant and Take, the
	// numbers are those of the key, if callers give some of the limit.
	Rate, Capacity, MaxReserved int64
	ToPlan, Mode                string
	// Until is when a Block or an Override ends, or For is in how long.
	Until time.Time
	For   time.Duration
	// Reason and Author are for the log. Required.
	Reason, Author string
}

// Done is a [Change] that was made.
type Done struct {
	// Entry is its entry in the log.
	Entry runtime.OverrideEntry
	// Stored reports whether the key had a count in the store; without one, it was full. It is true for a whole limit.
	Stored bool
	// Erased is what an Erase has erased.
	Erased runtime.Erased
	// Had and Has are the tokens of the key before and after a Grant or a Take. After a Reset, a key is full.
	Had, Has float64
}

// Apply makes a change, after an entry in the log of the store. All writes of operators are made by it. An error that is
// [ErrUsage] or [runtime.ErrNoOverrides] means that nothing was written.
func (p Program) Apply(ctx context.Context, c Change) (Done, error) {
	l, err := p.limit(c.Limit)
	if err != nil {
		return Done{}, err
	}
	if err := c.checkSubject(l); err != nil {
		return Done{}, err
	}
	if err := override.CheckCounts(ctx, p.Store, l.Policies[0]); err != nil {
		return Done{}, fmt.Errorf("nothing was changed: %w", err)
	}
	done := Done{Stored: true}
	if !c.Whole {
		if done.Stored, err = p.hasRow(ctx, l.Name, c.Key.String()); err != nil {
			return Done{}, fmt.Errorf("nothing was changed: %w", err)
		}
	}
	if c.Verb == Erase {
		err = p.erase(ctx, c, &done)
	} else if logged[c.Verb] != "" {
		err = p.count(ctx, l, c, &done)
	} else {
		done.Entry, err = p.putInForce(ctx, l, c)
	}
	return done, err
}

// logged are the words of the log for changes of counts; "" for the other verbs.
var logged = map[Verb]string{
	Grant: runtime.OverrideGranted, Take: runtime.OverrideTaken, Reset: runtime.OverrideReset, Erase: runtime.OverrideErased,
	Block: "", Unblock: "", Override: "", End: "",
}

// checkSubject returns an error unless the change is for a key that the limit can have, or rightly for the whole limit.
func (c *Change) checkSubject(l *runtime.CatalogLimit) error {
	what, known := logged[c.Verb]
	switch {
	case !known:
		return usagef("there is no change %q", c.Verb)
	case c.Whole && what != "":
		return usagef("%s is for one key, not for the whole limit", c.Verb)
	case c.Whole && c.Key.String() != "":
		return usagef("give a key or the whole limit, not both")
	case c.Whole:
		return nil
	}
	if _, err := l.ParseStored(c.Key.String()); err != nil {
		return usageError{err}
	}
	return nil
}

// erase erases a key.
func (p Program) erase(ctx context.Context, c Change, d *Done) (err error) {
	s, ok := ability.Of[runtime.Eraser](p.Store)
	if !ok {
		return fmt.Errorf("nothing was changed: %w", ability.Missing(runtime.ErrNoErase, p.Store))
	}
	d.Erased, err = s.Erase(ctx, c.Limit, c.Key.String(), runtime.OverrideEnd{Reason: c.Reason, Author: c.Author})
	d.Entry = d.Erased.Entry
	for _, refused := range []error{runtime.ErrOverrideInForce, runtime.ErrInvalidKey, runtime.ErrInvalidOverride} {
		if errors.Is(err, refused) {
			err = usageError{err}
		}
	}
	return err
}

// count changes the count of a key, after an entry in the log. The other order could leave a change without an entry.
func (p Program) count(ctx context.Context, l *runtime.CatalogLimit, c Change, d *Done) error {
	policy, err := p.policy(l, &c)
	if err != nil {
		return err
	}
	key, err := inCalendar(l, c.Key, c.Zone, c.Since)
	if err != nil {
		return err
	}
	log, ok := ability.Of[override.Store](p.Store)
	if !ok {
		return fmt.Errorf("nothing was changed: the store keeps no log: %w", ability.Missing(runtime.ErrNoOverrides, p.Store))
	}
	policy = policy.Inside().Except(key.String())
	limit := limiter.New(p.Store).Limit(policy, key)
	before, err := limit.Peek(ctx)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if of, err := log.OverrideView().PolicyOf(policy, key.String()); c.Verb != Reset && err == nil && of.Inside().Uncounted() {
		if policy.Mode.Passes() {
			return usagef("%s is %v, so that no tokens are counted", c.Limit, policy.Mode)
		}
		entry, _ := of.Override()
		return usagef("no tokens of this key are counted, because of entry %d of the log: end that override first", entry)
	}
	if d.Entry, err = c.write(ctx, log); err != nil {
		return err
	}
	d.Had = before.Value
	if d.Has, err = c.change(ctx, limit); err != nil {
		return fmt.Errorf("entry %d of the log was written, but the count may not have changed: %w", d.Entry.ID, err)
	}
	return nil
}

// write writes the entry of a change of a count.
func (c *Change) write(ctx context.Context, log override.Store) (runtime.OverrideEntry, error) {
	at, err := present(ctx, log)
	if err != nil {
		return runtime.OverrideEntry{}, fmt.Errorf("nothing was changed: %w", err)
	}
	e := runtime.OverrideEntry{
		Limit: c.Limit, Key: c.Key.String(), What: logged[c.Verb], Until: at, At: at, Reason: c.Reason, Author: c.Author,
	}
	if c.Verb != Reset {
		e.Rate, e.Most.Rate = c.Tokens, c.Tokens
	}
	if err := e.Validate(); err != nil {
		return e, usageError{err}
	}
	written, err := log.AppendOverride(ctx, e)
	if err != nil {
		return e, fmt.Errorf("nothing was changed, because the log cannot be written: %w", err)
	}
	return written, nil
}

// change changes a count, and returns the tokens after it.
func (c *Change) change(ctx context.Context, limit limiter.Limit) (has float64, err error) {
	var d runtime.Decision
	switch c.Verb {
	case Grant:
		// An instant of 0 is for tokens that belong to no request.
		d, err = limit.RefundN(ctx, runtime.Decision{Taken: c.Tokens, TakenAt: time.Unix(0, 0)}, c.Tokens)
	case Take:
		d, err = limit.Charge(ctx, c.Tokens)
	case Reset:
		err = limit.Reset(ctx)
	}
	return d.Value, err
}

// policy returns the policy by which to change the count.
func (p Program) policy(l *runtime.CatalogLimit, c *Change) (*runtime.Policy, error) {
	// All plans share the rows, which a reset deletes.
	if c.Verb == Reset {
		return l.Policies[0], nil
	}
	all, err := p.Policies(l, c.Plan)
	if err != nil {
		return nil, err
	}
	const most = 2 * runtime.MaxTokens
	switch of := all[0].Policy; {
	case len(all) > 1:
		return nil, usagef("%s depends on the plan: give the plan of the key as -plan %s", c.Limit,
			strings.Join(p.Catalog.Plans, ", -plan "))
	case of.Kind == runtime.InFlight:
		return nil, usagef("%s is in flight: its slots are acquired and released by what runs; reset frees all slots of a key", c.Limit)
	case c.Tokens < 1 || c.Tokens > most:
		return nil, usagef("the number of tokens must be from 1 to %d, not %d", int64(most), c.Tokens)
	case of.Mode.Passes():
		// An override may give the key another plan.
		return of, nil
	default:
		return c.numbers().of(of, true)
	}
}

func (c *Change) numbers() numbers { return numbers{c.Rate, c.Capacity, c.MaxReserved} }

// present returns the time of the store, whose clock is known after a read of the log.
func present(ctx context.Context, log override.Store) (time.Time, error) {
	err := log.OverrideView().Refresh(ctx)
	return time.Unix(0, log.OverrideView().Now()).UTC(), err
}

// putInForce writes a block, an override or the end of one.
func (p Program) putInForce(ctx context.Context, l *runtime.CatalogLimit, c Change) (e runtime.OverrideEntry, err error) {
	policy := l.Policies[0]
	if !policy.Overridable() {
		return e, usagef("%s has no overrides: add overrides to it in limits.yaml", c.Limit)
	}
	log, ok := ability.Of[override.Store](p.Store)
	if !ok {
		return e, ability.Missing(runtime.ErrNoOverrides, p.Store)
	}
	until := c.Until
	switch {
	case c.For < 0 || c.For > 0 && !until.IsZero():
		return e, usagef("it ends either at an instant or in a positive time, not at %v and in %v", until, c.For)
	case c.For > 0:
		if until, err = present(ctx, log); err != nil {
			return e, err
		}
		until = until.Add(c.For)
	}
	if until.After(runtime.ForGood()) {
		return e, usagef("it would end after %s, the last day that can be stored: to leave it without an end, use -for-good (in a program, Until: runtime.ForGood())",
			runtime.ForGood().UTC().Format(time.DateOnly))
	}
	of, end := limiter.New(p.Store).Overrides(policy, c.Key), runtime.OverrideEnd{Reason: c.Reason, Author: c.Author}
	switch c.Verb {
	case Unblock:
		if e, err = of.Unblock(ctx, end); err != nil && e.ID != 0 {
			return e, fmt.Errorf("entry %d of the log was written, but the penalty may not have ended: %w", e.ID, err)
		}
	case End:
		e, err = of.End(ctx, end)
	case Block:
		e, err = of.Block(ctx, runtime.Block{Until: until, Reason: c.Reason, Author: c.Author})
	default:
		e, err = c.override(ctx, of, policy, until)
	}
	switch {
	case errors.Is(err, runtime.ErrNoOverride):
		what, of := "an override nor a block", "the key itself"
		if c.Verb == Unblock {
			what = "a block nor a penalty"
		}
		if c.Whole {
			of = "the whole limit"
		}
		err = usageError{nothingToEnd(fmt.Sprintf("limit %q: there is nothing to end: neither %s of %s is in force",
			c.Limit, what, of))}
	case errors.Is(err, runtime.ErrInvalidOverride):
		err = usageError{err}
	}
	return e, err
}

// nothingToEnd is a [runtime.ErrNoOverride] in other words: beside what an Unblock ends, an override may be in force.
type nothingToEnd string

func (n nothingToEnd) Error() string { return string(n) }

func (nothingToEnd) Unwrap() error { return runtime.ErrNoOverride }

// liftingModes are the modes that an override can have.
var liftingModes = map[string]runtime.Mode{"": runtime.ModeEnforce, "shadow": runtime.ModeShadow, "off": runtime.ModeOff,
	"unlimited": runtime.ModeUnlimited}

// override writes an override that ends at an instant.
func (c *Change) override(ctx context.Context, of limiter.Overrides, p *runtime.Policy, until time.Time) (runtime.OverrideEntry, error) {
	mode, ok := liftingModes[c.Mode]
	if !ok {
		return runtime.OverrideEntry{}, usagef("the mode is unlimited, off or shadow, not %q: to deny requests, use block", c.Mode)
	}
	if c.numbers() == (numbers{}) && c.ToPlan == "" && c.Mode == "" {
		return runtime.OverrideEntry{}, usagef("nothing is overridden: give numbers, a plan or a mode; to deny requests, use block")
	}
	n := c.numbers().by(p)
	v := runtime.Override{
		Rate: n.Rate, Capacity: n.Capacity, MaxReserved: n.MaxReserved, Slots: n.Slots,
		Mode: mode, Until: until, Reason: c.Reason, Author: c.Author,
	}
	if c.ToPlan != "" {
		v.Plan = override.PlanName(c.ToPlan)
	}
	return of.Set(ctx, v)
}
