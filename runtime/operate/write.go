package operate

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// change makes the change in the arguments and flags, and prints it.
func (c *call) change() error {
	l, key, err := c.subject()
	if err != nil {
		return err
	}
	change := c.flags.Change
	change.Verb, change.Limit, change.Key = Verb(c.command.name), l.Name, key
	if change.Verb == Block || change.Verb == Override {
		if change.Until, err = c.until(); err != nil {
			return err
		}
	}
	done, err := Apply(c.ctx, c.catalog, c.store, change)
	if err != nil {
		return err
	}
	what := subject(key.String())
	if change.Whole {
		what = "the whole limit"
	}
	_, err = fmt.Fprintf(c.out, "%s, %s%s (entry %d of the log)\n", l.Name, what, done.words(), done.Entry.ID)
	return err
}

// words says what has changed, after the name of the subject.
func (d *Done) words() string {
	had, has := " had "+tokens(d.Had)+" tokens", " and now has "+tokens(d.Has)+" tokens"
	switch what := d.Entry.What; {
	case what == runtime.OverrideReset && !d.Stored:
		return " had no stored count and nothing was reset"
	case what == runtime.OverrideReset:
		return had + " and now is full"
	case what == runtime.OverrideGranted || what == runtime.OverrideTaken:
		if !d.Stored {
			had = " had no stored count, which is " + tokens(d.Had) + " tokens,"
		}
		return had + has
	}
	note := ": "
	if !d.Stored {
		note = ", which has no stored count: "
	}
	return note + printable.Line(Describe(d.Entry))
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
