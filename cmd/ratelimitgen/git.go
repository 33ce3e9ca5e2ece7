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

	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// revision is a file in git, REF:PATH. An empty ref is the index.
type revision struct{ ref, path string }

// String returns the revision escaped for messages.
func (r revision) String() string { return printable.Line(r.name()) }

func (r revision) name() string { return r.ref + ":" + r.path }

// parseRevision parses REF:PATH. It returns false for the name of a file: one that exists, that has no colon, or that
// begins with a drive of Windows.
func parseRevision(arg string) (revision, bool) {
	ref, path, ok := strings.Cut(arg, ":")
	// An existing file wins, because a file whose name has a colon could not be named otherwise.
	if _, err := os.Stat(arg); err == nil || !ok || isDrive(ref, path) {
		return revision{}, false
	}
	return revision{ref, filepath.ToSlash(path)}, true
}

func isDrive(ref, path string) bool {
	letter := len(ref) == 1 && ('a' <= ref[0] && ref[0] <= 'z' || 'A' <= ref[0] && ref[0] <= 'Z')
	return letter && (strings.HasPrefix(path, `\`) || strings.HasPrefix(path, "/"))
}

// validate refuses what git would not read as a file of a commit.
func (r revision) validate() error {
	switch {
	case strings.HasPrefix(r.ref, "-"):
		return usagef("a ref cannot begin with -: %q", r.ref)
	case r.path == "":
		return usagef("%s names no file; write %s:%s", r, printable.Line(r.ref), defaultFile)
	case strings.HasPrefix(r.path, "/"):
		return usagef("the path in %s must be relative to the root of the repository, or to the current directory with ./", r)
	case strings.Contains(r.path, "\x00"):
		return usagef("a file name cannot contain a zero byte: %q", r.path)
	}
	return nil
}

// relative reports whether the path is relative to the current directory.
func (r revision) relative() bool {
	return strings.HasPrefix(r.path, "./") || strings.HasPrefix(r.path, "../")
}

// fromRoot returns the path relative to the root of the repository.
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
		return "", fmt.Errorf("%s is outside the repository", r)
	}
	return from, nil
}

func outside(path string) bool {
	return path == ".." || strings.HasPrefix(path, "../") || strings.HasPrefix(path, "/")
}

// inWorkingTree returns the path of the file in the working tree, relative to the current directory.
func (r revision) inWorkingTree() (string, error) {
	printed, err := git("rev-parse", "--is-inside-work-tree", "--show-cdup")
	if err != nil {
		return "", fmt.Errorf("cannot find %s in the working tree: %w", r, err)
	}
	up, inside := strings.CutPrefix(string(printed), "true\n")
	switch {
	case !inside:
		return "", fmt.Errorf("cannot find %s in the working tree: the current directory is not in one; pass NEW too", r)
	case r.relative():
		return filepath.FromSlash(r.path), nil
	}
	return filepath.FromSlash(strings.TrimSuffix(up, "\n") + r.path), nil
}

// read returns at most maxRead bytes of the file. The error is [fs.ErrNotExist] if the commit exists and does not have
// the file.
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
		return nil, absentError{r.String() + " does not exist" + r.hint(list, from)}
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

// hint returns a suggestion if the path exists relative to the current directory, and "" otherwise.
func (r revision) hint(list lister, from string) string {
	near := revision{r.ref, "./" + r.path}
	seen, err := near.fromRoot()
	if err != nil || r.relative() || seen == from {
		return ""
	}
	if _, err := near.find(list, seen); err != nil {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", near)
}

// entry is an object of git at a path.
type entry struct{ mode, object string }

// The modes of entries that are not regular files.
const (
	modeTree    = "040000"
	modeLink    = "120000"
	modeGitlink = "160000"
)

// lister returns the entries at paths from the root. Paths without an entry are missing in the map.
type lister func(paths []string) (map[string]entry, error)

// lister returns the lister of the commit, tree or index. The ref is resolved to the name of an object first, so that
// git cannot read a ref or a path as an option or a pattern.
func (r revision) lister() (lister, error) {
	if r.ref == "" {
		up, err := git("rev-parse", "--show-cdup")
		if err != nil {
			return nil, fmt.Errorf("git cannot show %s: %w", r, err)
		}
		return func(paths []string) (map[string]entry, error) {
			last := len(paths) - 1
			found, err := entries(git("ls-files", "--stage", "--full-name", "-z", "--", strings.TrimSuffix(string(up), "\n")+paths[last]))
			for _, directory := range paths[:last] { // the index lists no directories
				found[directory] = entry{mode: modeTree}
			}
			return found, err
		}, nil
	}
	tree, err := git("rev-parse", "--verify", "--quiet", r.ref+"^{tree}")
	switch {
	case errors.Is(err, errSilent): // rev-parse --quiet prints nothing for an unknown name only
		return nil, fmt.Errorf("git has no commit %q%s", r.ref, shallowHint())
	case err != nil:
		return nil, fmt.Errorf("git cannot show %s: %w", r, err)
	}
	return func(paths []string) (map[string]entry, error) {
		args := []string{"ls-tree", "-t", "-z", "--full-tree", strings.TrimSpace(string(tree)), "--"}
		return entries(git(append(args, paths...)...))
	}, nil
}

// entries parses the output of ls-tree and ls-files: "MODE TYPE OBJECT\tPATH" and "MODE OBJECT STAGE\tPATH".
func entries(list []byte, err error) (map[string]entry, error) {
	found := map[string]entry{}
	for line := range strings.SplitSeq(string(list), "\x00") {
		about, path, ok := strings.Cut(line, "\t")
		words := strings.Fields(about)
		if !ok || len(words) != 3 { // after the last zero byte
			continue
		}
		object := words[1]
		if len(words[2]) > len(object) { // an object's name is longer than a type or a stage
			object = words[2]
		}
		found[path] = entry{words[0], object}
	}
	return found, err
}

// maxLinks is the number of symbolic links that are followed, so that a cycle of them ends.
const maxLinks = 20

// find returns the object of the file at a path from the root. It follows symbolic links, as reading a file of the
// working tree does.
func (r revision) find(list lister, from string) (object string, err error) {
	for range maxLinks {
		paths := prefixes(from)
		found, err := list(paths)
		if err != nil {
			return "", fmt.Errorf("git cannot show %s: %w", r, err)
		}
		// The first entry that is not a directory is the file, or the link or submodule on the way to it.
		i := slices.IndexFunc(paths, func(p string) bool { return found[p].mode != modeTree })
		if i < 0 {
			return "", fmt.Errorf("%s is a directory", r)
		}
		at, whole := found[paths[i]], i == len(paths)-1
		switch {
		case at.mode == modeGitlink:
			return "", fmt.Errorf("%s is in the submodule %s, which is another repository", r, printable.Line(paths[i]))
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

// prefixes returns the parent directories of a path, the outermost first, and then the path itself.
func prefixes(from string) (list []string) {
	for i, r := range from {
		if r == '/' {
			list = append(list, from[:i])
		}
	}
	return append(list, from)
}

// follow returns the path of the target of a symbolic link, followed by the rest of the path.
func (r revision) follow(link, object, rest string) (string, error) {
	target, err := git("cat-file", "blob", object)
	if err != nil {
		return "", fmt.Errorf("git cannot show %s: %w", r, err)
	}
	to := path.Join(path.Dir(link), string(target)) + rest
	if path.IsAbs(string(target)) || outside(to) {
		return "", fmt.Errorf("%s is a symbolic link to %s, outside the repository", r, printable.Line(string(target)))
	}
	return to, nil
}

// shallowHint returns a hint about a clone without history, such as CI makes, or "" in any other clone.
func shallowHint() string {
	if printed, err := git("rev-parse", "--is-shallow-repository"); err != nil || string(printed) != "true\n" {
		return ""
	}
	return "\nthis clone is shallow: fetch the ref first, with git fetch --depth=1 or, in actions/checkout, fetch-depth: 0"
}

// pathspecSettings are the variables that git refuses together with GIT_LITERAL_PATHSPECS.
var pathspecSettings = []string{"GIT_GLOB_PATHSPECS=", "GIT_NOGLOB_PATHSPECS=", "GIT_ICASE_PATHSPECS="}

// git runs git, and returns at most maxRead bytes of its output. The error has the text of git. Paths are literal, and
// git does not fetch objects that a partial clone lacks.
func git(args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	command := exec.Command("git", args...)
	command.Env = slices.DeleteFunc(os.Environ(), func(setting string) bool {
		return slices.ContainsFunc(pathspecSettings, func(name string) bool { return strings.HasPrefix(setting, name) })
	})
	// Without optional locks git does not rewrite the index, which another git may be using.
	command.Env = append(command.Env, "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_LITERAL_PATHSPECS=1", "GIT_OPTIONAL_LOCKS=0")
	command.Stderr = &stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("git is not in PATH; install it, or pass two files")
	case err != nil:
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(out, maxRead))
	if len(text) == maxRead {
		// The rest stays unread. Closing the pipe makes git fail, so that its exit code has no meaning.
		return text, errors.Join(out.Close(), waitIgnoringExit(command))
	}
	if failed := command.Wait(); failed != nil {
		return nil, gitError(stderr.String(), failed)
	}
	return text, err
}

func waitIgnoringExit(command *exec.Cmd) error {
	err := command.Wait()
	if errors.As(err, new(*exec.ExitError)) {
		return nil
	}
	return err
}

// errSilent means that git failed without a message.
var errSilent = errors.New("git failed without a message")

// gitError returns the message of git as an error, or errSilent with the exit code.
func gitError(stderr string, err error) error {
	message := strings.TrimSpace(strings.TrimPrefix(stderr, "fatal: "))
	if message == "" {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return errors.New(printable.Text(message))
}
