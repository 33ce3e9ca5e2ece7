package operate

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// change makes the change in the arguments and flags, and prints it.
func (c *call) change() error {
	l, err := c.limit()
	if err != nil {
		return err
	}
	change := c.flags.Change
	change.Verb, change.Limit = Verb(c.command.name), l.Name
	if change.Verb == Block || change.Verb == Override {
		if change.Until, err = c.until(); err != nil {
			return err
		}
	}
	if change.Key, err = c.key(l); err != nil {
		return err
	}
	done, err := Apply(c.ctx, c.catalog, c.store, change)
	if err != nil {
		return err
	}
	what, entry := subject(change.Key.String()), fmt.Sprintf("(entry %d of the log)", done.Entry.ID)
	if change.Whole {
		what = "the whole limit"
	}
	if logged[change.Verb] == "" {
		note := ""
		if !done.Stored {
			note = ", which has no stored count"
		}
		_, err = fmt.Fprintf(c.out, "%s, %s%s: %s %s\n", l.Name, what, note, printable.Line(Describe(done.Entry)), entry)
		return err
	}
	had, has := "had "+tokens(done.Had)+" tokens", "now has "+tokens(done.Has)+" tokens"
	if change.Verb == Reset {
		has = "now is full"
	}
	switch {
	case !done.Stored && change.Verb == Reset:
		had, has = "had no stored count", "nothing was reset"
	case !done.Stored:
		had = "had no stored count, which is " + tokens(done.Had) + " tokens,"
	}
	_, err = fmt.Fprintf(c.out, "%s, %s %s and %s %s\n", l.Name, what, had, has, entry)
	return err
}

// until returns the end of a block or an override, or the zero Time if it ends after -for.
func (c *call) until() (time.Time, error) {
	f, given := &c.flags, 0
	for _, name := range []string{"for", "until", "for-good"} {
		if f.given[name] {
			given++
		}
	}
	switch {
	case given != 1 || f.given["for-good"] && !f.forGood:
		return time.Time{}, usagef("say when it ends, by one of -for 24h, -until 2027-01-31 (its start in UTC) and -for-good")
	case f.forGood:
		return runtime.ForGood, nil
	case f.given["for"] && f.For <= 0:
		return time.Time{}, usagef("-for must be more than 0s, not %v", f.For)
	case f.given["for"]:
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if until, err := time.Parse(form, f.until); err == nil {
			return until, nil
		}
	}
	return time.Time{}, usagef("-until must be a day such as 2027-01-31, which means its start in UTC, or an instant such as 2027-01-31T09:00:00+01:00, not %q", f.until)
}
