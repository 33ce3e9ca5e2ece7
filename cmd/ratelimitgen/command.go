package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

type command struct {
	name string
	// args are the arguments after the flags, as in the usage line.
	args string
	// summary is one line that begins with a verb, and help the rest of the description.
	summary, help string
	// prepare declares the flags, and returns the function to call once they are parsed.
	prepare func(*flag.FlagSet) action
}

// action runs a command with the arguments that are not flags.
type action func(s streams, args []string) error

// checkFailed is the error of a command that has found a problem in its input, such as an invalid file or stale code.
// Its text is empty if the reason has been printed already.
type checkFailed struct{ reason string }

func (c checkFailed) Error() string { return c.reason }

// usageError is the error of a wrong call of the program.
type usageError struct{ problem string }

func (u usageError) Error() string { return u.problem }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// program is how the user starts the program, for the commands that messages name.
var program = "ratelimitgen"

// startedAs returns "ratelimitgen" if that is the program in PATH, and otherwise how go runs a tool of the module.
func startedAs() string {
	self, err := os.Executable()
	installed, notFound := exec.LookPath("ratelimitgen")
	if err == nil && notFound == nil {
		a, errA := os.Stat(self)
		b, errB := os.Stat(installed)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			return "ratelimitgen"
		}
	}
	return "go tool ratelimitgen"
}

// report prints the errors of a command that have a text, and returns the exit code: the highest, because a file that could
// not be read may be valid or not.
func report(stderr io.Writer, name string, err error) (code int) {
	for _, one := range apart(err) {
		code = max(code, codeOf(one))
		if one.Error() != "" {
			// Errors contain names of files and arguments, which may control a terminal.
			fmt.Fprintf(stderr, "%s: %s\n", strings.TrimSpace("ratelimitgen "+name), printable.Text(one.Error()))
		}
	}
	if code == exitUsage {
		fmt.Fprintf(stderr, "Run '%s' for usage.\n", strings.TrimSpace(program+" help "+name))
	}
	return code
}

// apart returns the errors that [errors.Join] has joined.
func apart(err error) (list []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	for _, one := range joined.Unwrap() {
		list = append(list, apart(one)...)
	}
	return list
}

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	switch {
	case errors.As(err, new(checkFailed)):
		return exitFindings
	case errors.As(err, new(usageError)):
		return exitUsage
	}
	return exitFailed
}

// streams are where a command prints.
type streams struct {
	// out takes the text for people, and err the diagnostics and messages.
	out, err stream
	// data is standard output for code and workflow commands, and json for JSON. Both are written as they are,
	// whereas out escapes control characters.
	data, json io.Writer
	// progress is nil if err is no terminal.
	progress *progress
}

// stream takes text for people. It escapes text that would control a terminal or a CI runner.
type stream struct {
	*printable.Writer
	// colors reports whether the other end is a terminal with colors.
	colors bool
}

// jsonWriter escapes JSON so that it does not control a terminal or a CI runner. Each Write must be a whole value
// or line.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(text []byte) (int, error) {
	if _, err := j.w.Write(printable.JSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

const (
	exitOK = iota
	exitFindings
	exitUsage
	exitFailed
)
