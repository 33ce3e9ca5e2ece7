package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

func helpVerb() verb {
	return verb{
		name:    "help",
		args:    "[VERB]",
		about:   "say more about a verb",
		prepare: func(*flag.FlagSet) action { return help },
	}
}

func help(s streams, args []string) error {
	switch len(args) {
	case 0:
		return listVerbs(s.out)
	case 1:
		v, err := findVerb(args[0])
		if err != nil {
			return err
		}
		return describe(s.out, v)
	}
	return misusef("takes one verb, not %d", len(args))
}

// listVerbs prints what the program can do.
func listVerbs(w io.Writer) error {
	fmt.Fprint(w, "ratelimitgen turns limits.yaml into a Go package in which every limit is a method.\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, v := range verbs() {
		fmt.Fprintf(table, "  ratelimitgen %s\t%s\n", v.name, v.about)
	}
	table.Flush()
	_, err := fmt.Fprint(w, "\nExit codes: 0 yes, 1 the answer is no, 2 called wrongly, 3 could not answer.\n")
	return err
}

// describe prints how a verb is called.
func describe(w io.Writer, v verb) error {
	flags := flag.NewFlagSet(v.name, flag.ContinueOnError)
	v.prepare(flags)
	var usage, table strings.Builder
	flags.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		name := strings.TrimSpace("-" + f.Name + " " + value)
		fmt.Fprintf(&usage, " [%s]", name)
		fmt.Fprintf(&table, "  %-16s %s\n", name, text)
	})
	if v.args != "" {
		usage.WriteString(" " + v.args)
	}
	fmt.Fprintf(w, "ratelimitgen %s%s\n\n%s.\n", v.name, &usage, strings.ToUpper(v.about[:1])+v.about[1:])
	for _, part := range []string{table.String(), v.help} {
		if part != "" {
			fmt.Fprintf(w, "\n%s", part)
		}
	}
	return nil
}
