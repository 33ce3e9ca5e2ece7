package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ratelimitgen/ratelimitgen/gen"
	"github.com/ratelimitgen/ratelimitgen/gen/printable"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// defaultOutput is the name of the file that is written if none is named.
const defaultOutput = "limits.gen.go"

func generateVerb() verb {
	return verb{
		name:  "generate",
		args:  "[FILE]",
		about: "write the Go code for limits.yaml",
		help: `FILE is limits.yaml if it is left out. In a Go file of the package that is to hold the limits, write

  //go:generate go tool ratelimitgen generate limits.yaml

The package is named by -package, or else by package in FILE, or else as that of the Go file with the
directive or of those beside the output, or else as their directory. A file that ratelimitgen did not write
is not overwritten, and one that would not change is left alone.

-check writes nothing. If the code is missing, or not as it would be written now, or if another file in
its directory is left over from an earlier run, it prints what to run and the difference: exit code 1.
`,
		prepare: prepareGenerate,
	}
}

// generation is one call of generate.
type generation struct {
	// source is the limits.yaml, and output the Go file.
	source, output string
	// pkg is the name of the package as it was given, if it was.
	pkg                           string
	check, stdout, force, verbose bool
	color                         choice
}

func prepareGenerate(flags *flag.FlagSet) action {
	var g generation
	flags.StringVar(&g.output, "o", "", "write to `OUTPUT`; if left out, "+defaultOutput+" beside FILE, or here under go generate")
	flags.StringVar(&g.pkg, "package", "", "call the package `NAME`")
	flags.BoolVar(&g.check, "check", false, "write nothing; ask whether the code is up to date")
	flags.BoolVar(&g.stdout, "stdout", false, "print the code instead of writing it")
	flags.BoolVar(&g.force, "force", false, "overwrite OUTPUT even if it is read-only or ratelimitgen did not write it")
	flags.BoolVar(&g.verbose, "v", false, "say what was done")
	g.color.declareColor(flags)
	return g.run
}

// outputFor returns the file that is written if none is named. go generate runs in the directory of the
// package that is to hold the limits; people run the tool anywhere.
func outputFor(source string) string {
	if os.Getenv("GOPACKAGE") != "" {
		return defaultOutput
	}
	return filepath.Join(filepath.Dir(source), defaultOutput)
}

func (g *generation) run(s streams, args []string) error {
	if err := g.accept(args); err != nil {
		return err
	}
	file, diagnostics, err := readLimits(g.source)
	if err != nil {
		return err
	}
	if len(diagnostics) > 0 {
		if err := diagnostics.WriteText(s.err, g.color.color(s.err)); err != nil {
			return err
		}
		return no{}
	}
	code, err := g.code(file)
	if err != nil {
		return err
	}
	switch {
	case g.stdout:
		_, err := s.data.Write(code)
		return err
	case g.check:
		return g.compare(s, code)
	}
	return g.write(s, code, len(file.Limits))
}

// accept takes the arguments, and says what does not go together.
func (g *generation) accept(args []string) error {
	g.source = defaultFile
	switch {
	case len(args) > 1:
		return misusef("takes one file, not %d: a package holds the limits of one", len(args))
	case len(args) == 1:
		g.source = args[0]
	}
	if g.source == standardInput {
		return misusef("needs the name of a file, which the code gets to say; for one that is named -, write ./-")
	}
	if g.output == "" {
		g.output = outputFor(g.source)
	}
	switch {
	case g.check && g.stdout:
		return misusef("-check and -stdout do not go together")
	case g.pkg != "" && !spec.IsPackageName(g.pkg):
		return misusef("-package %q is not a name that a Go package can have", g.pkg)
	case filepath.Ext(g.output) != ".go":
		return misusef("-o must name a .go file, not %q", g.output)
	case !isSource(filepath.Base(g.output)):
		return misusef("-o cannot be %q: go build passes over files whose names begin with . or _ or end with _test.go", g.output)
	}
	return nil
}

// code generates the code.
func (g *generation) code(file *spec.File) ([]byte, error) {
	pkg, err := g.packageName(file)
	if err != nil {
		return nil, err
	}
	return gen.Generate(file, gen.Options{Package: pkg, Source: g.sourceSeenFromOutput()})
}

// sourceSeenFromOutput returns the path from the directory of the output to the source, so that it is the
// same wherever the program is run. If there is none, as between two drives, it is the name alone.
func (g *generation) sourceSeenFromOutput() string {
	source, noSource := filepath.Abs(g.source)
	directory, noDirectory := filepath.Abs(filepath.Dir(g.output))
	path, noPath := filepath.Rel(directory, source)
	if errors.Join(noSource, noDirectory, noPath) != nil {
		return filepath.Base(g.source)
	}
	return slash(path)
}

// write writes the code, if there is anything new in it.
func (g *generation) write(s streams, code []byte, limits int) error {
	now, err := readOutput(g.output)
	switch {
	case err != nil:
		return err
	case now.holds(code):
		g.say(s, "%s is up to date", shown(g.output))
		return nil
	case now.foreign() && !g.force:
		return no{shown(g.output) + " exists and ratelimitgen did not write it; " + makeWay}
	case now.readOnly && !g.force:
		return no{shown(g.output) + " is read-only; make it writable or pass -force"}
	}
	if err := replaceFile(g.output, code); err != nil {
		return err
	}
	g.say(s, "wrote %s (limits: %d)", shown(g.output), limits)
	return nil
}

// makeWay says what to do about a file that ratelimitgen did not write.
const makeWay = "move it or pass -force"

// say tells those who asked what was done.
func (g *generation) say(s streams, format string, args ...any) {
	if g.verbose {
		fmt.Fprintf(s.err, format+"\n", args...)
	}
}

// slash returns a path with slashes, the same on every system.
func slash(path string) string { return filepath.ToSlash(path) }

// shown returns a path as it is printed in messages, on one line; in quotes if it is empty.
func shown(path string) string {
	if path == "" {
		return `""`
	}
	return printable.Line(slash(path))
}
