package main

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// defaultFile is the file that commands read if the arguments name none.
const defaultFile = "limits.yaml"

// source is a limits.yaml that the arguments of a command name, and the Go files to generate from it.
type source struct {
	path    string
	outputs []string
}

// targets returns the targets of the outputs, for a package that the user has named, or "".
func (s source) targets(pkg string) (list []target) {
	for _, output := range s.outputs {
		list = append(list, target{s.path, output, pkg})
	}
	return list
}

// sourcesIn returns the files that arguments name, or the default, each once: for a directory, the limits.yaml in it; for
// DIRECTORY/..., all of that name in and below it, as in patterns of packages, and those of any name from which code there
// was generated. It also returns the generated files there whose source is gone.
func sourcesIn(args []string) (sources []source, leftOver []generatedFile, err error) {
	if len(args) == 0 {
		args = []string{defaultFile}
	}
	var paths []string
	var code []generatedFile
	for _, arg := range args {
		root, below := strings.CutSuffix(slash(arg), "/...")
		if !below {
			paths = append(paths, inDirectory(arg))
			continue
		}
		found, err := filesBelow(filepath.FromSlash(root), math.MaxInt)
		if err != nil {
			return nil, nil, err
		}
		paths, code = append(paths, found.limits...), append(code, found.code...)
		for _, f := range found.code {
			if f.sourceExists() {
				paths = append(paths, f.sourcePath())
			}
		}
		if len(paths) == 0 && len(code) == 0 {
			return nil, nil, fmt.Errorf("%s has no file named %s", shown(root), defaultFile)
		}
	}
	known := map[string]bool{}
	for _, path := range paths {
		id := absolute(path)
		if known[id] {
			continue
		}
		known[id] = true
		s, err := newSource(path, code, len(paths) > 1)
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, s)
	}
	for _, f := range code {
		isOutput := func(s source) bool { return slices.Contains(s.outputs, f.path) }
		if !f.sourceExists() && !slices.ContainsFunc(sources, isOutput) {
			leftOver = append(leftOver, f)
		}
	}
	return sources, leftOver, nil
}

// newSource returns the source at a path. Its outputs are the files that were generated from it before: those among code, or
// else one beside it. Without any, the output is the default one, for one of several files or for one alone.
func newSource(path string, code []generatedFile, several bool) (source, error) {
	s := source{path: path}
	s.add(code)
	if s.outputs == nil {
		beside, err := generatedIn(filepath.Dir(outputFor(path, several)))
		if err != nil {
			return s, err
		}
		s.add(beside)
	}
	if s.outputs == nil {
		s.outputs = []string{outputFor(path, several)}
	}
	return s, nil
}

// add adds the files that were generated from the source: one of each directory, because a package can contain only one.
func (s *source) add(code []generatedFile) {
	for _, f := range code {
		if absolute(f.sourcePath()) != absolute(s.path) {
			continue
		}
		i := slices.IndexFunc(s.outputs, func(output string) bool { return filepath.Dir(output) == filepath.Dir(f.path) })
		switch {
		case i < 0:
			s.outputs = append(s.outputs, f.path)
		case filepath.Base(f.path) == defaultOutput:
			s.outputs[i] = f.path
		}
	}
}

// absolute returns a path by which files are compared.
func absolute(path string) string {
	if from, err := filepath.Abs(path); err == nil {
		return from
	}
	return path
}

// inDirectory returns the limits.yaml of a directory, and other paths as they are.
func inDirectory(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, defaultFile)
	}
	return path
}

// oneFile returns the file that the arguments of a command name, or the default. The usage error for several says why it
// takes one.
func oneFile(args []string, why string) (string, error) {
	switch {
	case len(args) == 0:
		return defaultFile, nil
	case len(args) > 1:
		return "", usagef("takes one file of limits, not %d, because %s", len(args), why)
	}
	if root, below := strings.CutSuffix(slash(args[0]), "/..."); below {
		return "", usagef("takes one file of limits%s, because %s", filesIfAny(root), why)
	}
	return inDirectory(args[0]), nil
}

// absentRemedy says what to do about a file that does not exist: name one that does, or create it.
func absentRemedy(path string) string {
	if found := filesIfAny("."); found != "" && filepath.Base(path) == defaultFile {
		return "name the file" + found
	}
	return program + " init creates one"
}

// filesIfAny returns the files of limits in and below a directory, as a part of a sentence; "" without any.
func filesIfAny(root string) string {
	const most = 3
	found, err := filesBelow(filepath.FromSlash(root), mostSearched)
	if err != nil || len(found.limits) == 0 {
		return ""
	}
	paths, end := found.limits, ""
	if len(paths) > most {
		paths, end = paths[:most], " and others"
	}
	return ", such as " + strings.Join(namesOf(paths, func(path string) string { return quoted(slash(path)) }), ", ") + end
}

// mostSearched bounds how many files and directories are searched for a better message.
const mostSearched = 10_000

// found is the files of limits and the generated files below a directory.
type found struct {
	limits []string
	code   []generatedFile
}

// filesBelow searches a directory and those below it that belong to the same module and that Go does not ignore, in all as
// many files and directories.
func filesBelow(root string, most int) (all found, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return pathError(err)
		}
		if most--; most < 0 {
			return fs.SkipAll
		}
		name := entry.Name()
		switch {
		case entry.IsDir() && path != root && (isIgnored(name) || isRegular(filepath.Join(path, "go.mod"))):
			return fs.SkipDir
		case name == defaultFile && !entry.IsDir():
			all.limits = append(all.limits, path)
		case !entry.IsDir():
			f, ours, err := generatedAt(path)
			if ours {
				all.code = append(all.code, f)
			}
			return err
		}
		return nil
	})
	return all, err
}

// isIgnored reports whether Go ignores directories of this name.
func isIgnored(name string) bool {
	return name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}
