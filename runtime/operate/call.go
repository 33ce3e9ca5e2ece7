package operate

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
)

// command is a command of the command line.
type command struct {
	name, args, summary string
	// flags are the names of its flags.
	flags string
	run   func(*call) error
}

// writes reports whether the command makes a change, which needs a reason and an author.
func (o *command) writes() bool {
	_, writes := logged[Verb(o.name)]
	return writes
}

// call is one run of the command line.
type call struct {
	ctx     context.Context
	program Program
	// out is for results, and errs for errors and remarks.
	out, errs io.Writer

	command command
	// args are those after the command, without flags.
	args  []string
	flags flags
}

// flags are the flags of all commands.
type flags struct {
	Change
	until, stored, limit, format string
	forGood, all                 bool
	before                       int64
	given                        map[string]bool
}

// flagHelp has what follows each flag, and what it means: for a command by its name, or else for all.
var flagHelp = map[string]string{
	"all":                   ": the key with these parts in all limits that have it: -all userID=42",
	"author":                "NAME: who you are, for the log",
	"capacity":              "N: the capacity, or slots, of a key whose caller gives them",
	"for":                   "DURATION: how long it lasts, such as 24h",
	"for-good":              ": it does not end",
	"format":                "FORMAT: text or json (default text)",
	"limit":                 "LIMIT: search this limit only",
	"log all":               ": the entries of all limits, or with userID=42 of this key in all of them",
	"log author":            "NAME: with -all, the entries of this author",
	"log before":            "ENTRY: with -all, the entries before this one",
	"log n":                 "N: with -all, at most so many entries (default 50)",
	"log since":             "TIME: with -all, the entries since then: 2027-01-31, or 2027-01-31T09:00:00+01:00",
	"max-reserved":          "N: the maxReserved of a key whose caller gives it",
	"n":                     "N: how many tokens",
	"override capacity":     "N: the capacity, or slots, to give",
	"override max-reserved": "N: the maxReserved to give",
	"override mode":         "MODE: unlimited, off or shadow, in place of numbers",
	"override rate":         "N: the rate to give",
	"override to-plan":      "PLAN: the plan to give",
	"plan":                  "PLAN: the plan by which to read a limit that depends on it",
	"rate":                  "N: the rate of a key whose caller gives it",
	"reason":                "TEXT: why, for the log",
	"since":                 "DATE: the anniversary of a key that has its own, such as 2024-05-31",
	"stored":                "KEY: the key as top, show and who print it: %XX is a byte, and % alone an empty part",
	"top n":                 "N: at most so many keys (default 10)",
	"until":                 "TIME: when it ends: 2027-01-31, the start of that day in UTC, or 2027-01-31T09:00:00+01:00",
	"whole":                 ": all keys of the limit, in place of a key",
	"zone":                  "ZONE: the time zone of a key that has its own, such as Europe/Berlin",
}

// declare declares flags in a set.
func (f *flags) declare(set *flag.FlagSet, names []string) {
	all := map[string]any{
		"stored": &f.stored, "whole": &f.Whole, "limit": &f.limit, "plan": &f.Plan, "zone": &f.Zone, "since": &f.Since,
		"n": &f.Tokens, "rate": &f.Rate, "capacity": &f.Capacity, "max-reserved": &f.MaxReserved, "to-plan": &f.ToPlan, "mode": &f.Mode,
		"for": &f.For, "all": &f.all, "before": &f.before, "until": &f.until, "for-good": &f.forGood, "reason": &f.Reason, "author": &f.Author,
		"format": &f.format,
	}
	for _, name := range names {
		switch to := all[name].(type) {
		case *string:
			set.StringVar(to, name, "", "")
		case *int64:
			set.Int64Var(to, name, 0, "")
		case *bool:
			set.BoolVar(to, name, false, "")
		case *time.Duration:
			set.DurationVar(to, name, 0, "")
		}
	}
}

// parse parses flags before, between and after the arguments.
func (c *call) parse(args []string) error {
	f := &c.flags
	set := flag.NewFlagSet(c.command.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	names := strings.Fields(c.command.flags)
	f.declare(set, names)
	for len(args) > 0 {
		if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
			return err
		} else if err != nil {
			if name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
				return usagef("%s has no flag -%s%s", c.command.name, name, suggestion(name, names))
			}
			return usagef("%s: %w", c.command.name, err)
		}
		left := set.Args()
		if read := len(args) - len(left); read > 0 && args[read-1] == "--" {
			c.args = append(c.args, left...)
			break
		}
		if len(left) > 0 {
			c.args, left = append(c.args, left[0]), left[1:]
		}
		args = left
	}
	f.given = map[string]bool{}
	var empty, small error
	set.Visit(func(v *flag.Flag) {
		f.given[v.Name] = true
		if v.Value.String() == "" {
			empty = usagef("-%s is empty: is it a variable of the shell that is not set?", v.Name)
		}
		if n, ok := v.Value.(flag.Getter).Get().(int64); ok && n < 1 && small == nil {
			small = usagef("-%s must be at least 1, not %d", v.Name, n)
		}
	})
	return cmp.Or(empty, c.complete(), small)
}

// complete reports what a command lacks.
func (c *call) complete() error {
	f, name := &c.flags, c.command.name
	switch {
	case f.format != "" && f.format != "text" && f.format != "json":
		return usagef("-format is text or json, not %q", f.format)
	case c.command.writes() && strings.TrimSpace(f.Reason) == "":
		return usagef("%s needs a reason, for the log: -reason 'our outage'", name)
	case c.command.writes() && strings.TrimSpace(f.Author) == "":
		return usagef("%s needs an author, who you are, for the log: -author ada", name)
	case (name == "grant" || name == "take") && !f.given["n"]:
		return usagef("%s needs the number of tokens, at least 1: -n 10", name)
	}
	return nil
}

// limit returns the limit in the first argument.
func (c *call) limit() (*runtime.CatalogLimit, error) {
	if len(c.args) == 0 {
		all := ""
		if slices.Contains(strings.Fields(c.command.flags), "all") {
			all = ", or -all"
		}
		return nil, usagef("%s needs a limit: %s %s%s", c.command.name, c.command.name, c.command.args, all)
	}
	return c.program.limit(c.args[0])
}

// subject returns the limit and the key in the arguments, or the zero Key for -whole. The whole limit is never meant by a
// key that is left out or empty, because a variable of the shell that is not set leaves just that.
func (c *call) subject() (l *runtime.CatalogLimit, key runtime.Key, err error) {
	if l, err = c.limit(); err != nil {
		return nil, key, err
	}
	parts, stored := c.args[1:], c.flags.given["stored"]
	wholeToo := ", or -whole for all keys"
	if logged[Verb(c.command.name)] != "" {
		wholeToo = ""
	}
	switch {
	case len(parts) > 0 && stored:
		err = errors.New("give the parts of the key or -stored, not both")
	case c.flags.Whole && (len(parts) > 0 || stored):
		err = errors.New("give a key or -whole, not both")
	case c.flags.Whole:
	case stored:
		key, err = l.ParseStored(c.flags.stored)
	case len(parts) == 0 && len(l.Key) > 0:
		err = fmt.Errorf("give the key of %s: %s%s", l.Name, partsOf(l), wholeToo)
	case slices.Contains(parts, ""):
		err = errors.New("a part of the key is empty: is it a variable of the shell that is not set? -stored takes % for an empty part")
	default:
		key, err = l.ParseKey(parts)
	}
	if err != nil {
		return l, key, usageError{err}
	}
	// Before anything is answered: without the secret of hashed keys it would be about another key.
	return l, key, override.CheckCounts(c.ctx, c.program.Store, l.Policies[0])
}

// partsOf lists the parts of the key of a limit.
func partsOf(l *runtime.CatalogLimit) string {
	var parts []string
	for _, k := range l.Key {
		parts = append(parts, fmt.Sprintf("%s:%s", strings.ToUpper(k.Name), k.Type))
	}
	return strings.Join(parts, " ")
}

// instant returns the instant that a flag gives.
func instant(flag, text string) (time.Time, error) {
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("%s must be a day such as 2027-01-31, which means its start in UTC, or an instant such as 2027-01-31T09:00:00+01:00, not %q", flag, text)
}
