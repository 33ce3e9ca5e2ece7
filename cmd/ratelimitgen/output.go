package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ratelimitgen/ratelimitgen/gen"
)

// output is the file that a command writes, in its present state.
type output struct {
	// path is the file after all symbolic links.
	path   string
	exists bool
	// readOnly reports whether the owner may not write to the file.
	readOnly bool
	text     []byte
}

// maxOutput is the size in bytes of the largest file that can be generated code.
const maxOutput = 256 << 20

// readOutput reads a file that is going to be replaced or compared.
func readOutput(path string) (output, error) {
	target, info, err := resolve(path)
	if err != nil || info == nil {
		return output{path: target}, err
	}
	if info.Size() > maxOutput {
		return output{}, fmt.Errorf("%s is too large to be generated code: %d bytes, more than %d: name another file with -o",
			linked(path, target), info.Size(), maxOutput)
	}
	text, err := readUpTo(target, maxOutput) // the file may have grown since Lstat
	return output{target, true, info.Mode()&0o200 == 0, text}, err
}

// resolve follows symbolic links to the file at a path. info is nil if the file does not exist. The link itself must
// not be replaced, so a link to a missing file is an error. So are all but regular files: reading a FIFO or a device may
// never end, and a rename would replace it by a file.
func resolve(path string) (target string, info fs.FileInfo, err error) {
	if info, err = os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return path, nil, nil
	}
	if at := new(fs.PathError); errors.As(err, &at) {
		return "", nil, fmt.Errorf("%s: %w", shown(path), at.Err) // without the name of the system call
	}
	if target = path; err == nil && info.Mode().Type() == fs.ModeSymlink {
		if target, err = filepath.EvalSymlinks(path); errors.Is(err, fs.ErrNotExist) {
			to, _ := os.Readlink(path)
			return "", nil, fmt.Errorf("%s is a link to %s, which does not exist", shown(path), shown(to))
		}
		if err == nil {
			info, err = os.Lstat(target)
		}
	}
	if err == nil && !info.Mode().IsRegular() {
		return "", nil, fmt.Errorf("%s is not a regular file", linked(path, target))
	}
	return target, info, pathError(err)
}

// linked returns a path for messages, with the target if it is a link.
func linked(path, target string) string {
	if path == target {
		return shown(path)
	}
	return shown(path) + ", a link to " + shown(target) + ","
}

// equals reports whether the file exists and contains text, whatever line ends git has given it.
func (o output) equals(text []byte) bool { return o.exists && bytes.Equal(o.lines(), text) }

// lines returns the text with the line ends of Unix.
func (o output) lines() []byte { return bytes.ReplaceAll(o.text, []byte("\r\n"), []byte("\n")) }

// foreign reports whether the file exists and ratelimitgen did not write it.
func (o output) foreign() bool {
	_, ours := gen.SourceOf(o.text)
	return o.exists && !ours
}

// replaceFile writes a file, and creates its directory if necessary. At any time, even after a crash, the path
// contains either the whole old file or the whole new one. A symbolic link stays, and its target is replaced, which keeps
// its permissions.
func replaceFile(path string, text []byte) error {
	target, info, err := resolve(path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644) // CreateTemp makes files that only their owner can read
	if info != nil {
		mode = info.Mode().Perm() | 0o200 // -force writes a read-only file, and the next time needs no flag
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return pathError(err)
	}
	// In the same directory: a rename between file systems is not atomic.
	temporary, err := os.CreateTemp(filepath.Dir(target), ".ratelimitgen-*")
	if err != nil {
		return pathError(err)
	}
	err = pathError(errors.Join(fill(temporary, text, mode), temporary.Close()))
	if err == nil {
		err = renameError(os.Rename(temporary.Name(), target))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// renameError returns the error of [os.Rename] without the name of the temporary file.
func renameError(err error) error {
	if at := new(os.LinkError); errors.As(err, &at) {
		return fmt.Errorf("cannot replace %s: %w", shown(at.New), at.Err)
	}
	return err
}

func fill(file *os.File, text []byte, mode fs.FileMode) error {
	if _, err := file.Write(text); err != nil {
		return err
	}
	if err := file.Chmod(mode); err != nil {
		return err
	}
	return file.Sync() // before the rename: a crash could otherwise leave an empty file under the new name
}
