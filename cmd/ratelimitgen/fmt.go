package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/spacing"
)

func fmtCommand() command {
	return command{
		name:    "fmt",
		args:    "[FILE...]",
		summary: "give a limits.yaml uniform spacing",
		help: `FILE defaults to limits.yaml; - is standard input, whose text is printed. A directory is the limits.yaml
in it, and DIRECTORY/... is as for check. The spacing is two spaces for each level, one after a colon or
a comma, and at most one empty line in a row; comments after lines in a row stay aligned. Fields keep
their order, and texts and comments stay as they are. A file that is not valid is not changed.

-check writes nothing. If a file has another spacing, it prints the command to run and the first line
that differs, and the exit code is 1.
`,
		prepare: prepareFmt,
	}
}

// fmtArgs are the flags of fmt.
type fmtArgs struct {
	check bool
	color choice
}

func prepareFmt(flags *flag.FlagSet) action {
	var a fmtArgs
	flags.BoolVar(&a.check, "check", false, "write nothing; report whether the files have this spacing")
	a.color.declareColor(flags)
	return a.run
}

func (a *fmtArgs) run(s streams, args []string) error {
	sources, _, err := sourcesIn(args)
	if err != nil {
		return err
	}
	for _, one := range sources {
		err = errors.Join(err, a.runOne(s, one.path))
	}
	return err
}

func (a *fmtArgs) runOne(s streams, path string) error {
	file, err := readValid(s, path, &a.color)
	if err != nil {
		return err
	}
	text := file.text
	formatted, err := spacing.Uniform(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", shown(nameOf(path)), err)
	case a.check && !bytes.Equal(text, formatted):
		one := render.Stale{Path: shown(nameOf(path)), Problem: "has another spacing", Remedy: "run: go tool ratelimitgen fmt " +
			quoted(slash(path)),
			Difference: firstDifference(string(text), string(formatted))}
		return errors.Join(render.WriteProblemsText(s.out, render.Problems{Stale: []render.Stale{one}}, render.Options{}),
			checkFailed{})
	case a.check:
		return nil
	case path == standardInput:
		_, err := s.data.Write(formatted)
		return err
	case bytes.Equal(text, formatted):
		return nil
	}
	return replaceFile(path, formatted)
}
