package livetest

import (
	"cmp"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// long enables the tests that take minutes, and ten times as many histories.
var long = flag.Bool("long", false, "run the long tests too")

// TestMain runs the tests or, in a process that a test has started, the main function for its environment variable.
func TestMain(m *testing.M) {
	mysql.SetLogger(&mysql.NopLogger{}) // connections are cut on purpose
	for env, race := range map[string]func(string) error{courseEnv: raceOn, leaseEnv: raceLeased, outageEnv: takeInOutage, preciseEnv: takePrecisely,
		overrideEnv: decideOverridden, slotsEnv: holdSlots, goneEnv: goOn} {
		if course, ok := os.LookupEnv(env); ok {
			if err := race(course); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
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
	os.Exit(code)
}

// must returns the result of a call, whose error ends the test: must(f())(t).
func must[T any](result T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return result
	}
}

// server is a database with one of its drivers.
type server struct {
	name    string
	driver  string
	dsn     string
	dialect dialect.Dialect
}

// protocol returns "postgres" or "mysql".
func (s server) protocol() string {
	if s.driver == "mysql" {
		return "mysql"
	}
	return "postgres"
}

// words are the names of session settings that tests change.
var words = map[string]map[string]string{
	"postgres": {"isolation": "default_transaction_isolation", "readOnly": "default_transaction_read_only"},
	"mariadb":  {"isolation": "tx_isolation", "readOnly": "tx_read_only"},
	"mysql":    {"isolation": "transaction_isolation", "readOnly": "transaction_read_only"},
}

func (s server) word(setting string) string { return words[s.dialect.Name][setting] }

var (
	postgresDSN = cmp.Or(os.Getenv("RATELIMITGEN_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")
	mariadbDSN  = cmp.Or(os.Getenv("RATELIMITGEN_MARIADB"), "root@tcp(127.0.0.1:3306)/test")
	mysqlDSN    = cmp.Or(os.Getenv("RATELIMITGEN_MYSQL"), "root@tcp(127.0.0.1:3307)/test")
)

// servers are the databases that every test runs on.
var servers = []server{
	{"postgres-pgx", "pgx", postgresDSN, dialect.Postgres},
	{"postgres-pq", "postgres", postgresDSN, dialect.Postgres},
	{"mariadb", "mysql", mariadbDSN, dialect.MariaDB},
	{"mysql", "mysql", mysqlDSN, dialect.MySQL},
}

func TestEveryDialectHasAServer(t *testing.T) {
	for _, d := range dialect.All() {
		tested := d.Name == dialect.SQLite.Name // in its own package
		for _, s := range servers {
			tested = tested || s.dialect.Name == d.Name
		}
		assert.True(t, tested, "add a server of %s to servers in livetest/servers_test.go", d.Name)
	}
}

// onEach runs a test on all servers at once.
func onEach(t *testing.T, test func(t *testing.T, s server)) {
	for _, s := range servers {
		atOnce(t, s.name, func(t *testing.T) { test(t, s) })
	}
}

// onEachServer is onEach for a test to which the driver does not matter: without -long it uses one for each server.
func onEachServer(t *testing.T, test func(t *testing.T, s server)) {
	for _, s := range servers {
		if s.driver != "postgres" || *long {
			atOnce(t, s.name, func(t *testing.T) { test(t, s) })
		}
	}
}

// atOnce runs a test at the same time as the others of t, after t itself has returned.
func atOnce(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

// open opens the database. A server that cannot be reached is a failure.
func (s server) open(t testing.TB) *sql.DB {
	t.Helper()
	db := must(sql.Open(s.driver, s.dsn))(t)
	t.Cleanup(func() { db.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, db.PingContext(ctx), "is the server running? see README.md")
	return db
}

var tables atomic.Int64

// newTable returns the name of a new table.
func newTable() string { return fmt.Sprintf("rl_%d_%d", os.Getpid(), tables.Add(1)) }

// store returns a store in a new table, which is dropped when the test ends.
func (s server) store(t testing.TB, db *sql.DB, clock func() time.Time) *sqlstore.Store {
	t.Helper()
	return s.storeIn(t, db, newTable(), clock)
}

// storeIn is store with the name of the table.
func (s server) storeIn(t testing.TB, db *sql.DB, table string, clock func() time.Time) *sqlstore.Store {
	t.Helper()
	store := must(agree.NewCreatingStore(db, s.dialect, sqlstore.Options{Table: table, Clock: clock}))(t)
	require.NoError(t, store.Migrate(context.Background()))
	t.Cleanup(func() {
		store.Close()
		drop := "DROP TABLE IF EXISTS " + table + ", " + dialect.OverridesTable(table) + ", " + dialect.RegistryTable(table)
		// The connections may be ones that a test has cut.
		for tries := db.Stats().Idle; ; tries-- {
			_, err := db.Exec(drop)
			if err == nil || tries <= 0 {
				require.NoError(t, err, drop)
				break
			}
		}
	})
	return store
}

// suite runs the conformance suite in one table, which is emptied for each clause: a server takes longer to create a table than to
// execute a clause.
func (s server) suite(t *testing.T, db *sql.DB, around func(*sqlstore.Store) runtime.Store) {
	table := newTable()
	require.NoError(t, s.storeIn(t, db, table, nil).Migrate(t.Context(), overridable()), "with the table of overrides")
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
		for _, name := range []string{table, dialect.OverridesTable(table), dialect.RegistryTable(table)} {
			execute(t, db, "DELETE FROM "+name)
		}
		store := must(agree.NewCreatingStore(db, s.dialect, sqlstore.Options{Table: table, Clock: clock}))(t)
		t.Cleanup(func() { store.Close() })
		return around(store)
	})
}

// asItIs is suite for the store itself.
func asItIs(s *sqlstore.Store) runtime.Store { return s }

// storeWith returns a store in a table that may be missing. It is closed when the test ends.
func (s server) storeWith(t testing.TB, db *sql.DB, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	store := must(agree.NewStore(db, s.dialect, o))(t)
	t.Cleanup(func() { store.Close() })
	return store
}

// execute executes a statement.
func execute(t testing.TB, db interface {
	Exec(text string, args ...any) (sql.Result, error)
}, text string, args ...any) {
	t.Helper()
	_, err := db.Exec(text, args...)
	require.NoError(t, err, text)
}

var _ runtime.TxStore = (*sqlstore.Store)(nil)

// with returns the server with a parameter of its connections.
func (s server) with(parameter string) server {
	joint := "?"
	if strings.Contains(s.dsn, "?") {
		joint = "&"
	}
	s.dsn += joint + parameter
	return s
}

// as returns the server with another user.
func (s server) as(t *testing.T, user, password string) server {
	t.Helper()
	if s.driver == "mysql" {
		c := must(mysql.ParseDSN(s.dsn))(t)
		c.User, c.Passwd = user, password
		s.dsn = c.FormatDSN()
		return s
	}
	u := must(url.Parse(s.dsn))(t)
	u.User = url.UserPassword(user, password)
	s.dsn = u.String()
	return s
}

// database returns the server with another database.
func (s server) database(t *testing.T, name string) server {
	t.Helper()
	if s.driver == "mysql" {
		c := must(mysql.ParseDSN(s.dsn))(t)
		c.DBName = name
		s.dsn = c.FormatDSN()
		return s
	}
	u := must(url.Parse(s.dsn))(t)
	u.Path = "/" + name
	s.dsn = u.String()
	return s
}

// Drivers quote a data source name that they cannot parse. The errors of the store do not.
func TestMalformedNameHidesPassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://user:hunter2 x@127.0.0.1/test", "postgres://user:hunter2%zz@127.0.0.1/test", "postgres://user:hunter2/x@127.0.0.1/test",
		"postgres://user:hunter2@127.0.0.1:54x/test", "user=x password=a hunter2 sslmode=disable", "user=x password='hunter2",
		"password=a port=hunter2", "hunter2",
	} {
		for _, s := range servers[:2] {
			s.dsn = dsn
			store := s.visit(t, "")
			for _, err := range []error{store.Ready(t.Context()), store.Migrate(t.Context()), take(t.Context(), store), sweep(t.Context(), store)} {
				assert.ErrorContains(t, err, "the data source name cannot be parsed")
				assert.NotContains(t, err.Error(), "hunter2")
			}
		}
	}
}
