package main

import (
	"errors"
	"flag"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func checkCommand() command {
	return command{
		name:    "check",
		args:    "[FILE...]",
		summary: "report the errors in a limits.yaml, and code that is out of date with it",
		help: `FILE defaults to limits.yaml; - is standard input. A directory is the limits.yaml in it, and
DIRECTORY/... all files of that name in and below it, and those from which code there was generated,
except in directories that Go ignores and in other modules. The text format prints nothing for a valid
file. The exit code is 1 if there is an error in a file, or code that was generated from it is out of
date: code beside it and, for DIRECTORY/..., in and below DIRECTORY.
`,
		prepare: prepareCheck,
	}
}

func prepareCheck(flags *flag.FlagSet) action {
	var format formatChoice[render.Problems]
	var color choice
	format.declare(flags, problemsFormats)
	color.declareColor(flags)
	return func(s streams, args []string) error {
		sources, orphans, err := sourcesIn(args)
		if err != nil {
			return err
		}
		found, unreadable := checkAll(sources)
		found.Stale = withLeftOver(found.Stale, orphans)
		if err := format.write(s, found, render.Options{Color: color.color(s.out)}); err != nil {
			return err
		}
		if len(found.Diagnostics)+len(found.Stale) > 0 {
			unreadable = errors.Join(unreadable, checkFailed{})
		}
		return unreadable
	}
}

// checkAll checks all files, also those after one that cannot be read, and the code of those that are valid.
func checkAll(sources []source) (all render.Problems, unreadable error) {
	for _, source := range sources {
		file, diagnostics, err := readLimits(source.path)
		if len(diagnostics) > 0 {
			all.Diagnostics = append(all.Diagnostics, diagnostics)
		} else if err == nil && source.path != standardInput {
			var stale []render.Stale
			stale, err = staleWritten(source, file.File)
			all.Stale = append(all.Stale, stale...)
		}
		unreadable = errors.Join(unreadable, err)
	}
	return all, unreadable
}

// staleWritten returns the stale outputs of a file, if it was generated: no code is missing from a file that has none yet,
// or has it where the arguments of the command do not lead.
func staleWritten(from source, file *spec.File) ([]render.Stale, error) {
	var unreadable error
	targets := slices.DeleteFunc(from.targets(""), func(t target) bool {
		written, err := t.written()
		unreadable = errors.Join(unreadable, err)
		return !written
	})
	stale, err := staleOf(from.path, targets, file)
	return stale, errors.Join(unreadable, err)
}

// withLeftOver adds the generated files whose source is gone, unless they are reported already.
func withLeftOver(all []render.Stale, orphans []generatedFile) []render.Stale {
	for _, f := range orphans {
		one := leftOver(f)
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}
