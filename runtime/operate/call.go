package operate

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// call is one run of the command line.
type call struct {
	ctx     context.Context
	catalog *runtime.Catalog
	store   runtime.Store
	secret  []byte
	out     io.Writer

	command command
	// args are those after the command, without flags.
	args  []string
	flags flags
}

// flags are the flags of all commands.
type flags struct {
	Change
	until, stored, limit string
	forGood              bool
	given                map[string]bool
}

// flagsOf has the flags of each command. Those that write also have -reason and -author.
var flagsOf = map[string][]string{
	"top":      {"n", "plan"},
	"show":     {"stored", "plan", "zone", "since", "whole"},
	"who":      {"limit"},
	"log":      {"stored", "whole"},
	"grant":    {"stored", "n", "plan", "zone", "since", "whole"},
	"take":     {"stored", "n", "plan", "zone", "since", "whole"},
	"reset":    {"stored", "zone", "since", "whole"},
	"block":    {"stored", "for", "until", "for-good", "whole"},
	"unblock":  {"stored", "whole"},
	"override": {"stored", "rate", "capacity", "max-reserved", "to-plan", "mode", "for", "until", "for-good", "whole"},
	"end":      {"stored", "whole"},
}

// declarations returns how to declare each flag in a set.
func (f *flags) declarations(set *flag.FlagSet) map[string]func() {
	text := func(name string, to *string) func() { return func() { set.StringVar(to, name, "", "") } }
	number := func(name string, to *int64) func() { return func() { set.Int64Var(to, name, 0, "") } }
	return map[string]func(){
		"n":            number("n", &f.Tokens),
		"stored":       text("stored", &f.stored),
		"plan":         text("plan", &f.Plan),
		"limit":        text("limit", &f.limit),
		"zone":         text("zone", &f.Zone),
		"since":        text("since", &f.Since),
		"for":          func() { set.DurationVar(&f.For, "for", 0, "") },
		"until":        text("until", &f.until),
		"for-good":     func() { set.BoolVar(&f.forGood, "for-good", false, "") },
		"whole":        func() { set.BoolVar(&f.Whole, "whole", false, "") },
		"rate":         number("rate", &f.Rate),
		"capacity":     number("capacity", &f.Capacity),
		"max-reserved": number("max-reserved", &f.MaxReserved),
		"to-plan":      text("to-plan", &f.ToPlan),
		"mode":         text("mode", &f.Mode),
		"reason":       text("reason", &f.Reason),
		"author":       text("author", &f.Author),
	}
}

// parse parses flags before, between and after the arguments.
func (c *call) parse(args []string) error {
	f := &c.flags
	set := flag.NewFlagSet(c.command.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	names := flagsOf[c.command.name]
	if c.command.writes {
		names = append(slices.Clone(names), "reason", "author")
	}
	declare := f.declarations(set)
	for _, name := range names {
		declare[name]()
	}
	for len(args) > 0 {
		if err := set.Parse(args); err != nil {
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
	var err error
	set.Visit(func(v *flag.Flag) {
		f.given[v.Name] = true
		if v.Value.String() == "" {
			err = usagef("-%s is empty: is it a variable of the shell that is not set?", v.Name)
		}
	})
	return cmp.Or(err, c.complete())
}

// complete reports what a command lacks.
func (c *call) complete() error {
	f := &c.flags
	switch {
	case c.command.writes && strings.TrimSpace(f.Reason) == "":
		return usagef("%s changes counts: say why with -reason", c.command.name)
	case c.command.writes && strings.TrimSpace(f.Author) == "":
		return usagef("%s changes counts: say who you are with -author", c.command.name)
	case (c.command.name == "grant" || c.command.name == "take") && !f.given["n"]:
		return usagef("%s needs the number of tokens, at least 1: -n 10", c.command.name)
	}
	numbers := map[string]int64{"n": f.Tokens, "rate": f.Rate, "capacity": f.Capacity, "max-reserved": f.MaxReserved}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		if n := numbers[name]; f.given[name] && n < 1 {
			return usagef("-%s must be at least 1, not %d", name, n)
		}
	}
	return nil
}

// limit returns the limit in the first argument.
func (c *call) limit() (*runtime.CatalogLimit, error) {
	if len(c.args) == 0 {
		return nil, usagef("%s needs a limit: %s %s", c.command.name, c.command.name, c.command.args)
	}
	return limitNamed(c.catalog, c.args[0])
}

// key returns the key in the arguments after the limit, or the zero Key for -whole. The whole limit is never meant by a key
// that is left out or empty, because a variable of the shell that is not set leaves just that.
func (c *call) key(l *runtime.CatalogLimit) (key runtime.Key, err error) {
	parts, stored := c.args[1:], c.flags.given["stored"]
	wholeToo := ", or -whole for all keys"
	if logged[Verb(c.command.name)] != "" {
		wholeToo = ""
	}
	switch {
	case len(parts) > 0 && stored:
		return key, usagef("give the parts of the key or -stored, not both")
	case c.flags.Whole && (len(parts) > 0 || stored):
		return key, usagef("give a key or -whole, not both")
	case c.flags.Whole:
		return key, nil
	case stored:
		key, err = l.ParseStored(c.flags.stored)
	case len(parts) == 0 && len(l.Key) > 0:
		return key, usagef("give the key of %s: %s%s", l.Name, partsOf(l), wholeToo)
	case slices.Contains(parts, ""):
		return key, usagef("a part of the key is empty: is it a variable of the shell that is not set? -stored takes %% for an empty part")
	default:
		key, err = l.ParseKey(parts)
	}
	if err != nil {
		err = usageError{err}
	}
	return key, err
}

// partsOf lists the parts of the key of a limit.
func partsOf(l *runtime.CatalogLimit) string {
	var b strings.Builder
	for _, k := range l.Key {
		fmt.Fprintf(&b, " %s:%s", strings.ToUpper(k.Name), k.Type)
	}
	return strings.TrimPrefix(b.String(), " ")
}

// command is a command of the command line.
type command struct {
	name, args, summary string
	run                 func(*call) error
	// writes means that it needs a reason and an author.
	writes bool
}
