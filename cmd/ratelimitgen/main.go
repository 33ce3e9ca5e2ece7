// Command ratelimitgen compiles limits.yaml into a Go package with a typed method for every limit.
//
//	ratelimitgen generate   generate the Go code for limits.yaml
//	ratelimitgen check      report the errors in a limits.yaml, and code that is out of date with it
//	ratelimitgen fmt        give a limits.yaml uniform spacing
//	ratelimitgen diff       explain the effects of an edit of limits.yaml
//	ratelimitgen explain    explain a limit, a field or an id in words and numbers
//	ratelimitgen page       write an HTML page with drawings and a playground of every limit
//	ratelimitgen dashboard  print a Grafana dashboard or alert rules for the limits
//	ratelimitgen init       write a first limits.yaml and its JSON Schema
//	ratelimitgen schema     print the JSON Schema of limits.yaml, or of the output of diff
//	ratelimitgen sql        print the statements that create the tables, or grant privileges
//	ratelimitgen simulate   replay requests and print the decisions of the limits
//	ratelimitgen completion print a script that completes commands and flags in a shell
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
	"text/tabwriter"

	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// commands returns all commands, in the order of the help. The package comment and the README list them too, and
// [TestEveryCommandIsListed] fails if one is missing there.
func commands() []command {
	return []command{
		generateCommand(), checkCommand(), fmtCommand(), diffCommand(), explainCommand(), pageCommand(), dashboardCommand(), initCommand(),
		schemaCommand(), sqlCommand(), simulateCommand(), completionCommand(), versionCommand(), helpCommand(),
	}
}

func main() {
	// The process ends soon, so collecting garbage less often costs some memory and saves time. Ten thousand limits need less
	// than the bound.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(200 << 20)
	program = startedAs()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command in args, prints its error, and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	data := bufio.NewWriter(stdout)
	s := streams{
		out:  stream{printable.NewWriter(data), showsColor(stdout)},
		err:  stream{printable.NewWriter(stderr), showsColor(stderr)},
		data: data,
		json: jsonWriter{data},

		progress: progressOn(stderr),
	}
	defer s.err.Flush()
	name, err := dispatch(args, s)
	s.progress.end()
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
	return command{}, usagef("unknown command %q%s; the commands are %s", name, suggestion("", name, commandNames()),
		strings.Join(commandNames(), ", "))
}

func commandNames() []string {
	return namesOf(commands(), func(c command) string { return c.name })
}

func completionCommand() command {
	return command{
		name:    "completion",
		args:    "SHELL",
		summary: "print a script that completes commands and flags in a shell",
		help: `SHELL is bash, zsh or fish. Load the script when the shell starts, in ~/.bashrc, ~/.zshrc (after
compinit) or ~/.config/fish/config.fish:

  source <(ratelimitgen completion bash)
  source <(ratelimitgen completion zsh)
  ratelimitgen completion fish | source

It completes the word ratelimitgen. If you run the program as a tool of a module, define an alias:

  alias ratelimitgen='go tool ratelimitgen'
`,
		prepare: func(*flag.FlagSet) action {
			return func(s streams, args []string) error { return completion(s, args, commands()) }
		},
	}
}

func helpCommand() command {
	return command{
		name:    "help",
		args:    "[COMMAND]",
		summary: "print the commands, or the usage of one",
		prepare: func(*flag.FlagSet) action { return help },
	}
}

func help(s streams, args []string) error {
	switch len(args) {
	case 0:
		return listCommands(s.out)
	case 1:
		c, err := findCommand(args[0])
		if err != nil {
			return err
		}
		return describe(s.out, c)
	}
	return usagef("takes one command, not %d", len(args))
}

func listCommands(w io.Writer) error {
	fmt.Fprint(w, "ratelimitgen compiles limits.yaml into a Go package with a typed method for every limit.\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(table, "  ratelimitgen %s\t%s\n", c.name, c.summary)
	}
	table.Flush()
	_, err := fmt.Fprint(w, "\nExit codes: 0 success, 1 the check failed (invalid file, stale code, unapproved change), 2 usage\nerror, 3 could not run.\n")
	return err
}

// describe prints the usage line, the summary, the flags and the help of a command.
func describe(w io.Writer, c command) error {
	// The command help has no flag set of this command, so they are declared again.
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	c.prepare(flags)
	var usage, table strings.Builder
	flags.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		name := strings.TrimSpace("-" + f.Name + " " + value)
		fmt.Fprintf(&usage, " [%s]", name)
		if len(name) > 16 {
			name += "\n" + strings.Repeat(" ", 18)
		}
		fmt.Fprintf(&table, "  %-16s %s\n", name, text)
	})
	if c.args != "" {
		usage.WriteString(" " + c.args)
	}
	fmt.Fprintf(w, "usage: ratelimitgen %s%s\n\n%s.\n", c.name, &usage, strings.ToUpper(c.summary[:1])+c.summary[1:])
	for _, part := range []string{table.String(), c.help} {
		if part != "" {
			fmt.Fprintf(w, "\n%s", part)
		}
	}
	return nil
}

func versionCommand() command {
	return command{
		name:    "version",
		summary: "print the version",
		prepare: func(*flag.FlagSet) action { return version },
	}
}

func version(s streams, args []string) error {
	if err := noArgs(args); err != nil {
		return err
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("the version is unknown: the program was built without build information")
	}
	_, err := fmt.Fprintf(s.out, "ratelimitgen %s, built with %s\n", build.Main.Version, build.GoVersion)
	return err
}
