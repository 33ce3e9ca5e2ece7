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
//		os.Exit(program.Main(ctx, os.Args[1:], os.Stdout))
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
// An override is neither a refill nor a penalty: tokens that were used stay used, and a key whose capacity is raised by 100
// has 100 more at once. The one exception is the end of a fixed window: at the first request after it, what the key lacks
// beyond the capacity and maxReserved then in force is forgotten. If a limit carries use into the next window, because its
// capacity is above its rate, an override to smaller numbers at that moment gives tokens back, which stay given when it
// ends.
package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// The exit codes of [Program.Main].
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
func (p Program) Main(ctx context.Context, args []string, out io.Writer) int {
	p.Catalog = override.Relaxed(p.Store, p.Catalog)
	c := &call{ctx: ctx, program: p, out: out}
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

func commands() []command {
	const write = " stored whole reason author"
	return []command{
		{"top", "[-n N] [LIMIT]", "list the keys that have used the largest part of a limit", "n plan", (*call).top},
		{"show", "LIMIT KEY...", "show the tokens of a key, what is in force for it, and its log", "stored plan rate capacity max-reserved zone since whole", (*call).show},
		{"who", "FINGERPRINT", "find the key of a fingerprint in a log, in metrics or in the console", "limit", (*call).who},
		{"log", "LIMIT [KEY...]", "list what operators did to a key, or to the whole limit, or with -all in all limits",
			"stored whole all n author since before", (*call).log},
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
	switch {
	case len(args) == 2 && args[0] == "help":
		args = []string{args[1], "-h"}
	case len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]):
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
that depends on it, -rate, -capacity and -max-reserved by which numbers to read one whose callers give
them (without them, show reads it by the most), and -zone and -since which windows a key has in a calendar of its own. -stored KEY
gives a key as top, show and who print it, in place of its parts: %XX is a byte, and % alone an empty
part. A part that begins with a dash comes after --. Who searches all limits, or the one of -limit NAME.

With -all and the parts of a key by their names, in place of a limit, erase, block, unblock and end are
about this key in all limits that have it, and say which have not: block -all userID=42. Erase is then
about stored keys with further parts too. Log -all lists the entries of all limits, or of such a key, the
newest first: at most -n 50, with -author NAME, -since 2026-12-31 or -before ENTRY. No operator starts a
penalty, so that the log has no entry of it: log prints the penalties in force after the entries.

Limits:
`)
	for _, l := range c.program.Catalog.Limits {
		fmt.Fprintf(c.out, "  %s\n", printable.Line(strings.TrimSpace(l.Name+" "+partsOf(&l))))
	}
	return nil
}
