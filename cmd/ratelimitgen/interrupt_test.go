//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// At an interrupt, simulate prints the decisions so far, and fails.
func TestInterruptedSimulationPrintsWhatItHas(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "limits.yaml"),
		[]byte("version: 1\nlimits:\n  send: {key: {user: int64}, kind: token bucket, rate: 10, period: 1m}\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "old.yaml"),
		[]byte("version: 1\nlimits:\n  send: {key: {user: int64}, kind: token bucket, rate: 5, period: 1m}\n"), 0o644))
	self, err := os.Executable()
	require.NoError(t, err)
	// Far more than the buffers between the two programs have, so that replaying has begun when these are written.
	const lines = 50_000
	for _, c := range []struct {
		name, report string
		flags        []string
	}{
		{"the report", `^([0-9,]+) requests`, nil},
		{"the comparison", `^([0-9,]+) requests`, []string{"-against", "old.yaml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := exec.Command(self, append([]string{"simulate", "-trace", "-"}, c.flags...)...)
			command.Args[0], command.Dir = "ratelimitgen", dir // TestMain runs the program under this name
			var stdout, stderr bytes.Buffer
			command.Stdout, command.Stderr = &stdout, &stderr
			in, err := command.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, command.Start())
			for i := 0; ; i++ {
				if i == lines {
					require.NoError(t, command.Process.Signal(os.Interrupt))
				}
				// It decides no line after the interrupt, and stops reading.
				if _, err := fmt.Fprintf(in, "{\"at\": %d, \"key\": %d}\n", i, i%7); err != nil {
					require.GreaterOrEqual(t, i, lines)
					break
				}
			}
			exit := new(exec.ExitError)
			require.ErrorAs(t, command.Wait(), &exit)
			require.Equal(t, exitFailed, exit.ExitCode(), stderr.String())
			said := regexp.MustCompile(`interrupted: the output has the requests so far, ([0-9]+)\n`).FindStringSubmatch(stderr.String())
			require.NotNil(t, said, stderr.String())
			found := regexp.MustCompile(c.report).FindStringSubmatch(stdout.String())
			require.NotNil(t, found, stdout.String())
			assert.Equal(t, said[1], strings.ReplaceAll(found[1], ",", ""))
			n, err := strconv.Atoi(said[1])
			require.NoError(t, err)
			assert.Positive(t, n)
		})
	}
	t.Run("lines", func(t *testing.T) {
		command := exec.Command(self, "simulate", "-traffic", "steady 1000/s for 24h over 7 keys", "-format", "jsonl")
		command.Args[0], command.Dir = "ratelimitgen", dir
		var stderr bytes.Buffer
		command.Stderr = &stderr
		pipe, err := command.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, command.Start())
		out := bufio.NewReader(pipe)
		_, err = out.ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, command.Process.Signal(os.Interrupt))
		rest, err := io.ReadAll(out)
		require.NoError(t, err)
		assert.True(t, bytes.HasSuffix(rest, []byte("}\n")), "the last line is whole")
		exit := new(exec.ExitError)
		require.ErrorAs(t, command.Wait(), &exit)
		require.Equal(t, exitFailed, exit.ExitCode(), stderr.String())
		require.Contains(t, stderr.String(), fmt.Sprintf("the requests so far, %d\n", 1+bytes.Count(rest, []byte("\n"))))
	})
}
