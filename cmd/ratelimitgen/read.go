package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// defaultFile is the file that is read if none is named.
const defaultFile = "limits.yaml"

// readLimits reads and checks a file. The error says why it could not be read.
func readLimits(path string) (*spec.File, spec.Diagnostics, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("%s does not exist; ratelimitgen init writes one to begin with", shown(path))
	case err != nil:
		return nil, nil, err
	}
	file, diagnostics := spec.Parse(filepath.ToSlash(path), text)
	return file, diagnostics, nil
}
