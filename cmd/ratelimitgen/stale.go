package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

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
func (a *generateArgs) orphans() ([]stale, error) {
	directory := filepath.Dir(a.output)
	entries, err := os.ReadDir(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, pathError(err)
	}
	var found []stale
	for _, entry := range entries {
		if !isRegular(filepath.Join(directory, entry.Name())) || !isSource(entry.Name()) || entry.Name() == filepath.Base(a.output) {
			continue
		}
		path := filepath.Join(directory, entry.Name())
		text, err := readHeader(path)
		if err != nil {
			return nil, err
		}
		if source, ours := gen.SourceOf(text); ours {
			found = append(found, stale{shown(path), orphaned(directory, source), "run: rm " + quoted(slash(path))})
		}
	}
	return found, nil
}

// orphaned returns the problem of a left-over generated file.
func orphaned(directory, source string) string {
	if _, err := os.Stat(filepath.Join(directory, filepath.FromSlash(source))); errors.Is(err, fs.ErrNotExist) {
		return "is left over: its source " + shown(source) + " no longer exists"
	}
	return "is left over: it is not the output of this command, and a package can contain only one generated file"
}

// readHeader returns the beginning of a Go file, with the comment that names its generator.
func readHeader(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, pathError(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 64<<10)) // a license may come first
	return text, pathError(err)
}

// stale is a file that generate would change, or that must be removed.
type stale struct{ path, problem, remedy string }

// String returns the line that reports the file.
func (f stale) String() string { return fmt.Sprintf("%s %s; %s", f.path, f.problem, f.remedy) }

// staleBeside returns the files beside a limits.yaml that were generated from it and have another code now. Code in other
// directories is compared by generate -check, which knows where it is.
func staleBeside(source string, file *spec.File) (found []stale, err error) {
	directory := filepath.Dir(source)
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, pathError(err)
	}
	for _, entry := range entries {
		path := filepath.Join(directory, entry.Name())
		if !isSource(entry.Name()) || !isRegular(path) {
			continue
		}
		header, err := readHeader(path)
		if err != nil {
			return nil, err
		}
		if from, ours := gen.SourceOf(header); !ours || from != filepath.Base(source) {
			continue
		}
		a := generateArgs{source: source, output: path, pkg: packageOf(path)}
		code, err := a.code(file)
		if err != nil {
			return nil, err
		}
		now, err := readOutput(path)
		if err != nil {
			return nil, err
		}
		if problem := a.problem(now, code); problem != "" {
			// The remedy names the package only where it would be another one without it.
			if chosen := a.pkg; chosen != "" {
				if a.pkg = ""; !a.chooses(chosen, file) {
					a.pkg = chosen
				}
			}
			found = append(found, stale{shown(path), problem, a.remedy(now)})
		}
	}
	return found, nil
}

// chooses reports whether generate would choose a name for the package.
func (a *generateArgs) chooses(name string, file *spec.File) bool {
	chosen, err := a.packageName(file)
	return err == nil && chosen == name
}

// packageOf returns the package of a Go file, or "" if it cannot be parsed.
func packageOf(path string) string {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
	if err != nil {
		return ""
	}
	return file.Name.Name
}
