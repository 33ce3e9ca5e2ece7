package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen"
	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// standardInput is the file name that means standard input.
const standardInput = "-"

// standardOutput is the file name that means standard output.
const standardOutput = "-"

// maxRead is the most bytes of a limits.yaml that are read: one more than a valid file can have, so that the parser
// rejects a larger one however large it is.
const maxRead = document.MaxSize + 1

// limitsFile is a valid limits.yaml with its text.
type limitsFile struct {
	*spec.File
	text []byte
}

// readLimits reads and parses a file, or standard input. The error is that of reading.
func readLimits(path string) (limitsFile, diag.Diagnostics, error) {
	text, err := readBounded(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return limitsFile{}, nil, absentError{shown(path) + " does not exist; " + absentRemedy(path)}
	case err != nil:
		return limitsFile{}, nil, err
	}
	file, diagnostics := fields.Parse(nameOf(path), text)
	return limitsFile{file, text}, diagnostics, nil
}

// readValid is readLimits for commands that need a valid file: otherwise it prints the diagnostics and returns a
// [checkFailed] error.
func readValid(s streams, path string, color *choice) (limitsFile, error) {
	file, diagnostics, err := readLimits(path)
	if err != nil || len(diagnostics) == 0 {
		return file, err
	}
	if err := diagnostics.WriteText(s.err, color.color(s.err)); err != nil {
		return limitsFile{}, err
	}
	return limitsFile{}, checkFailed{}
}

// standardInputOnce returns a usage error if several files are standard input, which can be read once.
func standardInputOnce(paths ...string) error {
	if i := slices.Index(paths, standardInput); i >= 0 && slices.Contains(paths[i+1:], standardInput) {
		return usagef("can read one file from standard input, not two")
	}
	return nil
}

// nameOf returns the name of a file for diagnostics.
func nameOf(path string) string {
	if path == standardInput {
		return "standard input"
	}
	return filepath.ToSlash(path)
}

// readBounded returns at most maxRead bytes of a file or of standard input. The error is [fs.ErrNotExist] if the
// file does not exist.
func readBounded(path string) ([]byte, error) {
	if path == standardInput {
		return io.ReadAll(io.LimitReader(os.Stdin, maxRead))
	}
	return readUpTo(path, maxRead)
}

// readUpTo returns at most as many bytes of a file.
func readUpTo(path string, most int64) ([]byte, error) {
	file, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most))
	return text, pathError(err)
}

// openFile opens a file for reading. It refuses a directory, which can be opened but not read.
func openFile(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, pathError(err)
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		file.Close()
		return nil, fmt.Errorf("%s is a directory; name a file in it", shown(path))
	}
	return file, nil
}

// pathError returns an error of package os with its path escaped for printing.
func pathError(err error) error {
	if at := new(fs.PathError); errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: shown(at.Path), Err: at.Err}
	}
	return err
}

// slash returns a path with slashes, so that the output is the same on every system.
func slash(path string) string { return filepath.ToSlash(path) }

// shown returns a path for messages: on one line, escaped, and in quotes if it is empty.
func shown(path string) string {
	if path == "" {
		return `""`
	}
	return printable.Line(slash(path))
}

// quoted returns a path as one word of a shell command. Unprintable runes need the form $'...' of bash.
func quoted(path string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-"
	if strings.Trim(path, plain) == "" {
		return path
	}
	if escaped := strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(path); printable.Line(path) != path {
		return "$'" + printable.Line(escaped) + "'"
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

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
// not be replaced, so a link to a missing file is an error. So are all but regular files: reading a FIFO or a device may never end, and
// a rename would replace it by a file.
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
// contains either the whole old file or the whole new one. A symbolic link stays, and its target is replaced, which keeps its permissions.
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

// absentError is [fs.ErrNotExist] with a message of its own.
type absentError struct{ message string }

func (a absentError) Error() string { return a.message }

func (a absentError) Is(target error) bool { return target == fs.ErrNotExist }
