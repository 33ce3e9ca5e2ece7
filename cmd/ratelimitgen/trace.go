package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/internal/printable"
)

// openTrace opens the file of -trace.
func openTrace(name string) (*os.File, error) {
	file, err := openFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; -trace takes a file of requests, or - for standard input", shown(name))
	}
	return file, err
}

// traceName is the name of a trace in messages.
func traceName(file string) string {
	switch file {
	case "":
		return "traffic"
	case standardInput:
		return "standard input"
	}
	return shown(file)
}

// maxFaults is the number of faults that are listed.
const maxFaults = 10

// faults collects the lines of a trace that cannot be replayed.
type faults struct {
	trace     string
	limits    []string
	keepGoing bool
	count     int
	first     []string
}

// add counts a fault, or without -keep-going returns it as a [checkFailed] error.
func (f *faults) add(fault *trace.Fault) error {
	message := fmt.Sprintf("%s:%v%s", f.trace, fault, suggestion("", fault.Unknown, f.limits))
	if !f.keepGoing {
		return checkFailed{message}
	}
	if f.count++; f.count <= maxFaults {
		f.first = append(f.first, printable.Line(message))
	}
	return nil
}

func (f *faults) list(w io.Writer) error {
	if f.count == 0 {
		return nil
	}
	summary := fmt.Sprintf("%d lines were skipped", f.count)
	switch {
	case f.count == 1:
		summary = "1 line was skipped"
	case f.count > maxFaults:
		summary += fmt.Sprintf("; the first %d are", maxFaults)
	}
	_, err := fmt.Fprintf(w, "%s:\n  %s\n", summary, strings.Join(f.first, "\n  "))
	return err
}
