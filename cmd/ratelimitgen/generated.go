package main

import (
	"errors"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen"
)

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
		f, ours, err := generatedAt(filepath.Join(directory, entry.Name()))
		if err != nil {
			return nil, err
		}
		if ours {
			files = append(files, f)
		}
	}
	return files, nil
}

// generatedAt returns the file at a path if ratelimitgen wrote it.
func generatedAt(path string) (f generatedFile, ours bool, err error) {
	if !isSource(filepath.Base(path)) || !isRegular(path) {
		return f, false, nil
	}
	header, err := readUpTo(path, 64<<10) // a license may come before the comment that names the generator
	f.path = path
	f.source, ours = gen.SourceOf(header)
	return f, ours, err
}

// isSource reports whether go build compiles files of this name.
func isSource(name string) bool {
	return filepath.Ext(name) == ".go" && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_") &&
		!strings.HasSuffix(name, "_test.go")
}

// isForAllSystems reports whether go build compiles a file of this name on all systems: the end of the name is not one of
// them.
func isForAllSystems(name string) bool {
	return !slices.ContainsFunc([]string{"linux/amd64", "windows/arm64"}, func(system string) bool {
		on := build.Default
		on.GOOS, on.GOARCH, _ = strings.Cut(system, "/")
		on.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("package p")), nil }
		matches, err := on.MatchFile("", name)
		return err == nil && !matches
	})
}

// isRegular reports whether a path is a regular file, or a link to one. Opening others, such as a FIFO, can block.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
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

// packageOf returns the package of a Go file, or "" if it cannot be parsed.
func packageOf(path string) string {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
	if err != nil {
		return ""
	}
	return file.Name.Name
}
