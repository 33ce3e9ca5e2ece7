package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// revision is a file as git has it: REF:PATH. Without a ref it is that of the index.
type revision struct{ ref, path string }

// String returns the revision as it is printed.
func (r revision) String() string { return printable.Line(r.name()) }

func (r revision) name() string { return r.ref + ":" + r.path }

// asRevision returns what an argument names in git. It is false for one that names a file: that is there,
// that has no colon, or that begins with the drive of Windows.
func asRevision(arg string) (revision, bool) {
	ref, path, ok := strings.Cut(arg, ":")
	if _, err := os.Stat(arg); err == nil || !ok || isDrive(ref, path) {
		return revision{}, false
	}
	return revision{ref, filepath.ToSlash(path)}, true
}

func isDrive(ref, path string) bool {
	letter := len(ref) == 1 && ('a' <= ref[0] && ref[0] <= 'z' || 'A' <= ref[0] && ref[0] <= 'Z')
	return letter && (strings.HasPrefix(path, `\`) || strings.HasPrefix(path, "/"))
}

// accept refuses what git would take for something else than a file of a commit.
func (r revision) accept() error {
	switch {
	case strings.HasPrefix(r.ref, "-"):
		return misusef("a ref cannot begin with -: %q", r.ref)
	case r.path == "":
		return misusef("%s names no file; write %s:%s", r, printable.Line(r.ref), defaultFile)
	case strings.HasPrefix(r.path, "/"):
		return misusef("the path in %s must be relative, to the root of the repository or with ./ to this directory", r)
	case strings.Contains(r.path, "\x00"):
		return misusef("no file is named %q", r.path)
	}
	return nil
}

// relative reports whether the path is as seen from this directory.
func (r revision) relative() bool {
	return strings.HasPrefix(r.path, "./") || strings.HasPrefix(r.path, "../")
}

// fromRoot returns the path as seen from the root of the repository.
func (r revision) fromRoot() (string, error) {
	if !r.relative() {
		return path.Clean(r.path), nil
	}
	prefix, err := git("rev-parse", "--show-prefix")
	if err != nil {
		return "", fmt.Errorf("git cannot show %s: %w", r, err)
	}
	from := path.Join(strings.TrimSuffix(string(prefix), "\n"), r.path)
	if outside(from) {
		return "", fmt.Errorf("%s is outside of the repository", r)
	}
	return from, nil
}

func outside(path string) bool {
	return path == ".." || strings.HasPrefix(path, "../") || strings.HasPrefix(path, "/")
}

// inWorkingTree returns the path of the file in the working tree, as seen from here.
func (r revision) inWorkingTree() (string, error) {
	said, err := git("rev-parse", "--is-inside-work-tree", "--show-cdup")
	if err != nil {
		return "", fmt.Errorf("git cannot find %s in a working tree: %w", r, err)
	}
	up, inside := strings.CutPrefix(string(said), "true\n")
	switch {
	case !inside:
		return "", fmt.Errorf("git cannot find %s in a working tree: this is none; name NEW too", r)
	case r.relative():
		return filepath.FromSlash(r.path), nil
	}
	return filepath.FromSlash(strings.TrimSuffix(up, "\n") + r.path), nil
}

// absent is the error for a file that is not in a commit that is there.
type absent struct{ message string }

func (a absent) Error() string        { return a.message }
func (a absent) Is(target error) bool { return target == fs.ErrNotExist }

// read returns the file, or as much of it as shows that it is too large. The error is [fs.ErrNotExist] if the
// commit is there and has no such file.
func (r revision) read() ([]byte, error) {
	from, err := r.fromRoot()
	if err != nil {
		return nil, err
	}
	list, err := r.lister()
	if err != nil {
		return nil, err
	}
	blob, err := r.find(list, from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absent{r.String() + " does not exist" + r.hint(list, from)}
	}
	if err != nil {
		return nil, err
	}
	text, err := git("cat-file", "blob", blob)
	if err != nil {
		return nil, fmt.Errorf("git cannot show %s: %w", r, err)
	}
	return text, nil
}

// hint asks whether the path was meant as seen from this directory.
func (r revision) hint(list lister, from string) string {
	near := revision{r.ref, "./" + r.path}
	seen, err := near.fromRoot()
	if err != nil || r.relative() || seen == from {
		return ""
	}
	if _, err := near.find(list, seen); err != nil {
		return ""
	}
	return "; did you mean " + near.String() + "?"
}

// entry is what git has at a path.
type entry struct{ mode, object string }

// The modes of what is not a regular file.
const (
	modeTree    = "040000"
	modeLink    = "120000"
	modeGitlink = "160000"
)

// lister returns what git has at some paths from the root, of those that there are.
type lister func(paths []string) (map[string]entry, error)

// lister returns that of the commit, tree or index. It reads the objects by their names, so that no ref and no
// path can mean anything else to git.
func (r revision) lister() (lister, error) {
	if r.ref == "" {
		up, err := git("rev-parse", "--show-cdup")
		if err != nil {
			return nil, fmt.Errorf("git cannot show %s: %w", r, err)
		}
		return func(paths []string) (map[string]entry, error) {
			last := len(paths) - 1
			found, err := entries(git("ls-files", "--stage", "--full-name", "-z", "--", strings.TrimSuffix(string(up), "\n")+paths[last]))
			for _, directory := range paths[:last] { // of which the index has none
				found[directory] = entry{mode: modeTree}
			}
			return found, err
		}, nil
	}
	tree, err := git("rev-parse", "--verify", "--quiet", r.ref+"^{tree}")
	switch {
	case errors.Is(err, errSilent):
		return nil, fmt.Errorf("git has no commit %q%s", r.ref, shallowHint())
	case err != nil:
		return nil, fmt.Errorf("git cannot show %s: %w", r, err)
	}
	return func(paths []string) (map[string]entry, error) {
		args := []string{"ls-tree", "-t", "-z", "--full-tree", strings.TrimSpace(string(tree)), "--"}
		return entries(git(append(args, paths...)...))
	}, nil
}

// entries reads what ls-tree and ls-files print: "MODE TYPE OBJECT\tPATH" and "MODE OBJECT STAGE\tPATH".
func entries(list []byte, err error) (map[string]entry, error) {
	found := map[string]entry{}
	for line := range strings.SplitSeq(string(list), "\x00") {
		about, path, ok := strings.Cut(line, "\t")
		words := strings.Fields(about)
		if !ok || len(words) != 3 {
			continue
		}
		object := words[1]
		if len(words[2]) > len(object) {
			object = words[2]
		}
		found[path] = entry{words[0], object}
	}
	return found, err
}

// mostLinks is how many symbolic links are followed.
const mostLinks = 20

// find returns the object of the file at a path from the root. It follows symbolic links, as the working tree
// does.
func (r revision) find(list lister, from string) (object string, err error) {
	for range mostLinks {
		paths := prefixes(from)
		found, err := list(paths)
		if err != nil {
			return "", fmt.Errorf("git cannot show %s: %w", r, err)
		}
		i := slices.IndexFunc(paths, func(p string) bool { return found[p].mode != modeTree })
		if i < 0 {
			return "", fmt.Errorf("%s is a directory", r)
		}
		at, whole := found[paths[i]], i == len(paths)-1
		switch {
		case at.mode == modeGitlink:
			return "", fmt.Errorf("%s is in the submodule %s, which has a repository of its own", r, printable.Line(paths[i]))
		case at.mode == modeLink:
			if from, err = r.follow(paths[i], at.object, from[len(paths[i]):]); err != nil {
				return "", err
			}
		case at.object == "" || !whole:
			return "", fs.ErrNotExist
		default:
			return at.object, nil
		}
	}
	return "", fmt.Errorf("%s has too many symbolic links", r)
}

// prefixes returns a path with the directories that it is in, the outermost first.
func prefixes(from string) (list []string) {
	for i, r := range from {
		if r == '/' {
			list = append(list, from[:i])
		}
	}
	return append(list, from)
}

// follow returns where a symbolic link leads, with the rest of the path that it is in.
func (r revision) follow(link, object, rest string) (string, error) {
	target, err := git("cat-file", "blob", object)
	if err != nil {
		return "", fmt.Errorf("git cannot show %s: %w", r, err)
	}
	to := path.Join(path.Dir(link), string(target)) + rest
	if path.IsAbs(string(target)) || outside(to) {
		return "", fmt.Errorf("%s is a symbolic link to %s, outside of the repository", r, printable.Line(string(target)))
	}
	return to, nil
}

// shallowHint says what to do in a clone without its history, such as CI makes; "" in any other.
func shallowHint() string {
	if answer, err := git("rev-parse", "--is-shallow-repository"); err != nil || string(answer) != "true\n" {
		return ""
	}
	return "\nthis clone is shallow: fetch the ref first, with git fetch --depth=1 or, in actions/checkout, fetch-depth: 0"
}

// pathspecSettings are the variables that git refuses together with GIT_LITERAL_PATHSPECS.
var pathspecSettings = []string{"GIT_GLOB_PATHSPECS=", "GIT_NOGLOB_PATHSPECS=", "GIT_ICASE_PATHSPECS="}

// git runs git, and returns what it prints, up to mostRead. The error is what git says. Paths are taken
// literally, and git is kept from fetching what a partial clone lacks.
func git(args ...string) ([]byte, error) {
	var said bytes.Buffer
	command := exec.Command("git", args...)
	command.Env = slices.DeleteFunc(os.Environ(), func(setting string) bool {
		return slices.ContainsFunc(pathspecSettings, func(name string) bool { return strings.HasPrefix(setting, name) })
	})
	command.Env = append(command.Env, "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_LITERAL_PATHSPECS=1", "GIT_OPTIONAL_LOCKS=0")
	command.Stderr = &said
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("there is no git in PATH; name two files instead")
	case err != nil:
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(out, mostRead))
	if len(text) == mostRead { // that is too large to be read to its end
		return text, errors.Join(out.Close(), ended(command))
	}
	if failed := command.Wait(); failed != nil {
		return nil, gitError(said.String(), failed)
	}
	return text, err
}

// ended waits for a command whose output nobody reads any more, so that it fails or not.
func ended(command *exec.Cmd) error {
	if err := command.Wait(); errors.As(err, new(*exec.ExitError)) {
		return nil
	} else {
		return err
	}
}

// errSilent is the error of a git that fails without a word, as rev-parse --quiet does for an unknown name.
var errSilent = errors.New("git says nothing")

// gitError returns what git says, and if it says nothing how it ended.
func gitError(said string, err error) error {
	said = strings.TrimSpace(strings.TrimPrefix(said, "fatal: "))
	if said == "" {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return errors.New(printable.Text(said))
}
