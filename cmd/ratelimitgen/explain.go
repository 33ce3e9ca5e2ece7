package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/explain"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func explainCommand() command {
	return command{
		name:    "explain",
		args:    "[LIMIT | FIELD | ID] [FILE]",
		summary: "explain a limit, a field or an id in words and numbers",
		help: `FILE defaults to limits.yaml; if it is the only argument, it must contain a dot or a slash. Without
LIMIT, FIELD or ID, all limits of FILE are listed.

  LIMIT   the most tokens that one key can take in several intervals in the worst case, the time
          to fill up again, an example of a reservation if it has any, and the call in Go; for windows
          of a calendar, the next four; for a group, its limits and the call
  FIELD   the meaning, the values and the default of a field of limits.yaml, such as lease
  ID      the meaning, with an example, of an id that check or diff prints in brackets, such as
          unknown-field or capacity-changed, or of a class of changes, such as loosened

If a limit has the name of a field or an id, the limit is explained; write '[duplicate]', with
brackets, for the field or the id.

The exit code is 1 if FILE is not valid, except for a FIELD or an ID.
`,
		prepare: prepareExplain,
	}
}

// explainArgs are the flags and arguments of explain.
type explainArgs struct {
	format formatChoice[[]explain.Page]
	color  choice
	// at is the instant after which the windows of a calendar are listed.
	at time.Time
	// name is the limit, field or id, or "" for all limits of the file.
	name, file string
}

func prepareExplain(flags *flag.FlagSet) action {
	var a explainArgs
	a.at = time.Now()
	flags.Func("at", "list the calendar windows after `TIME`, an RFC 3339 time (default now)", func(value string) (err error) {
		if a.at, err = time.Parse(time.RFC3339, value); err != nil || a.at.Year() < 1970 || a.at.Year() > 2199 {
			return errors.New("must be an RFC 3339 time in the years 1970 to 2199, such as 2026-01-31T12:00:00Z")
		}
		return nil
	})
	a.format.declare(flags, explainFormats)
	a.color.declareColor(flags)
	return a.run
}

func (a *explainArgs) run(s streams, args []string) error {
	if err := a.set(args); err != nil {
		return err
	}
	pages, err := a.pages(s)
	if err != nil {
		return err
	}
	return a.format.write(s, pages, render.Options{Color: a.color.color(s.out)})
}

// pages returns what is to be explained.
func (a *explainArgs) pages(s streams) ([]explain.Page, error) {
	if word, ok := strings.CutPrefix(a.name, "["); ok { // as printed by check and diff; never a limit
		return pagesOfWord(strings.TrimSuffix(word, "]"), nil)
	}
	file, diagnostics, err := readLimits(a.file)
	valid := err == nil && len(diagnostics) == 0
	switch {
	case valid && a.name == "":
		return []explain.Page{explain.List(file.File, program)}, nil
	case valid:
		return a.pagesOfName(file.File)
	case strings.Contains(a.name, "-") || slices.Contains(explain.Words(), a.name):
		// A field or an id needs no file, and users look up ids while the file is invalid.
		return pagesOfWord(a.name, nil)
	case err != nil:
		return nil, a.unreadable(err)
	}
	if err := diagnostics.WriteText(s.err, a.color.color(s.err)); err != nil {
		return nil, err
	}
	return nil, checkFailed{}
}

// unreadable returns the error for a file that cannot be read. Without it, the name may be a misspelled field or id.
func (a *explainArgs) unreadable(err error) error {
	near := suggestion("", a.name, explain.Words())
	switch {
	case near == "":
		return err
	case errors.Is(err, fs.ErrNotExist): // without the advice to create one
		err = absentError{shown(a.file) + " does not exist"}
	}
	return fmt.Errorf("no field or id is named %q%s, and %w", a.name, near, err)
}

// set sets the name and the file. Names contain no dots and no slashes, and files usually do.
func (a *explainArgs) set(args []string) (err error) {
	var files []string
	for _, arg := range args {
		switch {
		case a.name == "" && !strings.ContainsAny(arg, `./\`):
			a.name = arg
		case len(files) == 0:
			files = []string{arg}
		default:
			return usagef("unexpected argument %q: takes one LIMIT, FIELD or ID, and one FILE", arg)
		}
	}
	a.file, err = oneFile(files, "another file can have a limit of the same name")
	return err
}

// pagesOfName explains the limit or group of that name, or else the field or the id.
func (a *explainArgs) pagesOfName(file *spec.File) ([]explain.Page, error) {
	var names []string
	var p explain.Page
	for _, l := range file.Limits {
		if names = append(names, l.Policy.Name); l.Policy.Name == a.name {
			p = explain.Limit(file.Name, l, a.at)
		}
	}
	for _, g := range file.Groups {
		if names = append(names, g.Name); g.Name == a.name {
			p = explain.Group(file.Name, g)
		}
	}
	if p.Title == "" {
		return pagesOfWord(a.name, names)
	}
	if sort, _ := explain.Word(a.name, program); sort != "" {
		also := fmt.Sprintf("%s is also %s: %s explain '[%[1]s]'", a.name, sort, program)
		p.Sections = append(p.Sections, explain.Section{Text: also})
	}
	return []explain.Page{p}, nil
}

// pagesOfWord explains a field or an id. The error for an unknown one suggests the limits too.
func pagesOfWord(word string, limits []string) ([]explain.Page, error) {
	if _, pages := explain.Word(word, program); len(pages) > 0 {
		return pages, nil
	}
	return nil, usagef("no limit, field or id is named %q%s", word, suggestion("", word, append(limits, explain.Words()...)))
}
