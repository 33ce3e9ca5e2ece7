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

// loginTest is a test of the logins: right ones count for neither limit, and wrong ones for both, 5 of an address and 10 of
// a user.
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
	login := func(user, addr string, want int) {
		t.Helper()
		request, response := httptest.NewRequest(http.MethodPost, "/login?user="+user, nil), httptest.NewRecorder()
		request.RemoteAddr = addr + ":1234"
		mux.ServeHTTP(response, request)
		if response.Code != want {
			t.Fatalf("the status is %d, want %d", response.Code, want)
		}
	}
	for range 3 {
		right = false
		login("ada", "192.0.2.1", http.StatusUnauthorized)
		right = true
		login("ada", "192.0.2.1", http.StatusOK)
	}
	right = false
	for range 2 {
		login("bob", "192.0.2.1", http.StatusUnauthorized)
	}
	login("bob", "192.0.2.1", http.StatusTooManyRequests)
	for _, addr := range []string{"192.0.2.2", "192.0.2.3"} {
		for range 5 {
			login("ada", addr, http.StatusUnauthorized)
		}
	}
	login("ada", "192.0.2.4", http.StatusTooManyRequests)
	right = true
	login("ada", "192.0.2.4", http.StatusTooManyRequests)
	login("bob", "192.0.2.4", http.StatusOK)
}
`

// TestLinesOfReadme compiles the lines of the sections in a module of their own, and tests the logins.
func TestLinesOfReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	block := func(section, language string) string {
		m := regexp.MustCompile("(?s)\n## " + section + "\n.*?\n```" + language + "\n(.*?)```\n").FindSubmatch(readme)
		require.NotNil(t, m)
		return string(m[1])
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	run := func(args ...string) {
		command := exec.Command("go", args...)
		command.Dir = dir
		// With the flags of other builds, so that the build cache has all but this module.
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off")
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	write("go.mod", "module example.com/app\n\ngo 1.26\n\nrequire github.com/ratelimitgen/ratelimitgen v0.0.0\n\n"+
		"replace github.com/ratelimitgen/ratelimitgen => "+root+"\n")
	for i, section := range []string{"Costs that are known afterwards", "The address of a client",
		"Limits that a handler calls itself", "What a caller has left", "Logins", "A customer that is loaded once", "A user or an address", "Requests that run at once"} {
		write(fmt.Sprintf("lines%d/lines.go", i), strings.Replace(linesFile, "LINES", block(section, "go"), 1))
	}
	write("lines4/login_test.go", loginTest)
	run("vet", "./...")
	run("test", "./lines4")
	responses, err := os.ReadFile("testdata/responses.txt")
	require.NoError(t, err)
	require.Contains(t, string(responses), block("What a client does with them", "json"))
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

// TestParametersAreInReadme: the table of the fields has every parameter that responses have.
func TestParametersAreInReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	responses, err := os.ReadFile("testdata/responses.txt")
	require.NoError(t, err)
	found := regexp.MustCompile(`;([a-z]+)=`).FindAllSubmatch(responses, -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		require.Contains(t, string(readme), fmt.Sprintf("| `%s` |", m[1]))
	}
}
