package main

import (
	"errors"
	"flag"
	"path/filepath"

	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func checkCommand() command {
	return command{
		name:    "check",
		args:    "[FILE...]",
		summary: "report the errors in a limits.yaml, and code that is out of date with it",
		help: `FILE defaults to limits.yaml; - is standard input. A directory is the limits.yaml in it, and
DIRECTORY/... all files of that name in and below it, except in directories that Go ignores. The
text format prints nothing for a valid file. The exit code is 1 if there is an error in a file, or
code beside it that was generated from it is out of date; generate -check compares code elsewhere.
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
		if len(args) == 0 {
			args = []string{defaultFile}
		}
		paths, err := filesIn(args)
		if err != nil {
			return err
		}
		found, unreadable := checkAll(paths)
		if err := format.write(s, found, render.Options{Color: color.color(s.out)}); err != nil {
			return err
		}
		// Exit code 3 wins over 1: a file that could not be read may be valid or not.
		if unreadable == nil && len(found.Diagnostics)+len(found.Stale) > 0 {
			return checkFailed{}
		}
		return unreadable
	}
}

// checkAll checks all files, also those after one that cannot be read, and the code beside those that are valid.
func checkAll(paths []string) (found render.Problems, unreadable error) {
	for _, path := range paths {
		file, diagnostics, err := readLimits(path)
		if len(diagnostics) > 0 {
			found.Diagnostics = append(found.Diagnostics, diagnostics)
		} else if err == nil && path != standardInput {
			var beside []render.Stale
			beside, err = staleBeside(path, file)
			found.Stale = append(found.Stale, beside...)
		}
		unreadable = errors.Join(unreadable, err)
	}
	return found, unreadable
}

// staleBeside returns the files beside a limits.yaml that were generated from it and have another code now. Code in other
// directories is compared by generate -check, which knows where it is.
func staleBeside(source string, file *spec.File) (found []render.Stale, err error) {
	files, err := generatedIn(filepath.Dir(source))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.source != filepath.Base(source) {
			continue
		}
		a := generateArgs{source: source, output: f.path, pkg: packageOf(f.path)}
		code, err := a.code(file)
		if err != nil {
			return nil, err
		}
		now, err := readOutput(f.path)
		if err != nil {
			return nil, err
		}
		for _, other := range files {
			if other.source != f.source && other.sourceExists() {
				found = append(found, a.orphaned(other))
			}
		}
		if problem := a.problem(now, code); problem != "" {
			// The remedy names the package only where it would be another one without it.
			unnamed := generateArgs{source: source, output: f.path}
			if name, err := unnamed.packageName(file); err == nil && name == a.pkg {
				a.pkg = ""
			}
			found = append(found, render.Stale{Path: shown(f.path), Problem: problem, Remedy: a.remedy(now)})
		}
	}
	return found, nil
}
