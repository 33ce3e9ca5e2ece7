package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serveSix is in place of http.ListenAndServe. It prints the response to the sixth request.
const serveSix = `package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
)

func serveSix(h http.Handler) error {
	server := httptest.NewServer(h)
	for range 5 {
		if _, err := http.Get(server.URL); err != nil {
			return err
		}
	}
	response, err := http.Get(server.URL)
	if err != nil {
		return err
	}
	dump, err := httputil.DumpResponse(response, false)
	os.Stdout.Write(dump)
	os.Exit(0)
	return err
}
`

// The program of the README, in a module of its own with the limits that init writes, answers the sixth request as the
// README says.
func TestQuickStartAnswersWith429(t *testing.T) {
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindStringSubmatch(read(t, "../../README.md"))
	require.NotNil(t, program)
	answer := regexp.MustCompile("(?s)```\n(HTTP/1.1 429.*?)```").FindStringSubmatch(read(t, "../../README.md"))
	require.NotNil(t, answer)
	served := strings.Replace(program[1], `http.ListenAndServe(":8080", `, "serveSix(", 1)
	require.NotEqual(t, program[1], served)

	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	module := strings.Replace(read(t, "../../go.mod"), "module github.com/ratelimitgen/ratelimitgen\n", "module example.com/app\n", 1) +
		"\nrequire github.com/ratelimitgen/ratelimitgen v0.0.0\n\nreplace github.com/ratelimitgen/ratelimitgen => " + root + "\n"
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": module, "go.sum": read(t, "../../go.sum"), "main.go": served, "serve.go": serveSix} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	limits := filepath.Join(dir, "limits", "limits.yaml")
	require.NoError(t, os.Mkdir(filepath.Dir(limits), 0o755))
	require.Equal(t, exitOK, run([]string{"init", limits}, io.Discard, os.Stderr))
	require.Equal(t, exitOK, run([]string{"generate", limits}, io.Discard, os.Stderr))

	cmd := exec.Command("go", "run", "-mod=mod", ".")
	cmd.Dir = dir
	printed, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", printed)
	for line := range strings.Lines(answer[1]) {
		assert.Contains(t, string(printed), strings.TrimSpace(line)+"\r\n")
	}
}
