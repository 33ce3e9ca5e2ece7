package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// standardInput is the file name that means standard input.
const standardInput = "-"

// standardOutput is the file name that means standard output.
const standardOutput = "-"

// maxRead is the most bytes of a limits.yaml that are read: one more than a valid file can have, so that the parser
// rejects a larger one however large it is.
const maxRead = document.MaxSize + 1

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
