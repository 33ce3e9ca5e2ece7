// Command ratelimitgen turns limits.yaml into a Go package in which every limit is a method.
//
//	ratelimitgen generate    writes the Go code
//	ratelimitgen check       says what is wrong with a limits.yaml
//	ratelimitgen diff        says what an edit of limits.yaml means
//	ratelimitgen explain     says what a limit means, or a field, or an id
//	ratelimitgen init        writes a limits.yaml to begin with
//	ratelimitgen schema      prints the JSON Schema of limits.yaml, for editors
//	ratelimitgen sql         prints the statement that creates the table of the counts
//	ratelimitgen simulate    replays requests, and says what the limits answer
//	ratelimitgen version     prints the version
//	ratelimitgen help VERB   says more about one of them
//
// What a verb makes goes to standard output or to its file, everything else to standard error. The exit
// code is 0 for yes; 1 if the answer is no, such as for an invalid file or stale code; 2 if the program
// was called wrongly; and 3 if it could not answer. go tool passes the code on; go run makes 1 of all but 0.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

func main() {
	// A command lives for moments: to collect its garbage seldom takes some memory, and saves time.
	debug.SetGCPercent(400)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// streams are where a verb answers.
type streams struct {
	// out takes the text that the verb prints for people, err everything else.
	out, err stream
	// data is standard output for code and workflow commands, and json for JSON: exact, where out has escapes.
	data, json io.Writer
	// terminal is standard error for what moves the cursor.
	terminal io.Writer
}

// stream takes text for people. Nothing in the text controls a terminal or a CI runner.
type stream struct {
	*printable.Writer
	// colors says whether a terminal with colors is on the other end.
	colors bool
}

// jsonWriter writes JSON, each value or line in one piece, so that none of it controls a terminal or a CI
// runner.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(text []byte) (int, error) {
	if _, err := j.w.Write(printable.JSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// run performs what the arguments ask for, and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	data := bufio.NewWriter(stdout)
	s := streams{
		out:      stream{printable.NewWriter(data), showsColor(stdout)},
		err:      stream{printable.NewWriter(stderr), showsColor(stderr)},
		data:     data,
		json:     jsonWriter{data},
		terminal: stderr,
	}
	defer s.err.Flush()
	verb, err := perform(args, s)
	s.out.Flush() // data returns its error
	if failed := data.Flush(); failed != nil {
		err = fmt.Errorf("could not print the answer: %w", failed)
	}
	return report(s.err, verb, err)
}

// The exit codes.
const (
	exitYes = iota
	exitNo
	exitMisuse
	exitUnable
)

// no is the answer no, with the reason if it has not been printed yet.
type no struct{ reason string }

func (n no) Error() string { return n.reason }

// misuse says how the program was called wrongly.
type misuse struct{ problem string }

func (m misuse) Error() string { return m.problem }

func misusef(format string, args ...any) error { return misuse{fmt.Sprintf(format, args...)} }

// report prints what an error has to say, if anything, and returns the exit code for it.
func report(stderr io.Writer, verb string, err error) int {
	code := exitUnable
	switch {
	case err == nil:
		return exitYes
	case errors.As(err, new(no)):
		code = exitNo
	case errors.As(err, new(misuse)):
		code = exitMisuse
	}
	if err.Error() != "" {
		fmt.Fprintf(stderr, "%s: %s\n", join("ratelimitgen", verb), printable.Text(err.Error()))
	}
	if code == exitMisuse {
		fmt.Fprintln(stderr, "run", join("ratelimitgen help", verb))
	}
	return code
}

func join(program, verb string) string {
	if verb == "" {
		return program
	}
	return program + " " + verb
}
