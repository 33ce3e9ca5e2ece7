package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// side is one of the two compared files.
type side struct {
	// role is the side in messages: "OLD" or "NEW".
	role string
	// name is that of the file.
	name string
	// in is the revision of the file in git, nil for a file of the working tree.
	in *revision
	// root is the path from the root of the repository, "" if it is not known.
	root string
	read func() ([]byte, error)
}

// sides returns the sides for the arguments of diff.
func sides(args []string) (old, new side, err error) {
	if len(args) < 1 || len(args) > 2 {
		return old, new, usagef("takes one or two arguments, OLD and NEW, not %d", len(args))
	}
	if old, err = newSide("OLD", args[0]); err != nil {
		return old, new, err
	}
	if len(args) == 2 {
		new, err = newSide("NEW", args[1])
		return old, new, err
	}
	if _, err := os.Stat(args[0]); old.in == nil && err != nil {
		if _, err := (revision{ref: args[0]}).tree(); err == nil && !strings.HasPrefix(args[0], "-") {
			return old, new, usagef("%s is a commit; name a file in it: %s", shown(args[0]), strings.Join(filesOf(args[0]), " or "))
		}
	}
	if old.in == nil {
		return old, new, usagef("needs NEW too if OLD is a file; for a file in git, write REF:%s", shown(args[0]))
	}
	path, err := old.in.inWorkingTree()
	new = fileSide("NEW", path)
	new.root = old.root // the same path by definition, even if git cannot resolve it
	return old, new, err
}

// filesOf returns the files of limits that a commit may have, as arguments.
func filesOf(ref string) []string {
	found, err := filesBelow(".", mostSearched)
	paths := found.limits
	if err != nil || len(paths) == 0 || len(paths) > 3 {
		paths = []string{defaultFile}
	}
	return namesOf(paths, func(path string) string {
		if ref == "" {
			return quoted(slash(path))
		}
		return quoted(ref + ":./" + slash(path))
	})
}

// newSide returns the side for an argument: a file, or REF:PATH for a file in git.
func newSide(role, arg string) (side, error) {
	r, inGit := parseRevision(arg)
	if path.Base(slash(arg)) == "..." {
		return side{}, usagef("%s must be one file, because each has a review of its own: %s", role,
			strings.Join(filesOf(r.ref), " or "))
	}
	if !inGit {
		return fileSide(role, arg), nil
	}
	if err := r.validate(); err != nil {
		return side{}, err
	}
	return gitSide(role, r), nil
}

func fileSide(role, path string) side {
	return side{role: role, name: nameOf(path), read: func() ([]byte, error) {
		text, err := readBounded(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, absentError{shown(path) + " does not exist"}
		}
		return text, err
	}}
}

func gitSide(role string, r revision) side {
	root, err := r.fromRoot()
	if err != nil {
		root = "" // read returns the same error
	}
	return side{role, r.name(), &r, root, r.read}
}

// inRepository returns the name of the side in its repository, whatever the current directory is: a path from the root,
// after the ref of a file in git. It returns other names as they are, such as the name of the file that is compared in place
// of a missing one, and of a file in no repository.
func (f side) inRepository(name string) string {
	root := f.root
	if root == "" && f.in == nil {
		root = fromRoot(f.name)
	}
	switch {
	case name != f.name || root == "":
		return name
	case f.in != nil:
		return revision{f.in.ref, root}.name()
	}
	return root
}

// limits reads and parses the file, and prints its diagnostics to w.
func (f side) limits(w stream, color bool) (limitsFile, error) {
	text, err := f.read()
	if err != nil {
		return limitsFile{}, fmt.Errorf("cannot read %s: %w", f.role, err)
	}
	file, diagnostics := fields.Parse(f.name, text)
	if len(diagnostics) == 0 {
		return limitsFile{file, text}, nil
	}
	if err := diagnostics.WriteText(w, color); err != nil {
		return limitsFile{}, err
	}
	return limitsFile{}, fmt.Errorf("%s, %s, is not a valid limits.yaml", f.role, shown(f.name))
}

// reviewSides compares the sides, and returns the text of the new one too. If both have the same path and one of them
// does not exist, the other is compared with the file that it was moved from or to, or with an empty one.
func reviewSides(s streams, color bool, old, new side) (*review.Review, []byte, error) {
	before, errOld := old.limits(s.err, color)
	after, errNew := new.limits(s.err, color)
	remark := ""
	if old.root != "" && old.root == new.root {
		switch {
		case errors.Is(errOld, fs.ErrNotExist) && errNew == nil:
			before, remark = noOld.replacement(old, old, new, after)
			errOld = nil
		case errors.Is(errNew, fs.ErrNotExist) && errOld == nil && isDeleted(old, new):
			after, remark = noNew.replacement(new, old, new, before)
			errNew = nil
		}
	}
	if err := errors.Join(errOld, errNew); err != nil { // both, so that the user can fix both at once
		return nil, nil, err
	}
	r := judge.Review(before.File, after.File)
	r.Remark = remark
	return r, after.text, nil
}

// absence has the words of a remark for a file that does not exist on one side.
type absence struct {
	// filter selects the files of git that may be in its place.
	filter string
	// state says that it does not exist, every what all limits are then, and which what the file in its place is.
	state, every, which string
}

var (
	noOld = absence{"D", "does not exist", "new", "was deleted"}
	noNew = absence{"A", "no longer exists", "removed", "is new"}
)

// replacement returns the file that is compared in place of a missing one, from which it was moved or to which, or else an
// empty one; and a remark about it. An empty file has the package of the present one, so that the review reports the limits
// only.
func (a absence) replacement(missing, old, new side, present limitsFile) (limitsFile, string) {
	other, shared := mostAlike(present, missing.root, changedFiles(a.filter, old, new), func(path string) side {
		if missing.in != nil {
			return gitSide(missing.role, revision{missing.in.ref, path})
		}
		here, err := revision{"", path}.inWorkingTree() // git prints paths from the root, whatever the current directory
		if err != nil {
			here = path
		}
		return fileSide(missing.role, here)
	})
	name := printable.Line(missing.name)
	if shared == 0 {
		empty := limitsFile{File: &spec.File{Name: missing.name, Package: present.Package}}
		return empty, fmt.Sprintf("%s %s, so every limit is %s.", name, a.state, a.every)
	}
	return other, fmt.Sprintf("%s %s. %s, which %s and has %d of the %d limits, is compared in its place; the import path of the package may have changed.",
		name, a.state, printable.Line(other.Name), a.which, shared, len(present.Limits))
}

// readOld reads the file of -against, for a command that reads the file path, and returns a remark about it. If it does not
// exist at that revision, the file is compared with the one that it was moved from, or with an empty one, as by diff.
func readOld(s streams, against, path string, file *spec.File, color *choice) (*spec.File, string, error) {
	old, err := newSide("OLD", against)
	if err != nil {
		return nil, "", err
	}
	before, err := old.limits(s.err, color.color(s.err))
	if errors.Is(err, fs.ErrNotExist) && old.in != nil && old.root != "" {
		if here, notHere := old.in.inWorkingTree(); notHere == nil && filepath.Clean(here) == filepath.Clean(path) {
			new := fileSide("NEW", path)
			new.root = old.root
			before, remark := noOld.replacement(old, old, new, limitsFile{File: file})
			return before.File, remark, nil
		}
	}
	return before.File, "", err
}

// changedFiles returns the files that were deleted (D) or added (A) from one side to the other, as paths from the
// root. It is empty for the index and on errors of git: then a moved file is not found, and the diff is still right.
func changedFiles(filter string, old, new side) (paths []string) {
	// Without renames, because git would guess them by the text, and mostAlike does by the limits.
	args := []string{"diff", "--no-ext-diff", "--no-renames", "--ignore-submodules", "--name-only", "-z",
		"--diff-filter=" + filter}
	switch {
	case old.in.ref == "" || new.in != nil && new.in.ref == "":
		return nil
	case new.in != nil:
		args = append(args, old.in.ref+"^{tree}", new.in.ref+"^{tree}", "--")
	default: // with one ref, git compares with the working tree
		args = append(args, old.in.ref, "--")
	}
	list, err := git(args...)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
}

// isDeleted reports whether a file that is missing was deleted: a sparse checkout omits files too.
func isDeleted(old, new side) bool {
	return new.in != nil || old.in.ref == "" || slices.Contains(changedFiles("D", old, new), old.root)
}

// maxCandidates is the number of files that are read in search of a moved one.
const maxCandidates = 200

// mostAlike returns the file at one of the paths that has most limits in common with another file, and their number.
// Files with the same name as root come first among equals. It compares the names of limits, because calls and counts
// depend on them, and little else may be equal in a file that was moved and edited.
func mostAlike(file limitsFile, root string, paths []string, sideOf func(path string) side) (best limitsFile, most int) {
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
	for _, p := range paths[:min(len(paths), maxCandidates)] {
		candidate := sideOf(p)
		text, err := candidate.read()
		if err != nil {
			continue
		}
		other, diagnostics := fields.Parse(candidate.name, text)
		if len(diagnostics) > 0 { // most YAML files in a repository are no limits
			continue
		}
		if shared := sharedLimits(file.File, other); shared > most {
			best, most = limitsFile{other, text}, shared
		}
	}
	return best, most
}

// sharedLimits returns the number of limits with the same names in both files.
func sharedLimits(a, b *spec.File) (shared int) {
	for _, l := range a.Limits {
		if slices.ContainsFunc(b.Limits, func(other *spec.Limit) bool { return other.Policy.Name == l.Policy.Name }) {
			shared++
		}
	}
	return shared
}
