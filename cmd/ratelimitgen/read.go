package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// defaultFile is the file that is read if none is named.
const defaultFile = "limits.yaml"

// standardInput is the name that stands for standard input.
const standardInput = "-"

// mostRead is how many bytes of a limits.yaml are read: one more than it can have, so that one that is too large
// shows as such, however large it is.
const mostRead = spec.MaxSize + 1

// readLimits reads and checks a file, or standard input. The error says why it could not be read.
func readLimits(path string) (*spec.File, spec.Diagnostics, error) {
	text, err := readSome(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("%s does not exist; ratelimitgen init writes one to begin with", shown(path))
	case err != nil:
		return nil, nil, err
	}
	file, diagnostics := spec.Parse(nameOf(path), text)
	return file, diagnostics, nil
}

// nameOf returns what a file is called in diagnostics.
func nameOf(path string) string {
	if path == standardInput {
		return "standard input"
	}
	return filepath.ToSlash(path)
}

// readSome returns a file or standard input, up to mostRead bytes. The error is [fs.ErrNotExist] for a file that
// is not there.
func readSome(path string) ([]byte, error) {
	if path == standardInput {
		return io.ReadAll(io.LimitReader(os.Stdin, mostRead))
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, pathError(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostRead))
	return text, pathError(err)
}

// pathError returns an error of package os with its path as it is printed.
func pathError(err error) error {
	if at := new(fs.PathError); errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: shown(at.Path), Err: at.Err}
	}
	return err
}
