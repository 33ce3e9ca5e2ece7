package main

import (
	"errors"
	"flag"
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
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

// defaultOutput is the name of the generated file without -o.
const defaultOutput = "limits.gen.go"

func generateCommand() command {
	return command{
		name:    "generate",
		args:    "[FILE...]",
		summary: "generate the Go code for limits.yaml",
		help: `FILE defaults to limits.yaml. A directory is the limits.yaml in it, and DIRECTORY/... all files of
that name in and below it, each for a package of its own. For go generate, add this line to a Go
file of the package for the limits:

  //go:generate go tool ratelimitgen generate limits.yaml

The name of the package is the first of these: -package; package in FILE; the package of the Go file
with the directive, or of the Go files beside OUTPUT; the name of OUTPUT's directory. A file that
ratelimitgen did not write is not overwritten, and one that would not change is not written again.
A JSON Schema beside FILE that init wrote is brought up to date with the program.

-check writes nothing. If the code or the schema is missing or out of date, or the directory contains
another generated file, it prints the commands to run and the first line that differs, and the exit code
is 1.
`,
		prepare: prepareGenerate,
	}
}

// generateArgs are the flags and arguments of generate.
type generateArgs struct {
	// source is the limits.yaml, and output the Go file.
	source, output string
	// pkg is the value of -package, "" without it.
	pkg string
	// prints means that the code goes to standard output.
	prints                bool
	check, force, verbose bool
	color                 choice
}

func prepareGenerate(flags *flag.FlagSet) action {
	var a generateArgs
	flags.StringVar(&a.output, "o", "", "write to `OUTPUT`, - for standard output (default "+defaultOutput+" beside FILE, or in the current directory under go generate)")
	flags.StringVar(&a.pkg, "package", "", "use `NAME` as the package name")
	flags.BoolVar(&a.check, "check", false, "write nothing; report whether the code is up to date")
	flags.BoolVar(&a.force, "force", false, "overwrite OUTPUT even if it is read-only or ratelimitgen did not write it")
	flags.BoolVar(&a.verbose, "v", false, "print whether OUTPUT was written or up to date")
	a.color.declareColor(flags)
	return a.run
}

func (a *generateArgs) run(s streams, args []string) error {
	paths, err := filesIn(args)
	switch {
	case err != nil:
		return err
	case len(paths) == 0:
		paths = []string{defaultFile}
	case len(paths) > 1 && a.output != "":
		return usagef("-o is for one file, not %d: a package contains the limits of one file", len(paths))
	}
	var failed error
	for _, path := range paths {
		one := *a
		err := one.runOne(s, path)
		// Exit code 3 wins over 1, and an error without a text has been printed.
		if failed == nil || !errors.As(err, new(checkFailed)) && err != nil {
			failed = err
		} else if err != nil && err.Error() != "" {
			fmt.Fprintln(s.err, err)
		}
	}
	return failed
}

// runOne generates the code of one file.
func (a *generateArgs) runOne(s streams, path string) error {
	if err := a.set(path); err != nil {
		return err
	}
	file, err := readValid(s, a.source, &a.color)
	if err != nil {
		return err
	}
	code, err := a.code(file)
	if err != nil {
		return err
	}
	switch {
	case a.prints:
		_, err := s.data.Write(code)
		return err
	case a.check:
		return a.compare(s, code)
	}
	return errors.Join(a.write(s, code, file), a.refreshSchema(s))
}

// refuseSecond returns an error if the package has code of another file that exists: it would no longer compile, or the output
// would be replaced.
func (a *generateArgs) refuseSecond() error {
	others, err := a.others()
	if err != nil {
		return err
	}
	for _, f := range others {
		same := filepath.Base(f.path) == filepath.Base(a.output)
		if !f.sourceExists() || same && a.force {
			continue
		}
		return checkFailed{fmt.Sprintf("%s is generated from %s, and a package has the limits of one file, not of %s too; %s",
			shown(f.path), shown(f.sourcePath()), shown(a.source), secondRemedy)}
	}
	return nil
}

const secondRemedy = "write all limits in one file, or generate into another directory with -o"

// others returns the generated files in the directory of the output that are from another source.
func (a *generateArgs) others() ([]generatedFile, error) {
	files, err := generatedIn(filepath.Dir(a.output))
	return slices.DeleteFunc(files, func(f generatedFile) bool { return f.source == a.sourceFromOutput() }), err
}

// staleSchema returns the path of the JSON Schema beside the source if it is one that another version wrote, and otherwise "".
func (a *generateArgs) staleSchema() string {
	path := schemaBeside(a.source)
	now, err := readOutput(path)
	if err != nil || !now.exists || !fields.IsSchema(now.text) || now.equals(fields.Schema()) {
		return "" // such as a link to nowhere, which generate leaves alone
	}
	return path
}

func (a *generateArgs) refreshSchema(s streams) error {
	path := a.staleSchema()
	if path == "" {
		return nil
	}
	a.log(s, "wrote %s", shown(path))
	return replaceFile(path, fields.Schema())
}

// set sets the source and the output, and validates the flags.
func (a *generateArgs) set(path string) error {
	a.source = path
	if a.source == standardInput {
		return usagef("needs a file name, because the generated code contains it; for a file named -, write ./-")
	}
	if a.output == standardOutput {
		a.prints, a.output = true, ""
	}
	if a.output == "" {
		a.output = outputFor(a.source)
	}
	switch {
	case a.check && a.prints:
		return usagef("-check and -o - cannot be combined")
	case a.pkg != "" && !fields.IsPackageName(a.pkg):
		return usagef("-package %q is not a valid name of a Go package", a.pkg)
	case filepath.Ext(a.output) != ".go":
		return usagef("-o must name a .go file, not %q", a.output)
	case !isSource(filepath.Base(a.output)):
		return usagef("-o cannot be %q: go build ignores files whose names begin with . or _ or end with _test.go", a.output)
	}
	return nil
}

// outputFor returns the output without -o. go generate runs in the directory of the package for the limits; users run
// the tool in any directory.
func outputFor(source string) string {
	if os.Getenv("GOPACKAGE") != "" {
		return defaultOutput
	}
	return filepath.Join(filepath.Dir(source), defaultOutput)
}

func (a *generateArgs) code(file *spec.File) ([]byte, error) {
	pkg, err := a.packageName(file)
	if err != nil {
		return nil, err
	}
	return gen.Generate(file, gen.Options{Package: pkg, Source: a.sourceFromOutput(), ImportPath: importPath(filepath.Dir(a.output))})
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

func (a *generateArgs) packageName(file *spec.File) (string, error) {
	directory, err := filepath.Abs(filepath.Dir(a.output)) // the name of "." is that of the current directory
	if err != nil {
		return "", err
	}
	for _, name := range []string{a.pkg, file.Package, a.goGeneratePackage(), packageBeside(a.output)} {
		if name != "" {
			return name, nil
		}
	}
	name := filepath.Base(directory)
	if !fields.IsPackageName(name) {
		return "", usagef("the package cannot have the name of its directory, %q; pass -package NAME, or write package: NAME in %s", name, shown(a.source))
	}
	return name, nil
}

// goGeneratePackage returns the package of the file with the go:generate directive, or "" if the output is in
// another directory.
func (a *generateArgs) goGeneratePackage() string {
	if filepath.Dir(a.output) != "." {
		return ""
	}
	return strings.TrimSuffix(os.Getenv("GOPACKAGE"), "_test") // the directive may be in an external test
}

// packageBeside returns the package of the other Go files in the directory of the output, or "" if it has none.
// Files that go build excludes do not count: they can be of any package.
func packageBeside(output string) string {
	directory := filepath.Dir(output)
	entries, _ := os.ReadDir(directory)
	for _, entry := range entries {
		name := entry.Name()
		path := filepath.Join(directory, name)
		if filepath.Ext(name) != ".go" || !isRegular(path) {
			continue
		}
		built, _ := build.Default.MatchFile(directory, name)
		if !built || name == filepath.Base(output) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if pkg := packageOf(path); pkg != "" {
			return pkg
		}
	}
	return ""
}

// isSource reports whether go build compiles files of this name.
func isSource(name string) bool {
	return filepath.Ext(name) == ".go" && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_") &&
		!strings.HasSuffix(name, "_test.go")
}

// isRegular reports whether a path is a regular file, or a link to one. Opening others, such as a FIFO, can block.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// sourceFromOutput returns the path from the directory of the output to the source, so that the code is the same
// whichever directory the program runs in.
func (a *generateArgs) sourceFromOutput() string {
	source, noSource := filepath.Abs(a.source)
	directory, noDirectory := filepath.Abs(filepath.Dir(a.output))
	path, noPath := filepath.Rel(directory, source)
	if errors.Join(noSource, noDirectory, noPath) != nil {
		return filepath.Base(a.source) // no relative path leads from one drive of Windows to another
	}
	return slash(path)
}

// write writes the code. It keeps a file that has the code already, and, unless -force is set, one that is foreign or
// read-only.
func (a *generateArgs) write(s streams, code []byte, file *spec.File) error {
	now, err := readOutput(a.output)
	if err == nil {
		err = a.refuseSecond()
	}
	switch {
	case err != nil:
		return err
	case now.equals(code):
		a.log(s, "%s is up to date", shown(a.output)) // and keeps its time, for make and build caches
		return nil
	case now.foreign() && !a.force:
		return checkFailed{shown(a.output) + " exists and ratelimitgen did not write it; " + foreignRemedy}
	case now.readOnly && !a.force:
		// The rename would succeed: it needs permission for the directory only.
		return checkFailed{shown(a.output) + " is read-only; make it writable or pass -force"}
	}
	if err := replaceFile(a.output, code); err != nil {
		return err
	}
	a.log(s, "wrote %s (limits: %d)", shown(a.output), len(file.Limits))
	return nil
}

const foreignRemedy = "move it or pass -force"

// log prints a line if -v is set.
func (a *generateArgs) log(s streams, format string, args ...any) {
	if a.verbose {
		fmt.Fprintf(s.err, format+"\n", args...)
	}
}

// compare implements -check: it prints the stale files, and how the code in the output differs from code. The error is
// [checkFailed] if there are any.
func (a *generateArgs) compare(s streams, code []byte) error {
	now, err := readOutput(a.output)
	if err != nil {
		return err
	}
	found, err := a.orphans()
	if err != nil {
		return err
	}
	if problem := a.problem(now, code); problem != "" {
		found = slices.Insert(found, 0, render.Stale{Path: shown(a.output), Problem: problem, Remedy: a.remedy(now)})
	}
	if path := a.staleSchema(); path != "" {
		found = append(found, render.Stale{Path: shown(path), Problem: "is the schema of another version of ratelimitgen", Remedy: "run: " + a.commandLine()})
	}
	for _, f := range found {
		fmt.Fprintln(s.out, f)
	}
	if len(found) == 0 {
		a.log(s, "%s is up to date", shown(a.output))
		return nil
	}
	if now.exists && !now.foreign() && !now.equals(code) {
		fmt.Fprint(s.out, firstDifference(string(now.lines()), string(code)))
	}
	return checkFailed{}
}

// firstDifference shows the first line that differs between two versions of a file, with its number: enough to see whether the
// source or the program has changed. Git shows the rest, once the file is generated.
func firstDifference(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	n := 0
	for n < min(len(a), len(b))-1 && a[n] == b[n] {
		n++
	}
	return fmt.Sprintf("  line %d:\n  - %s\n  + %s\n", n+1, a[n], b[n])
}

// problem returns the reason why the output is stale, or "" if it is up to date.
func (a *generateArgs) problem(now output, code []byte) string {
	switch {
	case !now.exists:
		return "is missing"
	case now.foreign():
		return "was not written by ratelimitgen"
	case !now.equals(code):
		return "is out of date with " + shown(a.source)
	}
	return ""
}

// remedy returns the instruction that makes a stale output up to date.
func (a *generateArgs) remedy(now output) string {
	if now.foreign() {
		return foreignRemedy
	}
	return "run: " + a.commandLine()
}

// commandLine is the command that writes the output.
func (a *generateArgs) commandLine() string {
	words := []string{"go tool ratelimitgen generate"}
	if a.output != outputFor(a.source) {
		words = append(words, "-o", quoted(slash(a.output)))
	}
	if a.pkg != "" {
		words = append(words, "-package", a.pkg)
	}
	return strings.Join(append(words, quoted(slash(a.source))), " ")
}

// orphans returns the other generated files in the directory of the output. A package can contain only one, so they
// remain from before the source or the output was renamed.
func (a *generateArgs) orphans() (found []render.Stale, err error) {
	files, err := generatedIn(filepath.Dir(a.output))
	for _, f := range files {
		if filepath.Base(f.path) != filepath.Base(a.output) {
			found = append(found, a.orphaned(f))
		}
	}
	return found, err
}

// generatedFile is a file that ratelimitgen wrote, and what its comment says it was generated from.
type generatedFile struct{ path, source string }

// sourcePath is the path of the source.
func (f generatedFile) sourcePath() string {
	return filepath.Join(filepath.Dir(f.path), filepath.FromSlash(f.source))
}

func (f generatedFile) sourceExists() bool {
	_, err := os.Stat(f.sourcePath())
	return !errors.Is(err, fs.ErrNotExist)
}

// generatedIn returns the generated files in a directory, which may be missing.
func generatedIn(directory string) (files []generatedFile, err error) {
	entries, err := os.ReadDir(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, pathError(err)
	}
	for _, entry := range entries {
		path := filepath.Join(directory, entry.Name())
		if !isSource(entry.Name()) || !isRegular(path) {
			continue
		}
		header, err := readUpTo(path, 64<<10) // a license may come before the comment that names the generator
		if err != nil {
			return nil, err
		}
		if source, ours := gen.SourceOf(header); ours {
			files = append(files, generatedFile{path, source})
		}
	}
	return files, nil
}

// orphaned reports another generated file in the directory of the output.
func (a *generateArgs) orphaned(f generatedFile) render.Stale {
	remove := "run: rm " + quoted(slash(f.path))
	switch {
	case !f.sourceExists():
		return render.Stale{Path: shown(f.path), Problem: "is left over: its source " + shown(f.source) + " no longer exists", Remedy: remove}
	case f.source == a.sourceFromOutput():
		return render.Stale{Path: shown(f.path), Problem: "is left over: it is not the output of this command, and a package can contain only one generated file", Remedy: remove}
	}
	return render.Stale{Path: shown(f.path), Problem: "is generated from " + shown(f.sourcePath()) + ", and a package has the limits of one file, not of " + shown(a.source) + " too", Remedy: secondRemedy}
}

// packageOf returns the package of a Go file, or "" if it cannot be parsed.
func packageOf(path string) string {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
	if err != nil {
		return ""
	}
	return file.Name.Name
}
