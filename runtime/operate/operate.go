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
// Keys are given as the parts of the limit's key, and checked by their types: show sendMessage 42. What changes a count
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
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
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
	c := &call{ctx: ctx, catalog: catalog, store: store, limits: runtime.NewLimiter(store), secret: o.Secret, out: out}
	err := c.run(args)
	switch {
	case err == nil:
		return OK
	case errors.As(err, new(usageError)):
		fmt.Fprintf(out, "%s\n", printable(err.Error()))
		return Usage
	}
	fmt.Fprintf(out, "failed: %s\n", printable(err.Error()))
	return Failed
}

// usageError is an error of the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

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
		{name: "grant", args: "LIMIT KEY... -n N", summary: "give tokens back to a key, up to its capacity", run: (*call).grant, writes: true},
		{name: "take", args: "LIMIT KEY... -n N", summary: "take tokens from a key, available or not", run: (*call).take, writes: true},
		{name: "reset", args: "LIMIT KEY...", summary: "make a key full", run: (*call).reset, writes: true},
		{name: "block", args: "LIMIT [KEY...]", summary: "deny all requests of a key, or of the whole limit", run: (*call).block, writes: true},
		{name: "unblock", args: "LIMIT [KEY...]", summary: "end a block", run: (*call).unblock, writes: true},
		{name: "override", args: "LIMIT [KEY...]", summary: "give a key other numbers, another plan or a mode", run: (*call).override, writes: true},
		{name: "end", args: "LIMIT [KEY...]", summary: "end an override, and a block", run: (*call).end, writes: true},
	}
}

// call is one run of the command line.
type call struct {
	ctx     context.Context
	catalog *runtime.Catalog
	store   runtime.Store
	limits  *runtime.Limiter
	secret  []byte
	out     io.Writer

	command command
	// args are those after the command, without flags.
	args  []string
	flags flags
}

// flags are the flags of all commands.
type flags struct {
	n                    int64
	plan, reason, author string
	span                 time.Duration
	until                string
	forGood, whole       bool
	rate, capacity       int64
	maxReserved          int64
	toPlan, mode, stored string
	zone, since, limit   string
	given                map[string]bool
}

// flagsOf has the flags of each command. Those that write also have -reason and -author.
var flagsOf = map[string][]string{
	"top":      {"n", "plan"},
	"show":     {"stored", "plan", "zone", "since"},
	"who":      {"limit"},
	"log":      {"stored", "whole"},
	"grant":    {"stored", "n", "plan", "zone", "since"},
	"take":     {"stored", "n", "plan", "zone", "since"},
	"reset":    {"stored", "zone", "since"},
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
	fmt.Fprint(c.out, `
Commands that write need -reason TEXT and -author NAME. Block and override need their end: -for 24h,
-until 2027-01-31T00:00:00Z, or -for-good. With -whole in place of a key, they are for all keys of the
limit. Override takes -rate, -capacity, -max-reserved, -to-plan or -mode (unlimited, off or shadow).
-plan says by which plan to read a limit that depends on it, and -zone and -since which windows a key
has in a calendar of its own. -stored KEY gives a key as top and who print it, in place of its parts. A
part that begins with a dash comes after --. Who searches all limits, or that of -limit NAME.

Limits:
`)
	for _, l := range c.catalog.Limits {
		line := l.Name
		for _, k := range l.Key {
			line += fmt.Sprintf(" %s:%s", strings.ToUpper(k.Name), k.Type)
		}
		fmt.Fprintf(c.out, "  %s\n", printable(line))
	}
	return nil
}

// declarations returns how to declare each flag in a set.
func (f *flags) declarations(set *flag.FlagSet) map[string]func() {
	return map[string]func(){
		"n":            func() { set.Int64Var(&f.n, "n", 0, "") },
		"stored":       func() { set.StringVar(&f.stored, "stored", "", "") },
		"plan":         func() { set.StringVar(&f.plan, "plan", "", "") },
		"limit":        func() { set.StringVar(&f.limit, "limit", "", "") },
		"zone":         func() { set.StringVar(&f.zone, "zone", "", "") },
		"since":        func() { set.StringVar(&f.since, "since", "", "") },
		"for":          func() { set.DurationVar(&f.span, "for", 0, "") },
		"until":        func() { set.StringVar(&f.until, "until", "", "") },
		"for-good":     func() { set.BoolVar(&f.forGood, "for-good", false, "") },
		"whole":        func() { set.BoolVar(&f.whole, "whole", false, "") },
		"rate":         func() { set.Int64Var(&f.rate, "rate", 0, "") },
		"capacity":     func() { set.Int64Var(&f.capacity, "capacity", 0, "") },
		"max-reserved": func() { set.Int64Var(&f.maxReserved, "max-reserved", 0, "") },
		"to-plan":      func() { set.StringVar(&f.toPlan, "to-plan", "", "") },
		"mode":         func() { set.StringVar(&f.mode, "mode", "", "") },
		"reason":       func() { set.StringVar(&f.reason, "reason", "", "") },
		"author":       func() { set.StringVar(&f.author, "author", "", "") },
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
	set.Visit(func(v *flag.Flag) { f.given[v.Name] = true })
	return c.complete()
}

// complete reports what a command lacks.
func (c *call) complete() error {
	f := &c.flags
	switch {
	case c.command.writes && strings.TrimSpace(f.reason) == "":
		return usagef("%s changes counts: say why with -reason", c.command.name)
	case c.command.writes && strings.TrimSpace(f.author) == "":
		return usagef("%s changes counts: say who you are with -author", c.command.name)
	case (c.command.name == "grant" || c.command.name == "take") && f.n < 1:
		return usagef("%s needs the number of tokens, at least 1: -n 10", c.command.name)
	case f.given["n"] && f.n < 1:
		return usagef("-n must be at least 1, not %d", f.n)
	}
	return nil
}

// limit returns the limit in the first argument.
func (c *call) limit() (*runtime.CatalogLimit, error) {
	if len(c.args) == 0 {
		return nil, usagef("%s needs a limit: %s %s", c.command.name, c.command.name, c.command.args)
	}
	return c.limitNamed(c.args[0])
}

func (c *call) limitNamed(name string) (*runtime.CatalogLimit, error) {
	l, ok := c.catalog.Limit(name)
	if !ok {
		var names []string
		for _, l := range c.catalog.Limits {
			names = append(names, l.Name)
		}
		return nil, usagef("there is no limit %q%s; the limits are %s", name, suggestion(name, names), strings.Join(names, ", "))
	}
	return &l, nil
}

// limitAndKey returns the limit and the key in the arguments.
func (c *call) limitAndKey() (*runtime.CatalogLimit, runtime.Key, error) {
	l, err := c.limit()
	if err != nil {
		return nil, runtime.Key{}, err
	}
	key, err := c.key(l)
	return l, key, err
}

// key returns the key in the arguments after the limit, with its own windows.
func (c *call) key(l *runtime.CatalogLimit) (runtime.Key, error) {
	key, err := l.ParseKey(c.args[1:])
	if c.flags.given["stored"] {
		if len(c.args) > 1 {
			return key, usagef("give the parts of the key or -stored, not both")
		}
		key, err = runtime.StoredKey(c.flags.stored)
	}
	if err != nil {
		return key, usageError{err}
	}
	calendar, f := l.Policies[0].Calendar, &c.flags
	for _, p := range l.Policies {
		if p.Calendar.Unit != 0 {
			calendar = p.Calendar
		}
	}
	if calendar.ZonePerKey && slices.Contains(flagsOf[c.command.name], "zone") {
		zone, err := time.LoadLocation(f.zone)
		if f.zone == "" || err != nil {
			return key, usagef("each key of %s has its own time zone: give it as -zone Europe/Berlin", l.Name)
		}
		key = key.In(zone)
	}
	if calendar.Anniversary && slices.Contains(flagsOf[c.command.name], "since") {
		since, err := time.Parse(time.DateOnly, f.since)
		if err != nil {
			return key, usagef("each key of %s has its own anniversary: give it as -since 2024-05-31", l.Name)
		}
		// Noon, which is on the same day in nearly every zone.
		key = key.Since(since.Add(12 * time.Hour))
	}
	return key, nil
}

// policies returns the policies by which to read a limit: that of the plan, or of all plans.
func (c *call) policies(l *runtime.CatalogLimit) ([]named, error) {
	var all []named
	for i, p := range l.Policies {
		n := named{policy: p}
		if len(l.Policies) > 1 || len(c.catalog.Plans) == 1 && p.Mode == runtime.ModeUnlimited {
			n.plan = c.catalog.Plans[i]
		}
		if c.flags.plan == "" || c.flags.plan == n.plan {
			all = append(all, n)
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case len(l.Policies) == 1:
		return nil, usagef("%s does not depend on the plan: leave -plan out", l.Name)
	}
	return nil, usagef("there is no plan %q%s; the plans are %s", c.flags.plan, suggestion(c.flags.plan, c.catalog.Plans), strings.Join(c.catalog.Plans, ", "))
}

// named is a policy and its plan, if the limit depends on that.
type named struct {
	plan   string
	policy *runtime.Policy
}

// onePolicy returns the policy by which to change a count.
func (c *call) onePolicy(l *runtime.CatalogLimit) (*runtime.Policy, error) {
	all, err := c.policies(l)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 {
		return nil, usagef("%s depends on the plan: give that of the key as -plan %s", l.Name, strings.Join(c.catalog.Plans, ", -plan "))
	}
	return all[0].policy, nil
}
