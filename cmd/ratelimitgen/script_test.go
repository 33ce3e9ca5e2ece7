package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "update the output in the scripts and the READMEs")

// TestMain turns the test binary into the program if it runs under the program's name, as in the scripts.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ratelimitgen" {
		main()
	}
	os.Exit(m.Run())
}

// TestScripts runs testdata/cmd/*.txt. A script is a shell session, followed by the files in its directory, each
// below a line "-- name --". In the session, "$ " precedes a command for sh, "1| " each line of its standard output,
// "2| " each line of its standard error, and "exit N" is its exit code if that is not 0.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/cmd/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		script, err := filepath.Abs(path)
		require.NoError(t, err)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(script)
			require.NoError(t, err)
			session, files := splitScript(string(text))
			dir := filepath.Join(t.TempDir(), "app")
			bin := writeFiles(t, dir, files)
			t.Chdir(dir)
			path := bin + ":" + os.Getenv("PATH")
			for _, variable := range os.Environ() {
				name, _, _ := strings.Cut(variable, "=")
				t.Setenv(name, "") // so that it is restored
				require.NoError(t, os.Unsetenv(name))
			}
			t.Setenv("PATH", path)
			t.Setenv("HOME", bin)
			t.Setenv("TERM", "xterm")
			got := replay(t, session)
			if *update {
				require.NoError(t, os.WriteFile(script, []byte(got+string(text)[len(session):]), 0o644))
				return
			}
			assert.Equal(t, session, got, "after an intended change, run go test ./cmd/ratelimitgen -run Scripts -update")
		})
	}
}

func splitScript(text string) (session, files string) {
	at := strings.Index(text+"\n-- ", "\n-- ")
	return text[:min(at+1, len(text))], text[min(at+1, len(text)):]
}

// writeFiles writes the files of a script, and returns a directory for PATH with the program.
func writeFiles(t *testing.T, dir, files string) (bin string) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o755))
	for _, file := range strings.Split("\n"+files, "\n-- ")[1:] {
		name, text, _ := strings.Cut(file, " --\n")
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(strings.TrimSuffix(text, "\n")+"\n"), 0o644))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	bin = t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "ratelimitgen")))
	return bin
}

// printed matches the lines of a session that are output.
var printed = regexp.MustCompile(`^(1\||2\||exit )`)

// replay runs the commands of a session, and returns it with their output.
func replay(t *testing.T, session string) string {
	t.Helper()
	var got strings.Builder
	for line := range strings.Lines(session) {
		switch {
		case strings.HasPrefix(line, "$ "):
			got.WriteString(line)
			got.WriteString(execute(t, strings.TrimSuffix(line[2:], "\n")))
		case !printed.MatchString(line):
			got.WriteString(line)
		}
	}
	return got.String()
}

// plain matches a command line of words that the shell passes on as they are, or that have only quotes around them.
var plain = regexp.MustCompile(`^ratelimitgen( [\w./:=,+@%-]+| '[^']*'| "[^"$\x60\\]*")*( >/dev/null)?$`)

// execute runs one command, and returns its output in the form of a session. A plain call of the program is made in this
// process, because starting a shell and the program takes much longer than most commands.
func execute(t *testing.T, line string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := 0
	if plain.MatchString(line) {
		var args []string
		words, silent := strings.CutSuffix(line, " >/dev/null")
		for _, word := range regexp.MustCompile(`'[^']*'|"[^"]*"|[^ '"]+`).FindAllString(words, -1)[1:] {
			if word[0] == '\'' || word[0] == '"' {
				word = word[1 : len(word)-1]
			}
			args = append(args, word)
		}
		code = run(args, &stdout, &stderr)
		if silent {
			stdout.Reset()
		}
	} else {
		command := exec.Command("sh", "-c", line)
		command.Stdout, command.Stderr = &stdout, &stderr
		err := command.Run()
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			code, err = exit.ExitCode(), nil
		}
		require.NoError(t, err)
	}
	shown := marked("1|", stdout.String()) + marked("2|", stderr.String())
	if code != 0 {
		shown += fmt.Sprintf("exit %d\n", code)
	}
	return shown
}

func marked(mark, text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimRight(mark+" "+line, " \n") + "\n")
	}
	return out.String()
}
