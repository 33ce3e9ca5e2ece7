package main

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

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

// absentError is [fs.ErrNotExist] with a message of its own.
type absentError struct{ message string }

func (a absentError) Error() string { return a.message }

func (a absentError) Is(target error) bool { return target == fs.ErrNotExist }
