// Command ratelimitgen compiles limits.yaml into a Go package with a typed method for every limit.
//
//	ratelimitgen generate   generate the Go code for limits.yaml
//	ratelimitgen check      report the errors in a limits.yaml
//	ratelimitgen diff       explain the effects of an edit of limits.yaml
//	ratelimitgen explain    explain a limit, a field or an id in words and numbers
//	ratelimitgen page       write an HTML page with drawings and a playground of every limit
//	ratelimitgen dashboard  print a Grafana dashboard or alert rules for the limits
//	ratelimitgen init       write a first limits.yaml and its JSON Schema
//	ratelimitgen schema     print the JSON Schema of limits.yaml, or of the output of diff
//	ratelimitgen sql        print the CREATE TABLE statements
//	ratelimitgen simulate   replay requests and print the decisions of the limits
//	ratelimitgen version    print the version
//	ratelimitgen help       print the commands, or the usage of one
//
// The result of a command goes to standard output or to a file, and everything else to standard error. The exit
// code is 0 for success; 1 if the check failed: an invalid file, stale code or an unapproved change; 2 for a usage
// error; and 3 if the command could not run. go tool passes the code on; go run turns every code but 0 into 1.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// commands returns all commands, in the order of the help. The package comment and the README list them too, and
// [TestEveryCommandIsListed] fails if one is missing there.
func commands() []command {
	return []command{
		generateCommand(), checkCommand(), diffCommand(), explainCommand(), pageCommand(), dashboardCommand(), initCommand(),
		schemaCommand(), sqlCommand(), simulateCommand(), versionCommand(), helpCommand(),
	}
}

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

func main() {
	// The process ends soon, so collecting garbage less often costs some memory and saves time.
	debug.SetGCPercent(400)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command in args, prints its error, and returns the exit code.
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
	name, err := dispatch(args, s)
	s.out.Flush() // writes to data, whose Flush returns the error
	if failed := data.Flush(); failed != nil {
		err = fmt.Errorf("cannot write the output: %w", failed)
	}
	return report(s.err, name, err)
}

// dispatch runs the command that args begin with, and returns its name, or "" if there is no such command.
func dispatch(args []string, s streams) (name string, err error) {
	if len(args) == 0 {
		return "", usagef("no command given; the commands are %s", strings.Join(commandNames(), ", "))
	}
	if slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
		return "", listCommands(s.out)
	}
	if slices.Contains([]string{"-version", "--version"}, args[0]) {
		return "", version(s, args[1:])
	}
	c, err := findCommand(args[0])
	if err != nil {
		return "", err
	}
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // report prints the error
	do := c.prepare(flags)
	rest, err := parse(flags, args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return c.name, describe(s.out, c)
	case err != nil:
		return c.name, err
	}
	return c.name, do(s, rest)
}

func findCommand(name string) (command, error) {
	if i := slices.Index(commandNames(), name); i >= 0 {
		return commands()[i], nil
	}
	return command{}, usagef("unknown command %q%s", name, suggestion("", name, commandNames()))
}

func commandNames() []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return names
}

const (
	exitOK = iota
	exitFindings
	exitUsage
	exitFailed
)

// checkFailed is the error of a command that has found a problem in its input, such as an invalid file or stale code.
// Its text is empty if the reason has been printed already.
type checkFailed struct{ reason string }

func (c checkFailed) Error() string { return c.reason }

// usageError is the error of a wrong call of the program.
type usageError struct{ problem string }

func (u usageError) Error() string { return u.problem }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// report prints the error of a command, if it has a text, and returns the exit code for it.
func report(stderr io.Writer, name string, err error) int {
	code := exitFailed
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(checkFailed)):
		code = exitFindings
	case errors.As(err, new(usageError)):
		code = exitUsage
	}
	if err.Error() != "" {
		// Errors contain names of files and arguments, which may control a terminal.
		fmt.Fprintf(stderr, "%s: %s\n", join("ratelimitgen", name), printable.Text(err.Error()))
	}
	if code == exitUsage {
		fmt.Fprintf(stderr, "Run '%s' for usage.\n", join("ratelimitgen help", name))
	}
	return code
}

func join(program, name string) string {
	if name == "" {
		return program
	}
	return program + " " + name
}

// streams are where a command prints.
type streams struct {
	// out takes the text for people, and err the diagnostics and messages.
	out, err stream
	// data is standard output for code and workflow commands, and json for JSON. Both are written as they are,
	// whereas out escapes control characters.
	data, json io.Writer
	// terminal is standard error without escaping, because progress bars move the cursor.
	terminal io.Writer
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
