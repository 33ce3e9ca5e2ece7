package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func generateCommand() command {
	return command{
		name:    "generate",
		args:    "[FILE...]",
		summary: "generate the Go code for limits.yaml",
		help: `FILE defaults to limits.yaml. A directory is the limits.yaml in it, and DIRECTORY/... all files of
that name in and below it, and those from which code there was generated, each for a package of its
own. For go generate, add this line to a Go file of the package for the limits:

  //go:generate go tool ratelimitgen generate limits.yaml

The name of the package is the first of these: -package; package in FILE; the package of the Go file
with the directive, or of the other Go files beside OUTPUT, or of OUTPUT as it is; the name of its
directory. A file that ratelimitgen did not write is not overwritten, and one that would not change is
not written again. A JSON Schema beside FILE that init wrote is brought up to date with the program.

-check writes nothing. If the code or the schema is missing or out of date, or the directory contains
another generated file, it prints the commands to run and the first line that differs, and the exit code
is 1.
`,
		prepare: prepareGenerate,
	}
}

// generateArgs are the flags of generate.
type generateArgs struct {
	// output and pkg are the values of -o and -package, "" without them.
	output, pkg           string
	check, force, verbose bool
	color                 choice
}

func prepareGenerate(flags *flag.FlagSet) action {
	var a generateArgs
	flags.StringVar(&a.output, "o", "", "write to `OUTPUT`, - for standard output (default the file generated before, or "+
		defaultOutput+" beside FILE; under go generate, in the current directory)")
	flags.StringVar(&a.pkg, "package", "", "use `NAME` as the package name")
	flags.BoolVar(&a.check, "check", false, "write nothing; report whether the code is up to date")
	flags.BoolVar(&a.force, "force", false, "overwrite OUTPUT even if it is read-only or ratelimitgen did not write it")
	flags.BoolVar(&a.verbose, "v", false, "print whether OUTPUT was written or up to date")
	a.color.declareColor(flags)
	return a.run
}

func (a *generateArgs) run(s streams, args []string) error {
	if err := a.validate(); err != nil {
		return err
	}
	sources, orphans, err := sourcesIn(args)
	switch {
	case err != nil:
		return err
	case len(sources) > 1 && a.output != "":
		return usagef("-o is for one file, not %d: a package contains the limits of one file", len(sources))
	}
	var all []render.Stale
	for _, one := range sources {
		stale, failed := a.runOne(s, one)
		all, err = append(all, stale...), errors.Join(err, failed)
	}
	if all = withLeftOver(all, orphans); len(all) > 0 {
		err = errors.Join(err, render.WriteProblemsText(s.out, render.Problems{Stale: all}, render.Options{}), checkFailed{})
	}
	return err
}

// validate validates the flags.
func (a *generateArgs) validate() error {
	switch {
	case a.check && a.output == standardOutput:
		return usagef("-check and -o - cannot be combined")
	case a.pkg != "" && !fields.IsPackageName(a.pkg):
		return usagef("-package %q is not a valid name of a Go package", a.pkg)
	case a.output == "", a.output == standardOutput:
		return nil
	case filepath.Ext(a.output) != ".go":
		return usagef("-o must name a .go file, not %q", a.output)
	case !isSource(filepath.Base(a.output)):
		return usagef("-o cannot be %q: go build ignores files whose names begin with . or _ or end with _test.go", a.output)
	case !isForAllSystems(filepath.Base(a.output)):
		return usagef("-o cannot be %q: go build takes the end of its name for a system, and compiles it only there", a.output)
	}
	return nil
}

// runOne generates the code of one file or, with -check, returns its stale outputs.
func (a *generateArgs) runOne(s streams, from source) ([]render.Stale, error) {
	switch {
	case from.path == standardInput:
		return nil, usagef("needs a file name, because the generated code contains it; for a file named -, write ./-")
	case a.output == standardOutput:
		from.outputs = []string{outputFor(from.path, false)}
	case a.output != "":
		from.outputs = []string{a.output}
	}
	file, err := readValid(s, from.path, &a.color)
	if err != nil {
		return nil, err
	}
	targets := from.targets(a.pkg)
	switch {
	case a.output == standardOutput:
		code, err := targets[0].code(file.File)
		if err == nil {
			_, err = s.data.Write(code)
		}
		return nil, err
	case a.check:
		stale, err := staleOf(from.path, targets, file.File)
		if len(stale) == 0 && err == nil {
			a.log(s, "%s is up to date", strings.Join(namesOf(from.outputs, shown), " and "))
		}
		return stale, err
	}
	for _, t := range targets {
		err = errors.Join(err, a.write(s, t, file.File))
	}
	return nil, errors.Join(err, a.refreshSchema(s, from.path))
}

// write writes the code. It keeps a file that has the code already, and, unless -force is set, one that is foreign or
// read-only.
func (a *generateArgs) write(s streams, t target, file *spec.File) error {
	code, err := t.code(file)
	if err != nil {
		return err
	}
	now, err := readOutput(t.output)
	if err == nil {
		err = t.refuseSecond(a.force)
	}
	switch {
	case err != nil:
		return err
	case now.equals(code):
		a.log(s, "%s is up to date", shown(t.output)) // and keeps its time, for make and build caches
		return nil
	case now.foreign() && !a.force:
		return checkFailed{shown(t.output) + " exists and ratelimitgen did not write it; " + foreignRemedy}
	case now.readOnly && !a.force:
		// The rename would succeed: it needs permission for the directory only.
		return checkFailed{shown(t.output) + " is read-only; make it writable or pass -force"}
	}
	if err := replaceFile(t.output, code); err != nil {
		return err
	}
	a.log(s, "wrote %s (limits: %d)", shown(t.output), len(file.Limits))
	return nil
}

func (a *generateArgs) refreshSchema(s streams, source string) error {
	path := staleSchema(source)
	if path == "" {
		return nil
	}
	a.log(s, "wrote %s", shown(path))
	return replaceFile(path, fields.Schema())
}

// log prints a line if -v is set.
func (a *generateArgs) log(s streams, format string, args ...any) {
	if a.verbose {
		fmt.Fprintf(s.err, format+"\n", args...)
	}
}
