// Package operate is a command line for operators of the limits of a program. The program calls it with its catalog and
// its store, so that only the program has to know its database:
//
//	func main() {
//		ctx := context.Background()
//		store, err := sqlite.Open("limits.db")
//		if err != nil {
//			log.Fatal(err)
//		}
//		program := operate.Program{Catalog: limits.Catalog(), Store: store}
//		os.Exit(program.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
//	}
//
// Keys are given as the parts of the limit's key, and checked by their types: show sendMessage 42. They are printed as words
// of a shell, to be pasted after -stored in place of the parts. A whole limit is only ever meant by -whole, and a part or a
// flag that is empty, such as a variable of the shell that is not set, is an error. With -all, a change is made in every
// limit with a key of parts with these names: block -all userID=42; an erasure is also of keys with further parts.
//
// What changes a count needs a reason and an author, and is first written to the log of overrides, so that the log has every
// attempt. If the store has no log, nothing is changed: the method Migrate of package sqlstore creates the log with the
// tables of the limits, whether or not one of them has overrides. Tokens that processes have leased are not affected by any
// of it. Programs with another user interface call [Program.Apply], or [Program.ApplyAll] for -all, which make the same
// changes and check them in the same way:
//
//	all, err := program.ApplyAll(ctx, operate.Change{
//		Verb: operate.Block, For: 24 * time.Hour, Reason: "spam", Author: "alice",
//	}, []operate.Part{{Name: "userID", Value: "42"}})
//
// With -format json, top, show, who and log print one document, for programs: durations are in seconds, instants as RFC 3339
// has them, and keys as -stored reads them. A field that has no value is missing. New fields may be added.
//
//	top   keys: limit, plan, key, unlimited, capacity, value, remaining, used, fullAfter, penalty,
//	      inForce (an entry of the log), most (read by the most that callers can give); others: limit, owner
//	show  limit, key, fingerprint, stored, exception, balances: plan, kind, mode, resetAt, blocked, blockedFor,
//	      holders (fence, slots, ends) and the fields of top; inForce, log and limitLog: entries
//	who   keys: limit, key
//	log   entries, more (there are older ones), penalties: limit, key, until, lifted
//	entry id, at, limit, key, erased, what, plan, tokens, rate, capacity, maxReserved, until, author, reason
//
// An override is neither a refill nor a penalty: tokens that were used stay used, and a key whose capacity is raised by 100
// has 100 more at once. The one exception is the end of a fixed window: at the first request after it, what the key lacks
// beyond the capacity and maxReserved then in force is forgotten. If a limit carries use into the next window, because its
// capacity is above its rate, an override to smaller numbers at that moment gives tokens back, which stay given when it
// ends.
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
	"text/tabwriter"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// The exit codes of [Program.Main]. Those that ratelimitgen has too mean the same there.
const (
	// OK: the command was executed.
	OK = 0
	// Partly: with -all, the change was made in some limits that have the key, and refused in others.
	Partly = 1
	// Usage: the command line is wrong. Nothing was written.
	Usage = 2
	// Failed: the store could not execute it.
	Failed = 3
)

// Main runs the command in args, without the name of the program, and returns the exit code. It prints results to out, and
// errors to errs.
func (p Program) Main(ctx context.Context, args []string, out, errs io.Writer) int {
	p.Catalog = override.Relaxed(p.Store, p.Catalog)
	c := &call{ctx: ctx, program: p, out: out, errs: errs}
	err := c.run(args)
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrUsage):
		fmt.Fprintf(errs, "%s\n", printable.Line(err.Error()))
		return Usage
	case errors.Is(err, errPartly):
		fmt.Fprintf(errs, "%s\n", printable.Line(err.Error()))
		return Partly
	}
	fmt.Fprintf(errs, "failed: %s\n", printable.Line(err.Error()))
	return Failed
}

func commands() []command {
	const write = " stored whole reason author"
	return []command{
		{"top", "[-n N] [LIMIT]", "list the keys that have used the largest part of a limit", "n plan format", (*call).top},
		{"show", "LIMIT KEY...", "show the tokens of a key, what is in force for it, and its log", "stored plan rate capacity max-reserved zone since whole format", (*call).show},
		{"who", "FINGERPRINT", "find the key of a fingerprint in a log, in metrics or in the console", "limit format", (*call).who},
		{"log", "LIMIT [KEY...]", "list what operators did to a key, or to the whole limit, or with -all in all limits",
			"stored whole all n author since before format", (*call).log},
		{"grant", "LIMIT KEY... -n N", "give tokens back to a key, up to its capacity", "n plan rate capacity max-reserved zone since" + write, (*call).change},
		{"take", "LIMIT KEY... -n N", "take tokens from a key, available or not", "n plan rate capacity max-reserved zone since" + write, (*call).change},
		{"reset", "LIMIT KEY...", "make a key full", "zone since" + write, (*call).change},
		{"erase", "LIMIT KEY...", "delete the count of a key, and replace the key in the log", "all" + write, (*call).change},
		{"block", "LIMIT [KEY...]", "deny all requests of a key, or of the whole limit", "all for until for-good" + write, (*call).change},
		{"unblock", "LIMIT [KEY...]", "end a block", "all" + write, (*call).change},
		{"override", "LIMIT [KEY...]", "give a key other numbers, another plan or a mode",
			"rate capacity max-reserved to-plan mode for until for-good" + write, (*call).change},
		{"end", "LIMIT [KEY...]", "end an override, and a block", "all" + write, (*call).change},
	}
}

func (c *call) run(args []string) error {
	helps := []string{"help", "-h", "-help", "--help"}
	if len(args) == 0 || len(args) == 1 && slices.Contains(helps, args[0]) {
		return c.help()
	}
	if slices.Contains(helps, args[0]) {
		args = []string{args[1], "-h"}
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
	switch err := c.parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return c.helpOf()
	case err != nil:
		return err
	}
	return c.command.run(c)
}

// help lists the commands and the limits.
func (c *call) help() error {
	fmt.Fprint(c.out, "Commands:\n")
	for _, o := range commands() {
		fmt.Fprintf(c.out, "  %-26s %s\n", o.name+" "+o.args, o.summary)
	}
	io.WriteString(c.out, `
"help COMMAND" lists the flags of a command. Those that write need -reason and -author.
A part of a key that begins with a dash comes after --.

With -all and the parts of a key by their names, in place of a limit, erase, block, unblock and end
are about this key in all limits that have it, and say which have not: block -all userID=42. Erase is
then about stored keys with further parts too.

Exit codes: 0 success, 1 done in some limits and refused in others, 2 usage error, 3 could not run.

Limits:
`)
	for _, l := range c.program.Catalog.Limits {
		fmt.Fprintf(c.out, "  %s\n", printable.Line(strings.TrimSpace(l.Name+" "+partsOf(&l))))
	}
	return nil
}

// helpOf describes one command.
func (c *call) helpOf() error {
	fmt.Fprintf(c.out, "%s %s\n\n%s.\n\nFlags:\n", c.command.name, c.command.args, strings.ToUpper(c.command.summary[:1])+c.command.summary[1:])
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, name := range strings.Fields(c.command.flags) {
		if name == "whole" && logged[Verb(c.command.name)] != "" {
			continue // it is refused with a reason
		}
		value, about, _ := strings.Cut(cmp.Or(flagHelp[c.command.name+" "+name], flagHelp[name]), ": ")
		fmt.Fprintf(table, "  -%s\t%s\n", strings.TrimSpace(name+" "+value), about)
	}
	return table.Flush()
}
