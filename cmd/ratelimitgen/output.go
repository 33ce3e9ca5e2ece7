package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/ratelimitgen/ratelimitgen/gen"
)

// output is a file as it is on disk.
type output struct {
	// path is where the file is, behind all symbolic links.
	path   string
	exists bool
	// readOnly says that its owner may not write it.
	readOnly bool
	text     []byte
}

// mostOutput is the size of the largest file that is taken for generated code, in bytes.
const mostOutput = 256 << 20

// readOutput reads a file that is to be replaced or compared. The error says that it is none: it is a
// directory, a device or a FIFO, from which reading may never end and which replacing would destroy, or a link to
// one, or to nothing.
func readOutput(path string) (output, error) {
	target, info, err := resolve(path)
	if err != nil || info == nil {
		return output{path: target}, err
	}
	switch {
	case !info.Mode().IsRegular():
		return output{}, fmt.Errorf("%s is %s, not a file", linked(path, target), kindOf(info.Mode()))
	case info.Size() > mostOutput:
		return output{}, fmt.Errorf("%s is too large for generated code: %d bytes", linked(path, target), info.Size())
	}
	file, err := os.Open(target)
	if err != nil {
		return output{}, pathError(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostOutput))
	return output{target, true, info.Mode()&0o200 == 0, text}, pathError(err)
}

// resolve follows symbolic links to the file that a path names. info is nil if there is none yet.
func resolve(path string) (target string, info fs.FileInfo, err error) {
	if info, err = os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return path, nil, nil
	}
	if at := new(fs.PathError); errors.As(err, &at) {
		return "", nil, fmt.Errorf("%s: %w", shown(path), at.Err)
	}
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return path, info, err
	}
	if target, err = filepath.EvalSymlinks(path); errors.Is(err, fs.ErrNotExist) {
		to, _ := os.Readlink(path)
		return "", nil, fmt.Errorf("%s is a link to %s, which does not exist", shown(path), shown(to))
	}
	if err != nil {
		return "", nil, pathError(err)
	}
	info, err = os.Lstat(target)
	return target, info, pathError(err)
}

// linked names a file, and where it is if it is behind a link.
func linked(path, target string) string {
	if path == target {
		return shown(path)
	}
	return shown(path) + ", a link to " + shown(target) + ","
}

// kindOf says what is not a regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// holds reports whether the file is the code, whatever git made of its line ends.
func (o output) holds(code []byte) bool { return o.exists && bytes.Equal(o.lines(), code) }

// lines returns the text with the line ends of Unix.
func (o output) lines() []byte { return bytes.ReplaceAll(o.text, []byte("\r\n"), []byte("\n")) }

// foreign reports whether there is a file that ratelimitgen did not write.
func (o output) foreign() bool {
	_, ours := gen.SourceOf(o.text)
	return o.exists && !ours
}

// replaceFile writes a file, and its directory if need be, so that at any time there is either the old
// file or the whole new one, also after a crash. A link to a file stays a link. It replaces regular files only.
// An interrupt takes effect when the file is written, so that no temporary file is left.
func replaceFile(path string, text []byte) error {
	target, info, err := resolve(path)
	switch {
	case err != nil:
		return err
	case info != nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is %s, not a file", linked(path, target), kindOf(info.Mode()))
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return pathError(err)
	}
	return uninterrupted(func(context.Context) error { return replaceRegular(target, text) })
}

// uninterrupted delays SIGINT and SIGTERM, which end the context, until do returns. The error then says so.
func uninterrupted(do func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := do(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return nil
}

// replaceRegular writes a new file beside path, and renames it to path.
func replaceRegular(path string, text []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".ratelimitgen-*")
	if err != nil {
		return pathError(err)
	}
	err = pathError(errors.Join(fill(temporary, text), temporary.Close()))
	if err == nil {
		err = renameError(os.Rename(temporary.Name(), path))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	syncDirectory(filepath.Dir(path))
	return nil
}

// renameError returns the error of [os.Rename] with the path that was to be replaced, as it is printed.
func renameError(err error) error {
	if at := new(os.LinkError); errors.As(err, &at) {
		return fmt.Errorf("cannot replace %s: %w", shown(at.New), at.Err)
	}
	return err
}

// fill writes all of a new file to the disk, readable for everybody.
func fill(file *os.File, text []byte) error {
	if _, err := file.Write(text); err != nil {
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	return file.Sync() // before the rename: a crash may otherwise leave an empty file under the new name
}

// syncDirectory makes a rename last. Not every system and file system can, and the file is whole without.
func syncDirectory(path string) {
	if directory, err := os.Open(path); err == nil {
		_ = directory.Sync()
		directory.Close()
	}
}
