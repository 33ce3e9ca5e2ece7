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
		return usagef("a file name in git cannot contain a zero byte: %q", r.path)
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

// fromRoot returns the path of a file of the working tree from the root of the repository of the current directory, or "" if
// it is in none.
func fromRoot(file string) string {
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return ""
	}
	absolute, err := filepath.Abs(filepath.FromSlash(file))
	if err != nil {
		return ""
	}
	// Git prints the root without symbolic links. The file may be one, which reading it follows.
	directory, err := filepath.EvalSymlinks(filepath.Dir(absolute))
	if err != nil {
		return ""
	}
	from, err := filepath.Rel(strings.TrimSuffix(string(top), "\n"), filepath.Join(directory, filepath.Base(absolute)))
	if from = filepath.ToSlash(from); err != nil || outside(from) {
		return ""
	}
	return from
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
		return filepath.Clean(filepath.FromSlash(r.path)), nil
	}
	return filepath.Clean(filepath.FromSlash(strings.TrimSuffix(up, "\n") + r.path)), nil
}

// read returns at most maxRead bytes of the file. The error is [fs.ErrNotExist] if the commit exists and does not have
// the file.
func (r revision) read() ([]byte, error) {
	from, err := r.fromRoot()
	if err != nil {
		return nil, err
	}
	tree, err := r.tree()
	if err != nil {
		return nil, err
	}
	blob, err := r.find(tree, from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absentError{r.String() + " does not exist" + r.hint(tree, from)}
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
func (r revision) hint(tree, from string) string {
	near := revision{r.ref, "./" + r.path}
	seen, err := near.fromRoot()
	if err != nil || r.relative() || seen == from {
		return ""
	}
	if _, err := near.find(tree, seen); err != nil {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", near)
}

// tree returns the name of the object with the files of the commit, so that git cannot read a ref as an option. It is "" for
// the index.
func (r revision) tree() (string, error) {
	if r.ref == "" {
		return "", nil
	}
	tree, err := git("rev-parse", "--verify", "--quiet", r.ref+"^{tree}")
	switch {
	case errors.Is(err, errSilent): // rev-parse --quiet prints nothing for an unknown name only
		return "", fmt.Errorf("git has no commit %q%s", r.ref, shallowHint())
	case err != nil:
		return "", fmt.Errorf("git cannot show %s: %w", r, err)
	}
	return strings.TrimSpace(string(tree)), nil
}

// find returns the object of the file at a path from the root. Git follows symbolic links, as reading a file of the working
// tree does, but not those in the index.
func (r revision) find(tree, from string) (object string, err error) {
	name := tree + ":" + from
	batch := []string{"cat-file", "--batch-check", "--follow-symlinks"}
	if strings.Contains(name, "\n") {
		batch = append(batch, "-z") // which git before 2.38 lacks
	}
	found, err := gitReading(name, batch...)
	if err != nil {
		return "", fmt.Errorf("git cannot show %s: %w", r, err)
	}
	// "OBJECT TYPE SIZE", "NAME missing", or the problem with a link, its length, and on the next line the link.
	printed := strings.TrimSuffix(string(found), "\n")
	line, link, _ := strings.Cut(printed, "\n")
	words := strings.Fields(line)
	switch {
	case printed == name+" missing":
		// Git has the name of a file whose text a partial clone lacks. Reading that fails, and the file exists.
		object, err := git("rev-parse", "--verify", "--quiet", name)
		if err != nil {
			return "", fs.ErrNotExist
		}
		return strings.TrimSpace(string(object)), nil
	case words[0] == "dangling", words[0] == "notdir":
		return "", fs.ErrNotExist
	case words[0] == "loop":
		return "", fmt.Errorf("%s has too many symbolic links", r)
	case words[0] == "symlink":
		return "", fmt.Errorf("%s is a symbolic link to %s, outside the repository", r, printable.Line(link))
	case words[1] == "tree":
		return "", fmt.Errorf("%s is a directory", r)
	}
	return words[0], nil
}

// shallowHint returns a hint about a clone without history, such as CI makes, or "" in any other clone.
func shallowHint() string {
	if printed, err := git("rev-parse", "--is-shallow-repository"); err != nil || string(printed) != "true\n" {
		return ""
	}
	return "\nthis clone is shallow: fetch the ref first, with git fetch --depth=1 or, in actions/checkout, fetch-depth: 0"
}

// git runs git, and returns at most maxRead bytes of its output. The error has the text of git, which does not fetch objects
// that a partial clone lacks.
func git(args ...string) ([]byte, error) { return gitReading("", args...) }

// gitReading is git with a text on its standard input.
func gitReading(stdin string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	command := exec.Command("git", args...)
	// Without optional locks git does not rewrite the index, which another git may be using.
	command.Env = append(os.Environ(), "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0")
	command.Stdin, command.Stderr = strings.NewReader(stdin), &stderr
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
		return fmt.Errorf("%w: %v", errSilent, err)
	}
	return errors.New(printable.Text(message))
}
