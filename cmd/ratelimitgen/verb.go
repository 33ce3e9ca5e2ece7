package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
)

// verb is one thing that the program does.
type verb struct {
	name string
	// args are the arguments as the usage line shows them, after the flags.
	args string
	// about says in a line what the verb does, and help the rest.
	about, help string
	// prepare declares the flags, and returns what to do once they are read.
	prepare func(*flag.FlagSet) action
}

// action does what a verb does with the arguments that are no flags.
type action func(s streams, args []string) error

// verbs returns all verbs, in the order in which people meet them.
func verbs() []verb {
	return []verb{generateVerb(), checkVerb(), diffVerb(), explainVerb(), initVerb(), schemaVerb(), sqlVerb(), simulateVerb(), versionVerb(), helpVerb()}
}

func verbNames() []string {
	var names []string
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	return names
}

func findVerb(name string) (verb, error) {
	if i := slices.Index(verbNames(), name); i >= 0 {
		return verbs()[i], nil
	}
	return verb{}, misusef("there is no verb %q%s", name, suggestion("", name, verbNames()))
}

// perform runs the verb that the arguments begin with, and returns its name, "" if it has none.
func perform(args []string, s streams) (name string, err error) {
	if len(args) == 0 {
		return "", misusef("say what to do: %s", strings.Join(verbNames(), ", "))
	}
	if slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
		return "", listVerbs(s.out)
	}
	v, err := findVerb(args[0])
	if err != nil {
		return "", err
	}
	flags := flag.NewFlagSet(v.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	do := v.prepare(flags)
	rest, err := parse(flags, args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return v.name, describe(s.out, v)
	case err != nil:
		return v.name, err
	}
	return v.name, do(s, rest)
}
