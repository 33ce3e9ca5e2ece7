package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// parse parses flags before, between and after the arguments, and returns the arguments. All arguments after "--"
// are returned as they are. The error is [flag.ErrHelp] or a [usageError].
func parse(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, flagError(flags, err)
		}
		// Parse stops at the first argument and after "--". Only the latter ends the flags.
		left := flags.Args()
		read := len(args) - len(left)
		switch {
		case len(left) == 0:
			return rest, nil
		case read > 0 && args[read-1] == "--":
			return append(rest, left...), nil
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

// flagError returns an error of package flag as a usage error, with a suggestion for an unknown flag.
func flagError(flags *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	// Package flag has no error type: the text is all there is to recognize an unknown flag by.
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usageError{err.Error()}
	}
	var known []string
	flags.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
	return usagef("unknown flag -%s%s", printable.Line(name), suggestion("-", name, known))
}

// noArgs returns an error for the first argument of a command that takes none.
func noArgs(args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}

// choice is a flag with a fixed list of values, the first of which is the default.
type choice struct{ value string }

func (c *choice) declare(flags *flag.FlagSet, name, usage string, values ...string) {
	c.value = values[0]
	declareChoice(flags, name, usage, values, func(i int) { c.value = values[i] })
}

// declareChoice declares a flag with a fixed list of values, and calls set with the index of one that is given.
func declareChoice(flags *flag.FlagSet, name, usage string, values []string, set func(i int)) {
	flags.Var(&oneOf{values, set}, name, usage)
}

// oneOf is the value of a flag with a fixed list of values.
type oneOf struct {
	values []string
	set    func(i int)
}

func (o *oneOf) words() []string { return o.values }

// String is empty, as that of the values of [flag.Func]: the usage names the default.
func (o *oneOf) String() string { return "" }

// Set returns an error for a value that is not in the list.
func (o *oneOf) Set(value string) error {
	i := slices.Index(o.values, value)
	if i < 0 {
		return fmt.Errorf("must be %s%s", alternatives(o.values), suggestion("", value, o.values))
	}
	o.set(i)
	return nil
}

// namesOf returns the name of each element of a list.
func namesOf[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = name(one)
	}
	return names
}

// alternatives returns words as "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// declareAgainst declares the flag for the old version, in every command that compares two.
func declareAgainst(flags *flag.FlagSet, against *string) {
	flags.StringVar(against, "against", "", "compare with `OLD`, the earlier limits.yaml, or REF:PATH in git")
}

func (c *choice) declareColor(flags *flag.FlagSet) {
	c.declare(flags, "color", "color the output; `WHEN` is auto (on a terminal), always or never", "auto", "always", "never")
}

// color reports whether to color the text written to s. It sets s.Color too, because s removes colors otherwise.
func (c *choice) color(s stream) bool {
	s.Color = c.value == "always" || c.value == "auto" && s.colors
	return s.Color
}

// showsColor reports whether w is a terminal with colors, of a user who has not turned them off (https://no-color.org).
func showsColor(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && isTerminal(w)
}

// suggestion returns the word nearest to the one written, with a prefix, as ` (did you mean "word"?)`. It is empty
// if none of the known words is near.
func suggestion(prefix, written string, known []string) string {
	if best := diag.Nearest(written, known); best != "" {
		return fmt.Sprintf(" (did you mean %q?)", prefix+best)
	}
	return ""
}
