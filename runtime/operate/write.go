package operate

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// grant gives tokens back to a key.
func (c *call) grant() error {
	return c.change(runtime.OverrideGranted, func(p *runtime.Policy, key runtime.Key) (string, error) {
		// A refund of tokens taken at the last instant of all: none of them has accrued again since.
		d, err := c.limits.Limit(p, key).RefundN(c.ctx, runtime.Decision{TakenAt: time.Unix(0, math.MaxInt64)}, c.flags.n)
		return "has " + tokens(d.Value) + " tokens", err
	})
}

// take takes tokens from a key, whether it has them or not.
func (c *call) take() error {
	return c.change(runtime.OverrideTaken, func(p *runtime.Policy, key runtime.Key) (string, error) {
		d, err := c.limits.Limit(p, key).Charge(c.ctx, c.flags.n)
		return "has " + tokens(d.Value) + " tokens", err
	})
}

// reset makes a key full.
func (c *call) reset() error {
	return c.change(runtime.OverrideReset, func(p *runtime.Policy, key runtime.Key) (string, error) {
		return "is full", c.limits.Limit(p, key).Reset(c.ctx)
	})
}

// change changes the count of a key, after an entry in the log. The other order could leave a change without an entry.
func (c *call) change(what string, apply func(p *runtime.Policy, key runtime.Key) (now string, err error)) error {
	l, key, err := c.limitAndKey()
	if err != nil {
		return err
	}
	p := l.Policies[0]
	// All plans share the rows, which a reset deletes.
	if what != runtime.OverrideReset {
		if p, err = c.counting(l); err != nil {
			return err
		}
	}
	log, ok := c.store.(runtime.OverrideStore)
	if !ok {
		return fmt.Errorf("nothing was changed: the store keeps no log: %w", runtime.ErrNoOverrides)
	}
	balance, err := c.limits.Limit(p, key).Peek(c.ctx)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	at, err := c.present()
	if err != nil {
		return err
	}
	entry := runtime.OverrideEntry{
		Limit: l.Name, Key: key.String(), What: what, Rate: c.flags.n, Most: runtime.OverrideBounds{Rate: c.flags.n},
		Until: at, At: at, Reason: c.flags.reason, Author: c.flags.author,
	}
	if err := entry.Validate(); err != nil {
		return usageError{err}
	}
	if entry, err = log.AppendOverride(c.ctx, entry); err != nil {
		return fmt.Errorf("nothing was changed, because the log cannot be written: %w", err)
	}
	now, err := apply(p, key)
	if err != nil {
		return fmt.Errorf("entry %d of the log was written, but the count may not have changed: %w", entry.ID, err)
	}
	_, err = fmt.Fprintf(c.out, "%s, key %s had %s tokens and now %s (entry %d of the log)\n",
		l.Name, printable(orShared(key)), tokens(balance.Value), now, entry.ID)
	return err
}

// counting returns the policy by which -n tokens are granted or taken.
func (c *call) counting(l *runtime.CatalogLimit) (*runtime.Policy, error) {
	p, err := c.onePolicy(l)
	if err != nil {
		return nil, err
	}
	if !counts(p) {
		return nil, usagef("%s is %v, so that no tokens are counted", l.Name, p.Mode)
	}
	if most := int64(2 * runtime.MaxTokens); c.flags.n > most {
		return nil, usagef("-n is at most %d", most)
	}
	return p, nil
}

func orShared(key runtime.Key) string {
	if key.String() == "" {
		return "(shared)"
	}
	return key.String()
}

// present returns the time of the store.
func (c *call) present() (time.Time, error) {
	lister, ok := c.store.(runtime.RowLister)
	if !ok {
		return time.Now().UTC(), nil
	}
	_, at, err := lister.Rows(c.ctx, runtime.Row{Name: c.args[0], Key: "\U0010FFFF", Shard: math.MaxInt32}, 1)
	return time.Unix(0, at).UTC(), err
}

// overriding returns the overrides of the key in the arguments, or with -whole those of the limit, and words for which.
func (c *call) overriding() (*runtime.CatalogLimit, runtime.Overriding, string, error) {
	var none runtime.Overriding
	l, err := c.limit()
	if err != nil {
		return nil, none, "", err
	}
	p := l.Policies[0]
	if !p.Overridable() {
		return nil, none, "", usagef("%s has no overrides: add overrides to it in limits.yaml", l.Name)
	}
	if c.flags.whole {
		if len(c.args) > 1 || c.flags.given["stored"] {
			return nil, none, "", usagef("give a key or -whole, not both")
		}
		return l, c.limits.WholeLimit(p), "the whole limit", nil
	}
	if len(c.args) == 1 && len(l.Key) > 0 && !c.flags.given["stored"] {
		return nil, none, "", usagef("give the key, or -whole for all keys of %s", l.Name)
	}
	key, err := c.key(l)
	if err != nil {
		return nil, none, "", err
	}
	return l, c.limits.Overriding(p, key), "key " + printable(orShared(key)), nil
}

// record writes a block, an override or the end of one, and prints its entry in the log.
func (c *call) record(do func(o runtime.Overriding) (runtime.OverrideEntry, error)) error {
	l, o, subject, err := c.overriding()
	if err != nil {
		return err
	}
	entry, err := do(o)
	switch {
	case errors.As(err, new(usageError)):
		return err
	case errors.Is(err, runtime.ErrInvalidOverride) || errors.Is(err, runtime.ErrNoOverride):
		return usageError{err}
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s, %s: %s (entry %d of the log)\n", l.Name, subject, printable(Describe(entry)), entry.ID)
	return err
}

func (c *call) block() error {
	return c.record(func(o runtime.Overriding) (runtime.OverrideEntry, error) {
		until, err := c.until()
		if err != nil {
			return runtime.OverrideEntry{}, err
		}
		return o.Block(c.ctx, runtime.Block{Until: until, Reason: c.flags.reason, Author: c.flags.author})
	})
}

func (c *call) unblock() error {
	return c.record(func(o runtime.Overriding) (runtime.OverrideEntry, error) {
		return o.Unblock(c.ctx, runtime.OverrideEnd{Reason: c.flags.reason, Author: c.flags.author})
	})
}

func (c *call) end() error {
	return c.record(func(o runtime.Overriding) (runtime.OverrideEntry, error) {
		return o.EndOverride(c.ctx, runtime.OverrideEnd{Reason: c.flags.reason, Author: c.flags.author})
	})
}

// liftingModes are the modes that an override can have.
var liftingModes = map[string]runtime.Mode{"": runtime.ModeEnforce, "shadow": runtime.ModeShadow, "off": runtime.ModeOff, "unlimited": runtime.ModeUnlimited}

func (c *call) override() error {
	return c.record(func(o runtime.Overriding) (runtime.OverrideEntry, error) {
		f := &c.flags
		mode, ok := liftingModes[f.mode]
		if !ok {
			return runtime.OverrideEntry{}, usagef("-mode is unlimited, off or shadow, not %q: to deny requests, use block", f.mode)
		}
		until, err := c.until()
		if err != nil {
			return runtime.OverrideEntry{}, err
		}
		var plan encoding.TextMarshaler
		if f.toPlan != "" {
			plan = runtime.PlanText(f.toPlan)
		}
		return o.Override(c.ctx, runtime.Override{
			Plan: plan, Rate: f.rate, Capacity: f.capacity, MaxReserved: f.maxReserved, Mode: mode,
			Until: until, Reason: f.reason, Author: f.author,
		})
	})
}

// until returns the end of a block or an override.
func (c *call) until() (time.Time, error) {
	f, given := &c.flags, 0
	for _, name := range []string{"for", "until", "for-good"} {
		if f.given[name] {
			given++
		}
	}
	if given != 1 {
		return time.Time{}, usagef("say when it ends, by one of -for 24h, -until 2027-01-31T00:00:00Z and -for-good")
	}
	switch {
	case f.forGood:
		return runtime.ForGood, nil
	case f.span > 0:
		at, err := c.present()
		return at.Add(f.span), err
	case f.given["for"]:
		return time.Time{}, usagef("-for must be more than 0s, not %v", f.span)
	}
	until, err := time.Parse(time.RFC3339, f.until)
	if err != nil {
		return until, usagef("-until must be an instant such as 2027-01-31T00:00:00Z, not %q", f.until)
	}
	return until, nil
}
