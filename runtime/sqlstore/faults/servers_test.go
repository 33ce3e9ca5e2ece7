package faults

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// long enables the tests that take minutes.
var long = flag.Bool("long", false, "run the long tests too")

// TestMain runs the tests or, in a process that a test has started, takes tokens.
func TestMain(m *testing.M) {
	mysql.SetLogger(&mysql.NopLogger{}) // connections are cut on purpose
	if course, ok := os.LookupEnv(outageEnv); ok {
		if err := takeInOutage(course); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if course, ok := os.LookupEnv(vitessLoadEnv); ok {
		if err := takeOnVitess(course); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Tests of several servers at once mostly wait. The command line can still change it.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	if all := flag.Lookup("test.run"); all.Value.String() == "" {
		// They start slowly, and while other tests run.
		go startGalera()
		go startMySQLGroup()
	}
	code := m.Run()
	galera.remove()
	mysqlGroup.remove()
	vitess.remove()
	if binary, err := conformance(); err == nil {
		os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

var postgresDSN = cmp.Or(os.Getenv("RATELIMITGEN_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")

// direct is the local Postgres without a pooler.
var direct = live.Server{Name: "postgres", Driver: "pgx", DSN: postgresDSN, Dialect: dialect.Postgres}

// conformance builds the tests of module conformance, and returns the path of the binary.
var conformance = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ratelimitgen")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "conformance.test")
	cmd := exec.Command("go", "test", "-c", "-o", binary, ".")
	cmd.Dir = "../conformance"
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return binary, nil
})

// conforms runs tests of module conformance on the nodes of a database.
func conforms(t *testing.T, nodes []live.Server, tests ...string) {
	t.Helper()
	conformsBut(t, nodes, "^$", tests...)
}

// conformsBut is conforms without some subtests.
func conformsBut(t *testing.T, nodes []live.Server, skip string, tests ...string) {
	t.Helper()
	args := []string{"-test.skip=" + skip, "-test.v", "-test.run=^(" + strings.Join(tests, "|") + ")$", fmt.Sprintf("-long=%v", *long), "-driver=" + nodes[0].Driver}
	for _, s := range nodes {
		args = append(args, "-dsn="+s.DSN)
	}
	cmd := exec.Command(live.Must(conformance())(t), args...)
	cmd.Dir = "../conformance"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, test := range tests {
		assert.Regexp(t, "(?m)^--- PASS: "+regexp.QuoteMeta(test)+" ", string(out))
	}
	t.Logf("%s", out)
}
