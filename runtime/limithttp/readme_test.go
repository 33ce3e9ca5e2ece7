package limithttp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// quickStartTest is a test of the program of README.md. It prints the third response.
const quickStartTest = `package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"example.com/app/limits"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

func TestThirdSearch(t *testing.T) {
	server := httptest.NewServer(routes(limits.New(&memstore.Store{})))
	defer server.Close()
	for range 2 {
		response, err := http.Get(server.URL + "/search")
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response, err)
		}
	}
	response, err := http.Get(server.URL + "/search")
	if err != nil {
		t.Fatal(err)
	}
	response.Header.Del("Date")
	fmt.Println("<<<")
	response.Write(printer{})
	fmt.Println(">>>")
}

type printer struct{}

func (printer) Write(p []byte) (int, error) { return fmt.Print(string(p)) }
`

// linesFile has the lines of a section in a function.
const linesFile = `package lines

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"strconv"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

var _ = []any{errors.New, fmt.Fprintln, log.Print, netip.MustParsePrefix, strconv.ParseInt, limithttp.New}

func userOf(*http.Request) (userID int64, ok bool) { return 0, false }

func routes(mux *http.ServeMux, h *limithttp.Binder, limit *limits.Limits, teamOf func(*http.Request) (string, error),
	complete func(http.ResponseWriter, *http.Request) int64, search http.HandlerFunc, rightPassword func(*http.Request) bool) {
LINES}
`

// loginTest is a test of the handler that calls a limit itself: right logins are not denied, and wrong ones are, 10 in an hour.
const loginTest = `package lines

import (
	"net/http"
	"net/http/httptest"
	"testing"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

func TestLogin(t *testing.T) {
	mux, limit, right := http.NewServeMux(), limits.New(&memstore.Store{}), true
	routes(mux, limithttp.New(limit, limithttp.Options{}), limit, nil, nil,
		func(w http.ResponseWriter, _ *http.Request) {}, func(*http.Request) bool { return right })
	login := func(want int) {
		t.Helper()
		response := httptest.NewRecorder()
		mux.ServeHTTP(response, httptest.NewRequest(http.MethodPost, "/login?user=ada", nil))
		if response.Code != want {
			t.Fatalf("the status is %d, want %d", response.Code, want)
		}
	}
	for range 30 {
		login(http.StatusOK)
	}
	right = false
	for range 10 {
		login(http.StatusUnauthorized)
	}
	login(http.StatusTooManyRequests)
	right = true
	login(http.StatusTooManyRequests)
}
`

// TestQuickStart builds the first program of README.md in a module of its own, and sends it three requests.
// It compiles the lines of other sections, too.
func TestQuickStart(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	block := func(section, language string) string {
		m := regexp.MustCompile("(?s)\n## " + section + "\n.*?\n```" + language + "\n(.*?)```\n").FindSubmatch(readme)
		require.NotNil(t, m)
		return string(m[1])
	}
	const quickStart = "From an empty module to a 429"
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	run := func(dir string, args ...string) string {
		command := exec.Command("go", args...)
		command.Dir = dir
		// With the flags of other builds, so that the build cache has all but this module.
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off")
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	write("go.mod", "module example.com/app\n\ngo 1.26\n\nrequire github.com/ratelimitgen/ratelimitgen v0.0.0\n\n"+
		"replace github.com/ratelimitgen/ratelimitgen => "+root+"\n")
	write("limits/limits.yaml", block(quickStart, "yaml"))
	write("main.go", block(quickStart, "go"))
	write("main_test.go", quickStartTest)
	for i, section := range []string{"Costs that are known afterwards", "The address of a client",
		"Limits that a handler calls itself", "What a caller has left", "Requests that do not count", "A customer that is loaded once", "A user or an address", "Requests that run at once"} {
		write(fmt.Sprintf("lines%d/lines.go", i), strings.Replace(linesFile, "LINES", block(section, "go"), 1))
	}
	write("lines2/login_test.go", loginTest)
	run(root, "run", "./cmd/ratelimitgen", "generate", filepath.Join(dir, "limits/limits.yaml"))
	run(dir, "vet", "./...")
	run(dir, "test", "./lines2")
	out := run(dir, "test", "-v", ".")
	_, response, ok := strings.Cut(out, "<<<\n")
	require.True(t, ok, out)
	response, _, _ = strings.Cut(response, ">>>")
	response = strings.ReplaceAll(response, "\r\n", "\n")
	_, want, ok := strings.Cut(string(readme), "The third response:\n\n```\n")
	require.True(t, ok)
	want, _, _ = strings.Cut(want, "```\n")
	// An http.Response writes Content-Length in another place.
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		require.Contains(t, response, line)
	}
	require.Equal(t, strings.Count(want, "\n"), strings.Count(strings.TrimSpace(response)+"\n", "\n"), response)
}

// TestImports: a program that uses limithttp gets no requirements from it.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	require.NoError(t, err)
	for _, path := range strings.Fields(string(out)) {
		require.True(t, strings.HasPrefix(path, "github.com/ratelimitgen/ratelimitgen/runtime"), path)
		require.NotContains(t, path, "sqlstore")
	}
}
