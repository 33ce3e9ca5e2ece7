package operate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// change makes the change in the arguments and flags, and prints it.
func (c *call) change() (err error) {
	change := c.flags.Change
	change.Verb = Verb(c.command.name)
	if change.Verb == Block || change.Verb == Override {
		if change.Until, err = c.until(); err != nil {
			return err
		}
	}
	if c.flags.all {
		return c.changeAll(change)
	}
	l, key, err := c.subject()
	if err != nil {
		return err
	}
	change.Limit, change.Key = l.Name, key
	done, err := c.program.Apply(c.ctx, change)
	if err != nil {
		return err
	}
	what := subject(key.String())
	if change.Whole {
		what = "the whole limit"
	}
	c.printDone(l.Name, what, &done)
	return nil
}

// changeAll makes a change in all limits, and prints what it did in each.
func (c *call) changeAll(change Change) error {
	parts, err := c.parts()
	if err != nil {
		return err
	}
	if len(parts) == 0 || change.Whole || c.flags.given["stored"] {
		return usagef("%s -all needs the parts of the key by their names: %s -all userID=42", c.command.name, c.command.name)
	}
	all, err := c.program.ApplyAll(c.ctx, change, parts)
	if err != nil {
		return err
	}
	made, refused, failed := 0, 0, []string(nil)
	for _, of := range all {
		if of.Err != nil {
			fmt.Fprintf(c.out, "%s: %s\n", of.Limit, printable.Line(of.Problem()))
			switch {
			case !errors.Is(of.Err, ErrUsage) || errors.Is(of.Err, runtime.ErrOverrideInForce):
				failed = append(failed, of.Limit)
			case change.Verb == Block && of.Key.String() != "":
				refused++
			}
			continue
		}
		made++
		c.printDone(of.Limit, subject(of.Key.String()), &of.Done)
	}
	switch {
	case len(failed) > 0:
		return fmt.Errorf("%s: see above", strings.Join(failed, ", "))
	case made == 0:
		return usagef("nothing was changed in any limit")
	case refused > 0:
		return fmt.Errorf("%w: the key is blocked in %d of the %d limits that have it", errPartly, made, made+refused)
	}
	return nil
}

var errPartly = errors.New("done in part")

// printDone prints a change.
func (c *call) printDone(limit, what string, done *Done) {
	fmt.Fprintf(c.out, "%s, %s%s (entry %d of the log)\n", limit, what, done.words(), done.Entry.ID)
}

// words says the change, after the name of the subject.
func (d *Done) words() string {
	had, has := " had "+tokens(d.Had)+" tokens", " and now has "+tokens(d.Has)+" tokens"
	switch what := d.Entry.What; {
	case what == runtime.OverrideReset && !d.Stored:
		return " had no stored count and nothing was reset"
	case what == runtime.OverrideReset:
		// The tokens that it had depend on its plan and numbers, which a reset does not need.
		return " was reset and now is full"
	case what == runtime.OverrideErased:
		return fmt.Sprintf(" was erased from %d rows and from %d entries of the log", d.Erased.Rows, d.Erased.Entries)
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
		return runtime.ForGood(), nil
	case f.given["for"] && f.For <= 0:
		return time.Time{}, usagef("-for must be more than 0s, not %v", f.For)
	case f.given["for"]:
		return time.Time{}, nil
	}
	return instant("-until", f.until)
}
