package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
	"github.com/ratelimitgen/ratelimitgen/gen/sim"
)

// mostFaults is how many lines that cannot be asked are listed.
const mostFaults = 10

// faults are the lines of a trace that cannot be asked.
type faults struct {
	trace     string
	limits    []string
	keepGoing bool
	count     int
	first     []string
}

// add keeps a line in mind, or answers no with it if one is enough.
func (f *faults) add(fault *sim.Fault) error {
	message := fmt.Sprintf("%s:%v%s", f.trace, fault, suggestion("", fault.Unknown, f.limits))
	if !f.keepGoing {
		return no{message}
	}
	if f.count++; f.count <= mostFaults {
		f.first = append(f.first, printable.Line(message))
	}
	return nil
}

// list prints the lines that were left out.
func (f *faults) list(w io.Writer) error {
	if f.count == 0 {
		return nil
	}
	summary := fmt.Sprintf("%d lines were left out", f.count)
	switch {
	case f.count == 1:
		summary = "1 line was left out"
	case f.count > mostFaults:
		summary += ", of which these are the first"
	}
	_, err := fmt.Fprintf(w, "%s:\n  %s\n", summary, strings.Join(f.first, "\n  "))
	return err
}
