package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// side is one of the files that are compared.
type side struct {
	// what it is called in messages: the old side.
	what string
	// name is that of the file.
	name string
	// in is where git has it; nil for a file of the working tree.
	in *revision
	// root is the path from the root of the repository; "" if it is not known.
	root string
	read func() ([]byte, error)
}

// sides returns the two files that the arguments name.
func sides(args []string) (old, new side, err error) {
	if len(args) < 1 || len(args) > 2 {
		return old, new, misusef("takes OLD, and NEW if it is not the same path in the working tree; not %d arguments", len(args))
	}
	if old, err = sideOf("the old side", args[0]); err != nil {
		return old, new, err
	}
	if len(args) == 2 {
		new, err = sideOf("the new side", args[1])
		return old, new, err
	}
	if old.in == nil {
		return old, new, misusef("needs NEW too if OLD is a file; for a file in git, write REF:%s", shown(args[0]))
	}
	path, err := old.in.inWorkingTree()
	new = fileSide("the new side", path)
	new.root = old.root
	return old, new, err
}

// sideOf returns what an argument names: a file, or REF:PATH for one in git.
func sideOf(what, arg string) (side, error) {
	r, inGit := asRevision(arg)
	if !inGit {
		return fileSide(what, arg), nil
	}
	if err := r.accept(); err != nil {
		return side{}, err
	}
	return gitSide(what, r), nil
}

func fileSide(what, path string) side {
	return side{what: what, name: nameOf(path), read: func() ([]byte, error) {
		text, err := readSome(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, absent{shown(path) + " does not exist"}
		}
		return text, err
	}}
}

func gitSide(what string, r revision) side {
	root, err := r.fromRoot()
	if err != nil {
		root = "" // reading says why
	}
	return side{what, r.name(), &r, root, r.read}
}

// limitsFile is a valid limits.yaml, with its text.
type limitsFile struct {
	*spec.File
	text []byte
}

// limits returns what the side says. What is wrong with it is printed.
func (f side) limits(w stream, color bool) (limitsFile, error) {
	text, err := f.read()
	if err != nil {
		return limitsFile{}, fmt.Errorf("%s cannot be read: %w", f.what, err)
	}
	file, diagnostics := spec.Parse(f.name, text)
	if len(diagnostics) == 0 {
		return limitsFile{file, text}, nil
	}
	if err := diagnostics.WriteText(w, color); err != nil {
		return limitsFile{}, err
	}
	return limitsFile{}, fmt.Errorf("%s, %s, is not a valid limits.yaml", f.what, shown(f.name))
}

// review compares the sides. Where both have the same path and one of them has no such file, the other is
// compared with the file that it was moved from or to, or with nothing.
func (c *comparison) review(s streams, old, new side) (*review.Review, []byte, error) {
	color := c.color.color(s.err)
	before, noOld := old.limits(s.err, color)
	after, noNew := new.limits(s.err, color)
	remark := ""
	if old.root != "" && old.root == new.root {
		switch {
		case errors.Is(noOld, fs.ErrNotExist) && noNew == nil:
			before, remark = oldPlace(old, new, after)
			noOld = nil
		case errors.Is(noNew, fs.ErrNotExist) && noOld == nil && isDeleted(old, new):
			after, remark = newPlace(old, new, before)
			noNew = nil
		}
	}
	if err := errors.Join(noOld, noNew); err != nil {
		return nil, nil, err
	}
	r := review.Of(before.File, after.File)
	r.Remark = remark
	return r, after.text, nil
}

// oldPlace returns what a file that is not on the old side is compared with, and a sentence that says so.
func oldPlace(old, new side, after limitsFile) (limitsFile, string) {
	from, shared := moved(after, new.root, changedFiles("D", old, new), func(path string) side {
		return gitSide(old.what, revision{old.in.ref, path})
	})
	if shared == 0 {
		return nothing(old.name, after), fmt.Sprintf("%s does not exist, so every limit is new.", printable.Line(old.name))
	}
	return from, fmt.Sprintf("%s does not exist. It is compared with %s, which is gone now and %s; the import path of the package may be another.",
		printable.Line(old.name), printable.Line(from.Name), sharing(shared, after))
}

// newPlace returns what a file that is not on the new side is compared with, and a sentence that says so.
func newPlace(old, new side, before limitsFile) (limitsFile, string) {
	to, shared := moved(before, old.root, changedFiles("A", old, new), func(path string) side {
		if new.in != nil {
			return gitSide(new.what, revision{new.in.ref, path})
		}
		here, err := revision{"", path}.inWorkingTree()
		if err != nil {
			here = path
		}
		return fileSide(new.what, here)
	})
	if shared == 0 {
		return nothing(new.name, before), fmt.Sprintf("%s does not exist any more, so every limit is removed.", printable.Line(new.name))
	}
	return to, fmt.Sprintf("%s does not exist any more. %s is compared in its place, which is new and %s; the import path of the package may be another.",
		printable.Line(new.name), printable.Line(to.Name), sharing(shared, before))
}

// nothing is a file without limits that differs from another one in nothing else.
func nothing(name string, other limitsFile) limitsFile {
	return limitsFile{File: &spec.File{Name: name, Package: other.Package}}
}

func sharing(shared int, of limitsFile) string {
	return fmt.Sprintf("has %d of the %d limits", shared, len(of.Limits))
}

// changedFiles returns the files that were deleted (D) or added (A) from one side to the other, as paths
// from the root; nothing where git cannot say.
func changedFiles(filter string, old, new side) (paths []string) {
	args := []string{"diff", "--no-ext-diff", "--no-renames", "--ignore-submodules", "--name-only", "-z", "--diff-filter=" + filter}
	switch {
	case old.in.ref == "" || new.in != nil && new.in.ref == "":
		return nil
	case new.in != nil:
		args = append(args, old.in.ref+"^{tree}", new.in.ref+"^{tree}", "--")
	default:
		args = append(args, old.in.ref, "--")
	}
	list, err := git(args...)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
}

// isDeleted reports whether the file, which is not there, was deleted: a sparse checkout leaves out files too.
func isDeleted(old, new side) bool {
	return new.in != nil || old.in.ref == "" || slices.Contains(changedFiles("D", old, new), old.root)
}

// mostPlaces is how many files are read in search of one that was moved.
const mostPlaces = 200

// moved returns the file among some paths that has most limits in common with another one, by their names, and
// how many; of several, rather one with the same name. Names are what calls and counts go by, and in a file
// that was moved and edited little else may be the same.
func moved(file limitsFile, root string, paths []string, sideOf func(path string) side) (best limitsFile, most int) {
	paths = slices.DeleteFunc(paths, func(p string) bool { return path.Ext(p) != ".yaml" && path.Ext(p) != ".yml" })
	sameName := func(p string) bool { return path.Base(p) == path.Base(root) }
	slices.SortStableFunc(paths, func(a, b string) int {
		switch {
		case sameName(a) == sameName(b):
			return 0
		case sameName(a):
			return -1
		}
		return 1
	})
	for _, p := range paths[:min(len(paths), mostPlaces)] {
		candidate := sideOf(p)
		text, err := candidate.read()
		if err != nil {
			continue
		}
		other, diagnostics := spec.Parse(candidate.name, text)
		if len(diagnostics) > 0 {
			continue
		}
		if shared := sharedLimits(file.File, other); shared > most {
			best, most = limitsFile{other, text}, shared
		}
	}
	return best, most
}

// sharedLimits returns how many limits of two files have the same names.
func sharedLimits(a, b *spec.File) (shared int) {
	for _, l := range a.Limits {
		if slices.ContainsFunc(b.Limits, func(other *spec.Limit) bool { return other.Policy.Name == l.Policy.Name }) {
			shared++
		}
	}
	return shared
}
