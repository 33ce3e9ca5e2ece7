package conformance

import (
	"cmp"
	"database/sql"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
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
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

var (
	long  = flag.Bool("long", false, "run the long tests too")
	admin = flag.Bool("admin", false, "with -dsn: run the tests that create more than tables too, such as schemas and users")
	// given are the nodes of the database that -dsn names.
	given  []string
	driver = flag.String("driver", "", "with -dsn: pgx, postgres (lib/pq) or mysql")
)

// TestMain runs the tests or, in a process that a test has started, the main function for its environment variable.
func TestMain(m *testing.M) {
	mysql.SetLogger(&mysql.NopLogger{}) // connections are cut on purpose
	for env, race := range map[string]func(string) error{courseEnv: raceOn, leaseEnv: raceLeased, preciseEnv: takePrecisely,
		overrideEnv: decideOverridden, slotsEnv: holdSlots, goneEnv: goOn, outboxEnv: fillOutbox} {
		if course, ok := os.LookupEnv(env); ok {
			if err := race(course); err != nil {
				exit(err)
			}
			return
		}
	}
	// Tests of several servers at once mostly wait. The command line can still change it.
	if err := flag.Set("test.parallel", "8"); err != nil {
		exit(err)
	}
	flag.Func("dsn", "test this database instead of the local servers; again for each other node of a cluster", func(dsn string) error {
		given = append(given, dsn)
		return nil
	})
	flag.Parse()
	if len(given) > 0 {
		s, err := serverAt(*driver, given[0])
		if err != nil {
			exit(err)
		}
		servers = []live.Server{s}
	}
	os.Exit(m.Run())
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// serverAt returns the server with a data source name, and finds out its dialect.
func serverAt(driver, dsn string) (live.Server, error) {
	s := live.Server{Name: "postgres-pgx", Driver: driver, DSN: dsn, Dialect: dialect.Postgres}
	switch driver {
	case "pgx":
		return s, nil
	case "postgres":
		s.Name = "postgres-pq"
		return s, nil
	case "mysql":
	default:
		return s, fmt.Errorf("-driver is %q: with -dsn it must be pgx, postgres or mysql", driver)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return s, err
	}
	defer db.Close()
	var version string
	if err := db.QueryRow("SELECT VERSION()").Scan(&version); err != nil {
		return s, err
	}
	s.Dialect = dialect.MySQL
	switch {
	case strings.Contains(version, "MariaDB"):
		s.Dialect = dialect.MariaDB
	case strings.Contains(version, "Vitess"):
		s.Dialect = dialect.Vitess
		s.Beside, err = keyspaceBeside(db)
	}
	s.Name = s.Dialect.Name
	return s, err
}

// keyspaceBeside returns the unsharded keyspace of a vtgate, if that of the connection is sharded.
func keyspaceBeside(db *sql.DB) (unsharded string, err error) {
	var own string
	if err := db.QueryRow("SELECT DATABASE()").Scan(&own); err != nil {
		return "", err
	}
	rows, err := db.Query("SHOW VSCHEMA KEYSPACES")
	if err != nil {
		return "", err
	}
	defer rows.Close()
	sharded := map[string]bool{}
	for rows.Next() {
		var name, is string
		if err := rows.Scan(&name, &is, new(sql.RawBytes), new(sql.RawBytes)); err != nil {
			return "", err
		}
		if sharded[name] = is == "true"; !sharded[name] {
			unsharded = name
		}
	}
	if !sharded[own] {
		unsharded = ""
	}
	return unsharded, rows.Err()
}

// needAdmin skips a test that creates more than tables, unless -admin says that the user may.
func needAdmin(t *testing.T) {
	t.Helper()
	if len(given) > 0 && !*admin {
		t.Skip("it creates schemas, databases, users, functions or triggers: run it with -admin")
	}
}

// words are the names of session settings that tests change.
var words = map[string]map[string]string{
	"postgres": {"isolation": "default_transaction_isolation", "readOnly": "default_transaction_read_only"},
	"mariadb":  {"isolation": "tx_isolation", "readOnly": "tx_read_only"},
	"mysql":    {"isolation": "transaction_isolation", "readOnly": "transaction_read_only"},
	"vitess":   {"isolation": "transaction_isolation", "readOnly": "transaction_read_only"},
}

func word(s live.Server, setting string) string { return words[s.Dialect.Name][setting] }

// servers are the databases that every test runs on: the local ones, with each driver, or the one that -dsn names.
var servers = []live.Server{
	{Name: "postgres-pgx", Driver: "pgx", DSN: postgresDSN, Dialect: dialect.Postgres},
	{Name: "postgres-pq", Driver: "postgres", DSN: postgresDSN, Dialect: dialect.Postgres},
	{Name: "mariadb", Driver: "mysql", DSN: cmp.Or(os.Getenv("RATELIMITGEN_MARIADB"), "root@tcp(127.0.0.1:3306)/test"), Dialect: dialect.MariaDB},
	{Name: "mysql", Driver: "mysql", DSN: cmp.Or(os.Getenv("RATELIMITGEN_MYSQL"), "root@tcp(127.0.0.1:3307)/test"), Dialect: dialect.MySQL},
}

var postgresDSN = cmp.Or(os.Getenv("RATELIMITGEN_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")

func TestEveryDialectHasAServer(t *testing.T) {
	if len(given) > 0 {
		t.Skip("the servers are those of -dsn")
	}
	for _, d := range dialect.All() {
		// In its own package, and by module faults, which starts the cluster.
		tested := d.Name == dialect.SQLite.Name || d.Name == dialect.Vitess.Name
		for _, s := range servers {
			tested = tested || s.Dialect.Name == d.Name
		}
		assert.True(t, tested, "add a server of %s to servers in conformance/servers_test.go", d.Name)
	}
}

// named returns the servers with some of these names. If there are none, it skips the test, which is for these only.
func named(t *testing.T, names ...string) (found []live.Server) {
	t.Helper()
	for _, s := range servers {
		if slices.Contains(names, s.Name) {
			found = append(found, s)
		}
	}
	if found == nil {
		t.Skipf("only for %s", strings.Join(names, " and "))
	}
	return found
}

// onEach runs a test on all servers at once.
func onEach(t *testing.T, test func(t *testing.T, s live.Server)) {
	for _, s := range servers {
		live.AtOnce(t, s.Name, func(t *testing.T) { test(t, s) })
	}
}

// onEachServer is onEach for a test to which the driver does not matter: without -long it uses one for each server.
func onEachServer(t *testing.T, test func(t *testing.T, s live.Server)) {
	for _, s := range servers {
		if s.Driver != "postgres" || *long || len(given) > 0 {
			live.AtOnce(t, s.Name, func(t *testing.T) { test(t, s) })
		}
	}
}

// onAll is onEach for a test that uses all nodes of a cluster.
func onAll(t *testing.T, test func(t *testing.T, nodes []live.Server)) {
	onEach(t, func(t *testing.T, s live.Server) { test(t, nodesOf(s)) })
}

// nodesOf returns the server, or all nodes of its cluster.
func nodesOf(s live.Server) []live.Server {
	nodes := []live.Server{s}
	for i := 1; i < len(given); i++ {
		s.Name, s.DSN = fmt.Sprint(servers[0].Name, " ", i+1), given[i]
		nodes = append(nodes, s)
	}
	return nodes
}

// onSQLite runs a test of processes that share a file, next to those on the local servers.
func onSQLite(t *testing.T, test func(t *testing.T)) {
	if len(given) == 0 {
		live.AtOnce(t, "sqlite", test)
	}
}

// upToDate makes the nodes of a cluster wait for the commits of others before they read. Without it no more is granted, but
// a call that changes nothing may be answered from an older state.
func upToDate(nodes []live.Server) []live.Server {
	wait := map[string]string{"mariadb": "wsrep_sync_wait=1", "mysql": "group_replication_consistency='BEFORE'"}[nodes[0].Dialect.Name]
	if len(nodes) == 1 || wait == "" {
		return nodes
	}
	waiting := slices.Clone(nodes)
	for i := range waiting {
		waiting[i] = waiting[i].With(wait)
	}
	return waiting
}

// suite runs the conformance suite in one table, which is emptied for each clause: a server takes longer to create a table
// than to execute a clause.
func suite(t *testing.T, s live.Server, db *sql.DB, around func(*sqlstore.Store) runtime.Store) {
	table := live.NewTable()
	require.NoError(t, s.StoreIn(t, db, table, nil).Migrate(t.Context(), live.Overridable()), "with the table of overrides")
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
		s.Empty(t, db, table)
		store := live.Must(agree.NewCreatingStore(db, s.Dialect, sqlstore.Options{Table: table, Clock: clock}))(t)
		t.Cleanup(func() { store.Close() })
		return around(store)
	})
}

// asItIs is suite for the store itself.
func asItIs(s *sqlstore.Store) runtime.Store { return s }

var _ runtime.TxStore = (*sqlstore.Store)(nil)

// as returns the server with another user.
func as(t *testing.T, s live.Server, user, password string) live.Server {
	t.Helper()
	if s.Driver == "mysql" {
		c := live.Must(mysql.ParseDSN(s.DSN))(t)
		c.User, c.Passwd = user, password
		s.DSN = c.FormatDSN()
		return s
	}
	u := live.Must(url.Parse(s.DSN))(t)
	u.User = url.UserPassword(user, password)
	s.DSN = u.String()
	return s
}

// database returns the server with another database.
func database(t *testing.T, s live.Server, name string) live.Server {
	t.Helper()
	if s.Driver == "mysql" {
		c := live.Must(mysql.ParseDSN(s.DSN))(t)
		c.DBName = name
		s.DSN = c.FormatDSN()
		return s
	}
	u := live.Must(url.Parse(s.DSN))(t)
	u.Path = "/" + name
	s.DSN = u.String()
	return s
}

// Drivers quote a data source name that they cannot parse. The errors of the store do not.
func TestMalformedNameHidesPassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://user:hunter2 x@127.0.0.1/test", "postgres://user:hunter2%zz@127.0.0.1/test", "postgres://user:hunter2/x@127.0.0.1/test",
		"postgres://user:hunter2@127.0.0.1:54x/test", "user=x password=a hunter2 sslmode=disable", "user=x password='hunter2",
		"password=a port=hunter2", "hunter2",
	} {
		for _, s := range named(t, "postgres-pgx", "postgres-pq") {
			s.DSN = dsn
			store := s.Visit(t, "")
			for _, err := range []error{store.Ready(t.Context()), store.Migrate(t.Context()), take(t.Context(), store), sweep(t.Context(), store)} {
				assert.ErrorContains(t, err, "the data source name cannot be parsed")
				assert.NotContains(t, err.Error(), "hunter2")
			}
		}
	}
}
