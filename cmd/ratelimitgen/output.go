package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ratelimitgen/ratelimitgen/gen"
)

// output is a file as it is on disk.
type output struct {
	exists bool
	text   []byte
}

func readOutput(path string) (output, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return output{}, nil
	}
	return output{err == nil, text}, err
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
// file or the whole new one. A link to a file stays a link.
func replaceFile(path string, text []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(directory, ".ratelimitgen-*")
	if err != nil {
		return err
	}
	err = errors.Join(fill(temporary, text), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// fill writes all of a new file, readable for everybody.
func fill(file *os.File, text []byte) error {
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Chmod(0o644)
}
