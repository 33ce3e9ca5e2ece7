package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// shells has the scripts by the name of the shell.
var shells = []struct {
	name  string
	write func(w io.Writer, all []completed)
}{
	{"bash", writeBash},
	{"zsh", writeZsh},
	{"fish", writeFish},
}

func shellNames() []string {
	var names []string
	for _, s := range shells {
		names = append(names, s.name)
	}
	return names
}

// completion prints the script for the shell that is the argument.
func completion(s streams, args []string, all []command) error {
	if len(args) != 1 {
		return usagef("takes the name of a shell: %s", alternatives(shellNames()))
	}
	i := slices.Index(shellNames(), args[0])
	if i < 0 {
		return usagef("unknown shell %q%s; the shells are %s", args[0], suggestion("", args[0], shellNames()),
			strings.Join(shellNames(), ", "))
	}
	shells[i].write(s.data, completedCommands(all))
	return nil
}

// completed is a command as a shell completes it.
type completed struct {
	name, summary string
	flags         []completedFlag
	// arguments are those of the command.
	arguments completedValue
}

type completedFlag struct {
	name, about string
	// takes is false for a flag without a value.
	takes bool
	value completedValue
}

// completedValue is what a shell completes in a place: some words, or files, or nothing.
type completedValue struct {
	words []string
	files bool
}

// worded is a flag with a fixed list of values.
type worded interface{ words() []string }

// fileValues are the names of values in the usages of flags and commands that are files or directories. A version in git is
// completed as the file that it may be too.
var fileValues = []string{"FILE", "FILE...", "LIMITS", "OLD", "NEW", "OUTPUT", "DIR"}

// completedCommands is made of the commands and their flags.
func completedCommands(commands []command) (all []completed) {
	for _, c := range commands {
		flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
		c.prepare(flags)
		of := completed{name: c.name, summary: c.summary}
		flags.VisitAll(func(f *flag.Flag) { of.flags = append(of.flags, completedFlagOf(f)) })
		switch names := strings.FieldsFunc(c.args, func(r rune) bool { return strings.ContainsRune("[]| ", r) }); {
		case slices.Contains(names, "COMMAND"):
			of.arguments.words = namesOf(commands, func(c command) string { return c.name })
		case slices.Contains(names, "SHELL"):
			of.arguments.words = shellNames()
		default:
			of.arguments.files = slices.ContainsFunc(names, func(name string) bool { return slices.Contains(fileValues, name) })
		}
		all = append(all, of)
	}
	return all
}

func completedFlagOf(f *flag.Flag) completedFlag {
	value, usage := flag.UnquoteUsage(f)
	of := completedFlag{name: f.Name, about: usage, takes: value != ""}
	if w, ok := f.Value.(worded); ok {
		of.value.words = w.words()
	} else {
		of.value.files = slices.Contains(fileValues, value)
	}
	return of
}

// names are the flags as words.
func (c *completed) names() []string {
	return namesOf(c.flags, func(f completedFlag) string { return "-" + f.name })
}

// writeBash writes a function that returns nothing where readline completes files.
func writeBash(w io.Writer, all []completed) {
	fmt.Fprint(w, `# Completion of ratelimitgen in bash.
_ratelimitgen() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' flags='' files=''
	# bash takes the = of -flag=value for a word.
	if [[ $cur == = ]]; then
		cur=''
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	[[ $prev == --* ]] && prev=${prev#-}
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		words='`+strings.Join(namesOf(all, func(c completed) string { return c.name }), " ")+`'
	else
		case "${COMP_WORDS[1]} $prev" in
`)
	for _, c := range all {
		for _, f := range c.flags {
			if f.takes {
				fmt.Fprintf(w, "\t\t%s) %s ;;\n", inPosix(c.name+" -"+f.name), f.value.bash())
			}
		}
	}
	fmt.Fprint(w, "\t\t*)\n\t\t\tcase ${COMP_WORDS[1]} in\n")
	for _, c := range all {
		fmt.Fprintf(w, "\t\t\t%s) flags=%s %s ;;\n", c.name, inPosix(strings.Join(c.names(), " ")), c.arguments.bash())
	}
	fmt.Fprint(w, `			esac
			case $cur in
			--*) words=" $flags" words=${words// -/ --} files='' ;;
			-*) words=$flags files='' ;;
			esac
			;;
		esac
	fi
	if [[ $files ]]; then
		return
	fi
	compopt +o default 2>/dev/null
	local IFS=$' \t\n'
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _ratelimitgen ratelimitgen
`)
}

func (v completedValue) bash() string {
	if v.files {
		return "files=1"
	}
	return "words=" + inPosix(strings.Join(v.words, " "))
}

// writeZsh writes a script that can be sourced, or be a file _ratelimitgen in a directory of fpath.
func writeZsh(w io.Writer, all []completed) {
	fmt.Fprint(w, `#compdef ratelimitgen
# Completion of ratelimitgen in zsh.
_ratelimitgen() {
	local -a commands=(
`)
	for _, c := range all {
		fmt.Fprintf(w, "\t\t%s\n", inPosix(c.name+":"+c.summary))
	}
	fmt.Fprint(w, `	)
	if ((CURRENT == 2)); then
		_describe command commands
		return
	fi
	local command=$words[2]
	shift words
	((CURRENT--))
	case $command in
`)
	for _, c := range all {
		fmt.Fprintf(w, "\t%s)\n\t\t_arguments", c.name)
		for _, f := range c.flags {
			spec := "-" + f.name + "[" + escapedZsh.Replace(f.about) + "]"
			if f.takes {
				spec += ":value:" + f.value.zsh()
			}
			fmt.Fprintf(w, " \\\n\t\t\t%s", inPosix(spec))
		}
		if of := c.arguments.zsh(); of != "" {
			fmt.Fprintf(w, " \\\n\t\t\t%s", inPosix("*:argument:"+of))
		}
		fmt.Fprint(w, "\n\t\t;;\n")
	}
	fmt.Fprint(w, `	esac
}
if [[ $funcstack[1] == _ratelimitgen ]]; then
	_ratelimitgen "$@"
else
	compdef _ratelimitgen ratelimitgen
fi
`)
}

func (v completedValue) zsh() string {
	switch {
	case v.files:
		return "_files"
	case len(v.words) > 0:
		return "(" + strings.Join(v.words, " ") + ")"
	}
	return ""
}

// escapedZsh escapes what ends a description in an argument of _arguments.
var escapedZsh = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)

func writeFish(w io.Writer, all []completed) {
	fmt.Fprint(w, "# Completion of ratelimitgen in fish.\ncomplete -c ratelimitgen -e\ncomplete -c ratelimitgen -f\n")
	for _, c := range all {
		fmt.Fprintf(w, "complete -c ratelimitgen -n __fish_use_subcommand -a %s -d %s\n", c.name, inFish(c.summary))
	}
	for _, c := range all {
		begin := fmt.Sprintf("complete -c ratelimitgen -n %s", inFish("__fish_seen_subcommand_from "+c.name))
		if c.name == "help" {
			// Its argument is a command too.
			begin = `complete -c ratelimitgen -n 'string match -q -- help (commandline -opc)[2]'`
		}
		for _, f := range c.flags {
			takes := ""
			switch {
			case f.value.files:
				takes = " -rF"
			case len(f.value.words) > 0:
				takes = " -xa " + inFish(strings.Join(f.value.words, " "))
			case f.takes:
				takes = " -x"
			}
			fmt.Fprintf(w, "%s -o %s%s -d %s\n", begin, f.name, takes, inFish(f.about))
		}
		switch {
		case c.arguments.files:
			fmt.Fprintf(w, "%s -F\n", begin)
		case len(c.arguments.words) > 0:
			fmt.Fprintf(w, "%s -a %s\n", begin, inFish(strings.Join(c.arguments.words, " ")))
		}
	}
}

// inPosix quotes a text for bash and zsh, and inFish for fish.
func inPosix(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func inFish(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
