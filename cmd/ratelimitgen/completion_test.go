package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// completer returns a function that completes the last of some words in a shell. It skips the test if the shell is missing,
// but in CI.
func completer(t *testing.T, shell string, args ...string) func(words ...string) []string {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil && os.Getenv("CI") == "" {
		t.Skip(shell + " is not installed")
	}
	var script, stderr bytes.Buffer
	require.Zero(t, run([]string{"completion", shell}, &script, &stderr), stderr.String())
	path := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(path, script.Bytes(), 0o644))
	return func(words ...string) []string {
		t.Helper()
		command := exec.Command(shell, slices.Concat(args, []string{path}, words)...)
		command.Dir = t.TempDir()
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%q: %s", words, out)
		return strings.Fields(string(out))
	}
}

// inBash calls the function as bash does. A word that bash completes as a file is "files".
const inBash = `
source "$1"; shift
default=files
compopt() { [[ $1$2 == +odefault ]] && default=; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_ratelimitgen
echo $default "${COMPREPLY[@]}"`

// inZsh replaces what draws the completions by functions that print them: the commands, or the specifications of the flags
// and arguments.
const inZsh = `
compdef() { [[ $1$2 == _ratelimitgenratelimitgen ]] || echo compdef "$@" }
_describe() { print -rl -- "${(@)${(@P)2}%%:*}" }
_arguments() {
	local spec value
	for spec; do
		if [[ $spec != \** && $spec == *\]:value:* && $words[CURRENT-1] == ${spec%%\[*} ]]; then
			value=${spec##*:}
			print -r -- ${${value#\(}%\)}
			return
		fi
	done
	for spec; do
		if [[ $spec == \** ]]; then
			[[ $words[CURRENT] == -* ]] || print -r -- ${${${spec##*:}#\(}%\)}
		elif [[ $words[CURRENT] == -* ]]; then
			print -r -- ${spec%%\[*}
		fi
	done
}
source "$1"; shift
words=("$@") CURRENT=$#
_ratelimitgen`

func TestCompletion(t *testing.T) {
	shells := map[string][]string{
		"bash": {"--norc", "--noprofile", "-c", inBash, "bash"},
		"zsh":  {"-f", "-c", inZsh, "zsh"},
		"fish": {"--no-config", "-c", `source $argv[1]; complete -C (string join ' ' -- $argv[2..])`},
	}
	for shell, args := range shells {
		t.Run(shell, func(t *testing.T) {
			complete := completer(t, shell, args...)
			for _, c := range []struct {
				words, want []string
			}{
				{[]string{"ratelimitgen", "che"}, []string{"check"}},
				{[]string{"ratelimitgen", "check", "-fo"}, []string{"-format"}},
				{[]string{"ratelimitgen", "check", "-format", "g"}, []string{"github"}},
				{[]string{"ratelimitgen", "diff", "old.yaml", "-color", "al"}, []string{"always"}},
				{[]string{"ratelimitgen", "schema", "-of", ""}, []string{"diff", "limits"}},
				{[]string{"ratelimitgen", "help", "sim"}, []string{"simulate"}},
				{[]string{"ratelimitgen", "completion", "b"}, []string{"bash"}},
				{[]string{"ratelimitgen", "generate", "-package", ""}, nil},
				{[]string{"ratelimitgen", "version", ""}, nil},
			} {
				got := complete(c.words...)
				if last := c.words[len(c.words)-1]; shell != "bash" {
					// zsh chooses by the word itself, and fish prints descriptions too.
					got = slices.DeleteFunc(got, func(word string) bool { return !strings.HasPrefix(word, last) || !slices.Contains(c.want, word) })
				}
				slices.Sort(got)
				assert.ElementsMatch(t, c.want, slices.Compact(got), c.words)
			}
		})
	}
}

// In bash, all commands, flags and values are offered.
func TestCompletionHasAllCommandsAndFlags(t *testing.T) {
	complete := completer(t, "bash", "--norc", "--noprofile", "-c", inBash, "bash")
	assert.Equal(t, commandNames(), complete("ratelimitgen", ""))
	for _, c := range completedCommands(commands()) {
		if len(c.flags) > 0 {
			assert.Equal(t, c.names(), complete("ratelimitgen", c.name, "-"))
		}
		for _, f := range c.flags {
			double := complete("ratelimitgen", c.name, "--"+f.name)
			assert.Contains(t, double, "--"+f.name)
			if !f.takes {
				continue
			}
			want := f.value.words
			if f.value.files {
				want = []string{"files"}
			}
			for _, words := range [][]string{{"-" + f.name, ""}, {"--" + f.name, ""}, {"-" + f.name, "="}, {"--" + f.name, "=", ""}} {
				got := complete(append([]string{"ratelimitgen", c.name}, words...)...)
				assert.ElementsMatch(t, want, got, "%s %v", c.name, words)
			}
		}
		if c.arguments.files {
			assert.Equal(t, []string{"files"}, complete("ratelimitgen", c.name, ""), c.name)
		}
	}
	for _, c := range completedCommands(commands()) {
		for _, f := range c.flags {
			for _, word := range f.value.words {
				assert.Regexp(t, regexp.MustCompile(`^[a-z0-9]+$`), word, "a word with other characters must be quoted in the scripts")
			}
		}
	}
}

// The values of flags that are files are those whose names say so.
func TestCompletionOfFiles(t *testing.T) {
	var files, others []string
	for _, c := range completedCommands(commands()) {
		for _, f := range c.flags {
			switch name := c.name + " -" + f.name; {
			case f.value.files:
				files = append(files, name)
			case f.takes && f.value.words == nil:
				others = append(others, name)
			}
		}
	}
	assert.Equal(t, []string{"generate -o", "diff -against", "page -against", "page -o", "page -svg", "page -trace", "sql -from", "simulate -against", "simulate -trace"}, files)
	assert.Equal(t, []string{"generate -package", "diff -allow", "diff -fail-on", "diff -link-base", "explain -at", "sql -grants", "sql -table",
		"simulate -late", "simulate -limit", "simulate -map", "simulate -plan", "simulate -seed", "simulate -traffic"}, others)
}
