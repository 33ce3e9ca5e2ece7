package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// revision is a file as git has it: REF:PATH.
type revision struct{ ref, path string }

func (r revision) String() string { return r.ref + ":" + r.path }

// asRevision returns what an argument names in git. It is false for one that names a file: that is there,
// that has no colon, or that begins with the drive of Windows.
func asRevision(arg string) (revision, bool) {
	ref, path, ok := strings.Cut(arg, ":")
	if _, err := os.Stat(arg); err == nil || !ok || isDrive(ref, path) {
		return revision{}, false
	}
	return revision{ref, path}, true
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
		return misusef("%s names no file; write %s:%s", r, r.ref, defaultFile)
	case strings.HasPrefix(r.path, "/"):
		return misusef("the path in %s must be relative, to the root of the repository or with ./ to this directory", r)
	}
	return nil
}

// read returns the file, or as much of it as shows that it is too large.
func (r revision) read() ([]byte, error) {
	text, err := git("show", "--end-of-options", r.String())
	switch {
	case err != nil:
		return nil, fmt.Errorf("git cannot show %s: %w%s", r, err, shallowHint())
	case bytes.HasPrefix(text, []byte("tree "+r.String()+"\n\n")):
		return nil, fmt.Errorf("%s is a directory", r)
	}
	return text, nil
}

// inWorkingTree returns the path of the file in the working tree, as seen from here.
func (r revision) inWorkingTree() (string, error) {
	if strings.HasPrefix(r.path, "./") || strings.HasPrefix(r.path, "../") {
		return filepath.FromSlash(r.path), nil
	}
	up, err := git("rev-parse", "--show-cdup")
	if err != nil {
		return "", fmt.Errorf("git cannot find %s in a working tree: %w", r, err)
	}
	return filepath.FromSlash(strings.TrimSuffix(string(up), "\n") + r.path), nil
}

// shallowHint says what to do in a clone without its history, such as CI makes; "" in any other.
func shallowHint() string {
	if answer, err := git("rev-parse", "--is-shallow-repository"); err != nil || string(answer) != "true\n" {
		return ""
	}
	return "\nthis clone is shallow: fetch the ref first, with git fetch --depth=1 or, in actions/checkout, fetch-depth: 0"
}

// git runs git, and returns what it prints, up to mostRead. The error is what git says. It is kept from
// fetching what a partial clone lacks.
func git(args ...string) ([]byte, error) {
	var said bytes.Buffer
	command := exec.Command("git", args...)
	command.Env = append(os.Environ(), "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1")
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

// gitError returns what git says, and if it says nothing how it ended.
func gitError(said string, err error) error {
	said = strings.TrimSpace(strings.TrimPrefix(said, "fatal: "))
	if said == "" {
		return err
	}
	return errors.New(said)
}
