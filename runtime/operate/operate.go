// Package operate is a command line for operators of the limits of a program. The program calls it with its catalog and
// its store, so that only the program has to know its database:
//
//	func main() {
//		ctx := context.Background()
//		store, err := sqlite.Open("limits.db")
//		if err != nil {
//			log.Fatal(err)
//		}
//		os.Exit(operate.Main(ctx, limits.Catalog(), store, os.Args[1:], os.Stdout))
//	}
//
// Keys are given as the parts of the limit's key, and checked by their types: show sendMessage 42. They are printed as words
// of a shell, to be pasted after -stored in place of the parts. A whole limit is only ever meant by -whole, and a part or a
// flag that is empty, such as a variable of the shell that is not set, is an error. Programs with another user interface
// call [Apply], which makes the same changes and checks them in the same way. What changes a count
// needs a reason and an author, and is first written to the log of overrides, so that the log has every attempt. If the
// store has no log, nothing is changed: the method Migrate of package sqlstore creates the log with the tables of the limits,
// whether or not one of them has overrides. Tokens that processes have leased are not affected by any of it.
//
// An override is neither a refill nor a penalty: tokens that were used stay used, and a key whose capacity is raised by 100
// has 100 more at once. The one exception is the end of a fixed window: at the first request after it, what the key lacks
// beyond the capacity and maxReserved then in force is forgotten. If a limit carries use into the next window, because its
// capacity is above its rate, an override to smaller numbers at that moment gives tokens back, which stay given when it ends.
package operate

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// The exit codes that Main returns.
const (
	// OK: the command was executed.
	OK = 0
	// Failed: the store could not execute it.
	Failed = 1
	// Usage: the command line is wrong. Nothing was written.
	Usage = 2
)

// Main runs the command in args, without the name of the program, and returns the exit code. It prints results and errors
// to out.
func Main(ctx context.Context, catalog *runtime.Catalog, store runtime.Store, args []string, out io.Writer) int {
	return MainWith(ctx, catalog, store, Options{}, args, out)
}

// Options complete [MainWith].
type Options struct {
	// Secret is that of the fingerprints that logs, lists of denied keys and the console print. The command who needs it.
	Secret []byte
}

// MainWith is Main with options.
func MainWith(ctx context.Context, catalog *runtime.Catalog, store runtime.Store, o Options, args []string, out io.Writer) int {
	c := &call{ctx: ctx, catalog: catalog, store: store, secret: o.Secret, out: out}
	err := c.run(args)
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrUsage):
		fmt.Fprintf(out, "%s\n", printable.Line(err.Error()))
		return Usage
	}
	fmt.Fprintf(out, "failed: %s\n", printable.Line(err.Error()))
	return Failed
}

// command is a command of the command line.
type command struct {
	name, args, summary string
	run                 func(*call) error
	// writes means that it needs a reason and an author.
	writes bool
}

func commands() []command {
	return []command{
		{name: "top", args: "[-n N] [LIMIT]", summary: "list the keys that have used the largest part of a limit", run: (*call).top},
		{name: "show", args: "LIMIT KEY...", summary: "show the tokens of a key, what is in force for it, and its log", run: (*call).show},
		{name: "who", args: "FINGERPRINT", summary: "find the key of a fingerprint in a log, in metrics or in the console", run: (*call).who},
		{name: "log", args: "LIMIT [KEY...]", summary: "list what operators did to a key, or to the whole limit", run: (*call).log},
		{name: "grant", args: "LIMIT KEY... -n N", summary: "give tokens back to a key, up to its capacity", run: (*call).change, writes: true},
		{name: "take", args: "LIMIT KEY... -n N", summary: "take tokens from a key, available or not", run: (*call).change, writes: true},
		{name: "reset", args: "LIMIT KEY...", summary: "make a key full", run: (*call).change, writes: true},
		{name: "block", args: "LIMIT [KEY...]", summary: "deny all requests of a key, or of the whole limit", run: (*call).change, writes: true},
		{name: "unblock", args: "LIMIT [KEY...]", summary: "end a block", run: (*call).change, writes: true},
		{name: "override", args: "LIMIT [KEY...]", summary: "give a key other numbers, another plan or a mode", run: (*call).change, writes: true},
		{name: "end", args: "LIMIT [KEY...]", summary: "end an override, and a block", run: (*call).change, writes: true},
	}
}

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

func (c *call) run(args []string) error {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		return c.help()
	}
	all := commands()
	i := slices.IndexFunc(all, func(o command) bool { return o.name == args[0] })
	if i < 0 {
		var names []string
		for _, o := range all {
			names = append(names, o.name)
		}
		return usagef("unknown command %q%s; the commands are %s", args[0], suggestion(args[0], names), strings.Join(names, ", "))
	}
	c.command = all[i]
	if err := c.parse(args[1:]); err != nil {
		return err
	}
	return c.command.run(c)
}

func (c *call) help() error {
	fmt.Fprint(c.out, "Commands:\n")
	for _, o := range commands() {
		fmt.Fprintf(c.out, "  %-26s %s\n", o.name+" "+o.args, o.summary)
	}
	io.WriteString(c.out, `
Commands that write need -reason TEXT and -author NAME. Block and override need their end: -for 24h,
-until 2027-01-31 (the start of that day in UTC), -until 2027-01-31T09:00:00+01:00, or -for-good. With
-whole in place of a key, a command is about all keys of the limit. Override takes -rate, -capacity,
-max-reserved, -to-plan or -mode (unlimited, off or shadow). -plan says by which plan to read a limit
that depends on it, and -zone and -since which windows a key has in a calendar of its own. -stored KEY
gives a key as top, show and who print it, in place of its parts: %XX is a byte, and % alone an empty
part. A part that begins with a dash comes after --. Who searches all limits, or the one of -limit NAME.

Limits:
`)
	for _, l := range c.catalog.Limits {
		fmt.Fprintf(c.out, "  %s\n", printable.Line(strings.TrimSpace(l.Name+" "+partsOf(&l))))
	}
	return nil
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
