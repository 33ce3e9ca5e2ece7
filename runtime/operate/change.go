package operate

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
)

// Verb is what a [Change] does.
type Verb string

// The verbs.
const (
	// Grant gives tokens back to a key, up to its capacity, Take takes tokens, available or not, and Reset makes a key full.
	Grant Verb = "grant"
	Take  Verb = "take"
	Reset Verb = "reset"
	// Block denies all requests, and Unblock ends that.
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
	// leave them as they are.
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
	// Had and Has are the tokens of the key before and after a Grant or a Take. After a Reset, a key is full.
	Had, Has float64
}

// Apply makes a change, after an entry in the log of the store. All writes of operators are made by it. An error that is
// [ErrUsage] or [runtime.ErrNoOverrides] means that nothing was written.
func Apply(ctx context.Context, catalog *runtime.Catalog, store runtime.Store, c Change) (Done, error) {
	l, err := limitNamed(catalog, c.Limit)
	if err != nil {
		return Done{}, err
	}
	if c.Verb == Reset {
		c.Tokens = 0
	}
	a := &applying{Change: c, ctx: ctx, catalog: catalog, store: store, limits: limiter.New(store), limit: l}
	do, ofCount := map[Verb]func() (Done, error){Grant: a.count, Take: a.count, Reset: a.count}[c.Verb]
	if !ofCount {
		do = a.inForce
	}
	switch {
	case !slices.Contains([]Verb{Grant, Take, Reset, Block, Unblock, Override, End}, c.Verb):
		return Done{}, usagef("there is no change %q", c.Verb)
	case c.Whole && ofCount:
		return Done{}, usagef("%s is for one key, not for the whole limit", c.Verb)
	case c.Whole && c.Key.String() != "":
		return Done{}, usagef("give a key or the whole limit, not both")
	case c.Whole:
		return do()
	}
	if _, err := l.ParseStored(c.Key.String()); err != nil {
		return Done{}, usageError{err}
	}
	stored, err := hasRow(ctx, store, l.Name, c.Key.String())
	if err != nil {
		return Done{}, fmt.Errorf("nothing was changed: %w", err)
	}
	done, err := do()
	done.Stored = stored
	return done, err
}

// limitNamed returns a limit of the catalog.
func limitNamed(catalog *runtime.Catalog, name string) (*runtime.CatalogLimit, error) {
	l, ok := catalog.Limit(name)
	if !ok {
		var names []string
		for _, l := range catalog.Limits {
			names = append(names, l.Name)
		}
		return nil, usagef("there is no limit %q%s; the limits are %s", name, suggestion(name, names), strings.Join(names, ", "))
	}
	return &l, nil
}

// applying is a change while it is made.
type applying struct {
	Change
	ctx     context.Context
	catalog *runtime.Catalog
	store   runtime.Store
	limits  *limiter.Limiter
	limit   *runtime.CatalogLimit
}

// count changes the count of a key, after an entry in the log. The other order could leave a change without an entry.
func (a *applying) count() (Done, error) {
	p, err := a.policy()
	if err != nil {
		return Done{}, err
	}
	key, err := inCalendar(a.limit, a.Key, a.Zone, a.Since)
	if err != nil {
		return Done{}, err
	}
	log, ok := a.store.(override.Store)
	if !ok {
		return Done{}, fmt.Errorf("nothing was changed: the store keeps no log: %w", runtime.ErrNoOverrides)
	}
	limit := a.limits.Limit(p, key)
	balance, err := limit.Peek(a.ctx)
	if err != nil {
		return Done{}, fmt.Errorf("nothing was changed: %w", err)
	}
	at, err := a.present()
	if err != nil {
		return Done{}, fmt.Errorf("nothing was changed: %w", err)
	}
	done := Done{Had: balance.Value, Entry: runtime.OverrideEntry{
		Limit: a.Limit, Key: key.String(), What: logged[a.Verb], Rate: a.Tokens, Most: runtime.OverrideBounds{Rate: a.Tokens},
		Until: at, At: at, Reason: a.Reason, Author: a.Author,
	}}
	if err := done.Entry.Validate(); err != nil {
		return Done{}, usageError{err}
	}
	if done.Entry, err = log.AppendOverride(a.ctx, done.Entry); err != nil {
		return Done{}, fmt.Errorf("nothing was changed, because the log cannot be written: %w", err)
	}
	d := runtime.Decision{Value: float64(p.Capacity)}
	switch a.Verb {
	case Grant:
		// An instant of 0 is for tokens that belong to no request.
		d, err = limit.RefundN(a.ctx, runtime.Decision{Taken: a.Tokens, TakenAt: time.Unix(0, 0)}, a.Tokens)
	case Take:
		d, err = limit.Charge(a.ctx, a.Tokens)
	case Reset:
		err = limit.Reset(a.ctx)
	}
	if err != nil {
		return done, fmt.Errorf("entry %d of the log was written, but the count may not have changed: %w", done.Entry.ID, err)
	}
	done.Has = d.Value
	return done, nil
}

// logged are the words of the log for changes of counts.
var logged = map[Verb]string{Grant: runtime.OverrideGranted, Take: runtime.OverrideTaken, Reset: runtime.OverrideReset}

// policy returns the policy by which to change the count.
func (a *applying) policy() (*runtime.Policy, error) {
	// All plans share the rows, which a reset deletes.
	if a.Verb == Reset {
		return a.limit.Policies[0], nil
	}
	all, err := policies(a.catalog, a.limit, a.Plan)
	if err != nil {
		return nil, err
	}
	const most = 2 * runtime.MaxTokens
	switch p := all[0].policy; {
	case len(all) > 1:
		return nil, usagef("%s depends on the plan: give the plan of the key as -plan %s", a.Limit, strings.Join(a.catalog.Plans, ", -plan "))
	case !counts(p):
		return nil, usagef("%s is %v, so that no tokens are counted", a.Limit, p.Mode)
	case a.Tokens < 1 || a.Tokens > most:
		return nil, usagef("the number of tokens must be from 1 to %d, not %d", int64(most), a.Tokens)
	default:
		return p, nil
	}
}

// present returns the time of the store.
func (a *applying) present() (time.Time, error) {
	lister, ok := a.store.(runtime.RowLister)
	if !ok {
		return time.Now().UTC(), nil
	}
	_, at, err := lister.Rows(a.ctx, runtime.Row{Name: a.Limit, Key: "\U0010FFFF", Shard: math.MaxInt32}, 1)
	return time.Unix(0, at).UTC(), err
}

// inForce writes a block, an override or the end of one.
func (a *applying) inForce() (Done, error) {
	p := a.limit.Policies[0]
	if !p.Overridable() {
		return Done{}, usagef("%s has no overrides: add overrides to it in limits.yaml", a.Limit)
	}
	of := a.limits.Overrides(p, a.Key)
	if a.Whole {
		of = a.limits.OverridesForAll(p)
	}
	entry, err := a.record(of)
	if errors.Is(err, runtime.ErrInvalidOverride) || errors.Is(err, runtime.ErrNoOverride) {
		err = usageError{err}
	}
	return Done{Entry: entry, Stored: true}, err
}

// liftingModes are the modes that an override can have.
var liftingModes = map[string]runtime.Mode{"": runtime.ModeEnforce, "shadow": runtime.ModeShadow, "off": runtime.ModeOff, "unlimited": runtime.ModeUnlimited}

func (a *applying) record(of limiter.Overrides) (runtime.OverrideEntry, error) {
	switch a.Verb {
	case Unblock:
		return of.Unblock(a.ctx, runtime.OverrideEnd{Reason: a.Reason, Author: a.Author})
	case End:
		return of.End(a.ctx, runtime.OverrideEnd{Reason: a.Reason, Author: a.Author})
	}
	until := a.Until
	switch {
	case a.For < 0 || a.For > 0 && !until.IsZero():
		return runtime.OverrideEntry{}, usagef("it ends either at an instant or in a positive time, not at %v and in %v", until, a.For)
	case a.For > 0:
		at, err := a.present()
		if err != nil {
			return runtime.OverrideEntry{}, err
		}
		until = at.Add(a.For)
	}
	if a.Verb == Block {
		return of.Block(a.ctx, runtime.Block{Until: until, Reason: a.Reason, Author: a.Author})
	}
	mode, ok := liftingModes[a.Mode]
	if !ok {
		return runtime.OverrideEntry{}, usagef("the mode is unlimited, off or shadow, not %q: to deny requests, use block", a.Mode)
	}
	var plan encoding.TextMarshaler
	if a.ToPlan != "" {
		plan = runtime.PlanText(a.ToPlan)
	}
	return of.Set(a.ctx, runtime.Override{
		Plan: plan, Rate: a.Rate, Capacity: a.Capacity, MaxReserved: a.MaxReserved, Mode: mode,
		Until: until, Reason: a.Reason, Author: a.Author,
	})
}

// policies returns the policies by which to read a limit: the one of a plan, or with "" all of them.
func policies(catalog *runtime.Catalog, l *runtime.CatalogLimit, plan string) ([]named, error) {
	var all []named
	for i, p := range l.Policies {
		n := named{policy: p}
		if len(l.Policies) > 1 || len(catalog.Plans) == 1 && p.Mode == runtime.ModeUnlimited {
			n.plan = catalog.Plans[i]
		}
		if plan == "" || plan == n.plan {
			all = append(all, n)
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case len(l.Policies) == 1:
		return nil, usagef("%s does not depend on the plan: leave -plan out", l.Name)
	}
	return nil, usagef("there is no plan %q%s; the plans are %s", plan, suggestion(plan, catalog.Plans), strings.Join(catalog.Plans, ", "))
}

// named is a policy and its plan, if the limit depends on that.
type named struct {
	plan   string
	policy *runtime.Policy
}
