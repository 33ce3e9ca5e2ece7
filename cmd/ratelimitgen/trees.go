package main

import (
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tree is a directory whose files of limits are compared: of the working tree, or of a commit.
type tree struct {
	// in is the directory in git, nil for the working tree.
	in *revision
	// path is the directory, without /... behind it.
	path string
}

// parseTree returns the tree for an argument such as ./... or main:./..., or false for one that is a file.
func parseTree(arg string) (tree, bool, error) {
	r, inGit := parseRevision(arg)
	if !inGit {
		r = revision{path: slash(arg)}
	}
	if path.Base(r.path) != "..." {
		return tree{}, false, nil
	}
	t := tree{path: strings.TrimSuffix(r.path, "...")}
	if !inGit {
		return t, true, nil
	}
	if r.ref == "" {
		return t, true, usagef("%s: the index has no trees to compare; name a commit", r)
	}
	t.in = &r
	return t, true, r.validate()
}

// argument returns a file of the tree as an argument of diff.
func (t tree) argument(file string) string {
	if t.in == nil {
		return t.path + file
	}
	return revision{t.in.ref, t.path + file}.name()
}

// files returns the paths of the files of limits below the directory: in the working tree, of its module, and in a commit,
// of all modules, whose paths it returns too.
func (t tree) files() (files []string, modules map[string]bool, err error) {
	if t.in != nil {
		return revision{t.in.ref, t.path + "."}.filesBelow()
	}
	root := filepath.Join(".", filepath.FromSlash(t.path))
	found, err := filesBelow(root, math.MaxInt)
	paths := found.limits
	for _, f := range found.code {
		if f.sourceExists() {
			paths = append(paths, f.sourcePath())
		}
	}
	for _, p := range paths {
		file, notBelow := filepath.Rel(root, p)
		if file = slash(file); notBelow == nil && !outside(file) {
			files = append(files, file)
		}
	}
	return files, nil, err
}

// filesBelow returns the files named limits.yaml in and below a directory of a commit, as paths below it, and the
// directories of modules.
func (r revision) filesBelow() (files []string, modules map[string]bool, err error) {
	root, err := r.fromRoot()
	if err != nil {
		return nil, nil, err
	}
	commit, err := r.tree()
	if err != nil {
		return nil, nil, err
	}
	listed, err := git("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
	if err != nil {
		return nil, nil, fmt.Errorf("git cannot list %s: %w", r, err)
	}
	modules = map[string]bool{}
	for name := range strings.SplitSeq(string(listed), "\x00") {
		file, below := strings.CutPrefix(name, root+"/")
		if root == "." {
			file, below = name, true
		}
		switch {
		case !below:
		case path.Base(file) == "go.mod":
			modules[path.Dir(file)] = true
		case path.Base(file) == defaultFile:
			files = append(files, file)
		}
	}
	return files, modules, nil
}

// ofModule returns those files that belong to the module of the directory, and that Go does not ignore, given those of the
// directories below it that are modules.
func ofModule(files []string, isModule func(dir string) bool) []string {
	return slices.DeleteFunc(files, func(file string) bool {
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			if isIgnored(path.Base(dir)) || isModule(dir) {
				return true
			}
		}
		return false
	})
}

// inCommit returns the path from the root of the repository of a file that is an argument REF:PATH, and the argument if it
// is none.
func inCommit(arg string) string {
	if r, inGit := parseRevision(arg); inGit {
		if from, err := r.fromRoot(); err == nil {
			return from
		}
	}
	return arg
}

// treesOf returns the trees for the arguments of diff, or false if they are files.
func treesOf(args []string) (old, new tree, ok bool, err error) {
	if len(args) < 1 || len(args) > 2 {
		return old, new, false, nil
	}
	old, ok, err = parseTree(args[0])
	if len(args) == 1 {
		if ok && err == nil && old.in == nil {
			err = usagef("needs NEW too if OLD is not in git; for a commit, write REF:%s", shown(args[0]))
		}
		return old, old, ok, err
	}
	new, both, failed := parseTree(args[1])
	if ok != both {
		failed = usagef("OLD and NEW must both end with /..., or both be files")
	}
	return old, new, ok || both, errors.Join(err, failed)
}
