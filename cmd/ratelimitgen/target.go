package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// target is a Go file that is or will be generated.
type target struct {
	// source is the limits.yaml, and output the Go file.
	source, output string
	// pkg is the name of the package that the user has given, or "".
	pkg string
}

// defaultOutput is the name of the generated file without -o.
const defaultOutput = "limits.gen.go"

// outputFor returns the output of a file from which no code was generated yet. go generate runs in the directory of the
// package for the limits, if there is one; users run the tool in any directory.
func outputFor(source string, several bool) string {
	if os.Getenv("GOPACKAGE") != "" && !several {
		return defaultOutput
	}
	return filepath.Join(filepath.Dir(source), defaultOutput)
}

func (t target) code(file *spec.File) ([]byte, error) {
	pkg, err := t.packageName(file)
	if err != nil {
		return nil, err
	}
	return gen.Generate(file, gen.Options{Package: pkg, Source: t.sourceFromOutput(),
		ImportPath: importPath(filepath.Dir(t.output))})
}

func (t target) packageName(file *spec.File) (string, error) {
	directory, err := filepath.Abs(filepath.Dir(t.output)) // the name of "." is that of the current directory
	if err != nil {
		return "", err
	}
	for _, name := range []string{t.pkg, file.Package, t.goGeneratePackage(), packageBeside(t.output), t.packageBefore()} {
		if name != "" {
			return name, nil
		}
	}
	name := filepath.Base(directory)
	if !fields.IsPackageName(name) {
		return "", usagef("the package cannot have the name of its directory, %q; pass -package NAME, or write package: NAME in %s", name, shown(t.source))
	}
	return name, nil
}

// goGeneratePackage returns the package of the file with the go:generate directive, or "" if the output is in
// another directory.
func (t target) goGeneratePackage() string {
	if filepath.Dir(t.output) != "." {
		return ""
	}
	return strings.TrimSuffix(os.Getenv("GOPACKAGE"), "_test") // the directive may be in an external test
}

// packageBefore returns the package of the output that was generated before: it stays, so that a name which was given once
// by -package need not be given again.
func (t target) packageBefore() string {
	if _, ours, err := generatedAt(t.output); err != nil || !ours {
		return ""
	}
	return packageOf(t.output)
}

// moduleForm matches the directive of a go.mod with the path of the module.
var moduleForm = regexp.MustCompile(`(?m)^[ \t]*module[ \t]+["` + "`" + `]?([^\s"` + "`" + `()/][^\s"` + "`" + `()]*)`)

// importPath returns the import path of the package in a directory, by the go.mod in it or above; "" without one.
func importPath(directory string) string {
	directory, err := filepath.Abs(directory)
	if resolved, ok := filepath.EvalSymlinks(directory); ok == nil {
		directory = resolved
	}
	for root := directory; err == nil; root = filepath.Dir(root) {
		text, failed := readUpTo(filepath.Join(root, "go.mod"), maxRead)
		if match := moduleForm.FindSubmatch(text); failed == nil && match != nil {
			below, _ := filepath.Rel(root, directory)
			return path.Join(string(match[1]), filepath.ToSlash(below))
		}
		if root == filepath.Dir(root) {
			break
		}
	}
	return ""
}

// sourceFromOutput returns the path from the directory of the output to the source, so that the code is the same
// whichever directory the program runs in.
func (t target) sourceFromOutput() string {
	source, noSource := filepath.Abs(t.source)
	directory, noDirectory := filepath.Abs(filepath.Dir(t.output))
	path, noPath := filepath.Rel(directory, source)
	if errors.Join(noSource, noDirectory, noPath) != nil {
		return filepath.Base(t.source) // no relative path leads from one drive of Windows to another
	}
	return slash(path)
}

// stale returns the stale files in the directory of the output: the output itself and other generated files. A package can
// contain only one, so the others remain from before the source or the output was renamed.
func (t target) stale(file *spec.File) (found []render.Stale, err error) {
	now, err := readOutput(t.output)
	if err != nil {
		return nil, err
	}
	code, err := t.code(file)
	if err != nil {
		return nil, err
	}
	files, err := generatedIn(filepath.Dir(t.output))
	replaceable := true
	for _, f := range files {
		isOutput := filepath.Base(f.path) == filepath.Base(t.output)
		if !isOutput || f.source != t.sourceFromOutput() && f.sourceExists() {
			found = append(found, t.orphan(f))
			replaceable = replaceable && !isOutput
		}
	}
	if problem := t.problem(now, code); replaceable && problem != "" {
		one := render.Stale{Path: shown(t.output), Problem: problem, Remedy: "run: " + t.commandLine()}
		switch {
		case now.foreign():
			one.Remedy = foreignRemedy
		case now.exists:
			one.Difference = firstDifference(string(now.lines()), string(code))
		}
		found = slices.Insert(found, 0, one)
	}
	return found, err
}

// problem returns the reason why the output is stale, or "" if it is up to date.
func (t target) problem(now output, code []byte) string {
	switch {
	case !now.exists:
		return "is missing"
	case now.foreign():
		return "was not written by ratelimitgen"
	case !now.equals(code):
		return "is out of date with " + shown(t.source)
	}
	return ""
}

const foreignRemedy = "move it or pass -force"

// firstDifference shows the first line that differs between two versions of a file, with its number: enough to see whether
// the source or the program has changed. Git shows the rest, once the file is generated.
func firstDifference(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	n := 0
	for n < min(len(a), len(b))-1 && a[n] == b[n] {
		n++
	}
	return fmt.Sprintf("  line %d:\n  - %s\n  + %s\n", n+1, a[n], b[n])
}

// commandLine is the command that writes the output.
func (t target) commandLine() string {
	words := []string{"go tool ratelimitgen generate"}
	if t.output != outputFor(t.source, false) {
		words = append(words, "-o", quoted(slash(t.output)))
	}
	if t.pkg != "" {
		words = append(words, "-package", t.pkg)
	}
	return strings.Join(append(words, quoted(slash(t.source))), " ")
}

// orphan reports another generated file in the directory of the output.
func (t target) orphan(f generatedFile) render.Stale {
	switch {
	case !f.sourceExists():
		return leftOver(f)
	case f.source == t.sourceFromOutput():
		return render.Stale{Path: shown(f.path),
			Problem: "is left over: it is not the output of this command, and a package can contain only one generated file", Remedy: removal(f)}
	}
	return render.Stale{Path: shown(f.path), Problem: "is generated from " + shown(f.sourcePath()) +
		", and a package can contain the limits of only one file, not of " + shown(t.source) + " too", Remedy: secondRemedy}
}

const secondRemedy = "write all limits in one file, or generate into another directory with -o"

// leftOver reports a generated file whose source is gone.
func leftOver(f generatedFile) render.Stale {
	return render.Stale{Path: shown(f.path), Problem: "is left over: its source " + shown(f.source) + " no longer exists",
		Remedy: removal(f)}
}

func removal(f generatedFile) string { return "run: rm " + quoted(slash(f.path)) }

// refuseSecond returns an error if the package has code of another file that exists: it would no longer compile, or the
// output would be replaced, which force allows.
func (t target) refuseSecond(force bool) error {
	files, err := generatedIn(filepath.Dir(t.output))
	if err != nil {
		return err
	}
	for _, f := range files {
		replaced := filepath.Base(f.path) == filepath.Base(t.output) && force
		if f.source != t.sourceFromOutput() && f.sourceExists() && !replaced {
			return checkFailed{t.orphan(f).String()}
		}
	}
	return nil
}

// schemaBeside returns the path of the schema for a limits.yaml. Spaces in its name become dashes, because editors
// end the name at a space.
func schemaBeside(path string) string {
	directory, name := filepath.Split(path)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	return directory + strings.Join(strings.Fields(name), "-") + ".schema.json"
}

// staleSchema returns the path of the JSON Schema beside a limits.yaml if it is one that another version wrote, and
// otherwise "".
func staleSchema(source string) string {
	path := schemaBeside(source)
	now, err := readOutput(path)
	if err != nil || !now.exists || !fields.IsSchema(now.text) || now.equals(fields.Schema()) {
		return "" // such as a link to nowhere, which generate leaves alone
	}
	return path
}

// staleOf returns all that is out of date with a limits.yaml: its targets, and its schema.
func staleOf(source string, targets []target, file *spec.File) (found []render.Stale, err error) {
	for _, t := range targets {
		stale, failed := t.stale(file)
		found, err = append(found, stale...), errors.Join(err, failed)
	}
	if path := staleSchema(source); path != "" {
		one := render.Stale{Path: shown(path), Problem: "is the schema of another version of ratelimitgen",
			Remedy: "run: go tool ratelimitgen schema > " + quoted(slash(path))}
		if len(targets) > 0 {
			one.Remedy = "run: " + targets[0].commandLine()
		}
		found = append(found, one)
	}
	return found, err
}

// written reports whether the output was generated from the source, or from one that is gone, as after a renaming.
func (t target) written() (bool, error) {
	files, err := generatedIn(filepath.Dir(t.output))
	return slices.ContainsFunc(files, func(f generatedFile) bool {
		return f.source == t.sourceFromOutput() || !f.sourceExists()
	}), err
}
