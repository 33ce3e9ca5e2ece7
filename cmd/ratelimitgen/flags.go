package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// parse reads flags, which may also stand after and between the arguments, and returns the arguments.
// After "--" there are no more flags. The error is [flag.ErrHelp] or a misuse.
func parse(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, flagError(flags, err)
		}
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

// flagError says in our words what the flag package says about a wrong call.
func flagError(flags *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return misuse{err.Error()}
	}
	var known []string
	flags.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
	return misusef("there is no flag -%s%s", printable.Line(name), suggestion("-", name, known))
}

// choice is a flag with one of a few values, the first of which is the default.
type choice struct{ value string }

func (c *choice) declare(flags *flag.FlagSet, name, usage string, values ...string) {
	c.value = values[0]
	flags.Func(name, usage, func(value string) error {
		if !slices.Contains(values, value) {
			last := len(values) - 1
			return fmt.Errorf("must be %s or %s%s", strings.Join(values[:last], ", "), values[last], suggestion("", value, values))
		}
		c.value = value
		return nil
	})
}

func (c *choice) declareColor(flags *flag.FlagSet) {
	c.declare(flags, "color", "color diagnostics; `WHEN` is auto (on a terminal), always or never", "auto", "always", "never")
}

// color reports whether to color what is written to a stream, and prepares the stream for it.
func (c *choice) color(s stream) bool {
	s.Color = c.value == "always" || c.value == "auto" && s.colors
	return s.Color
}

// showsColor reports whether what is written to w is seen by someone who wants colors.
func showsColor(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && onTerminal(w) }

// onTerminal reports whether w is a terminal that can do more than print.
func onTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
