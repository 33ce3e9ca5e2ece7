// Package live has what the tests on real servers share: the modules runtime/sqlstore/conformance and
// runtime/sqlstore/faults, which import the drivers.
package live

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Server is a database with one of its drivers.
type Server struct {
	Name    string
	Driver  string
	DSN     string
	Dialect dialect.Dialect
	// Beside is the keyspace of the tables beside that of the counts, if that is sharded.
	Beside string
}

// SideTable returns the name of a table beside that of the counts, for statements of tests.
func (s Server) SideTable(name string) string {
	if s.Beside != "" {
		return s.Beside + "." + name
	}
	return name
}

// Empty deletes all rows of the tables of a store.
func (s Server) Empty(t testing.TB, db *sql.DB, table string) {
	t.Helper()
	on := Must(db.Conn(context.Background()))(t)
	defer on.Close()
	run := func(text string) {
		_, err := on.ExecContext(context.Background(), text)
		require.NoError(t, err, text)
	}
	if s.Beside != "" {
		// It is several transactions of one shard each.
		run("SET transaction_mode = 'multi'")
		defer run("SET transaction_mode = 'single'")
	}
	for _, name := range []string{table, s.SideTable(dialect.OverridesTable(table)),
		s.SideTable(dialect.RegistryTable(table))} {
		run("DELETE FROM " + name)
	}
}

// Protocol returns "postgres" or "mysql".
func (s Server) Protocol() string {
	if s.Driver == "mysql" {
		return "mysql"
	}
	return "postgres"
}

// AtOnce runs a test at the same time as the others of t, after t itself has returned.
func AtOnce(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

// Open opens the database. A server that cannot be reached is a failure.
func (s Server) Open(t testing.TB) *sql.DB {
	t.Helper()
	db := Must(sql.Open(s.Driver, s.DSN))(t)
	t.Cleanup(func() { db.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, db.PingContext(ctx), "is the server running? see README.md")
	return db
}

var (
	process = rand.Uint32()
	tables  atomic.Int64
)

// NewTable returns the name of a new table.
func NewTable() string { return fmt.Sprintf("rl_%08x_%d", process, tables.Add(1)) }

// Store returns a store in a new table, which is dropped when the test ends.
func (s Server) Store(t testing.TB, db *sql.DB, clock func() time.Time) *sqlstore.Store {
	t.Helper()
	return s.StoreIn(t, db, NewTable(), clock)
}

// StoreIn is Store with the name of the table.
func (s Server) StoreIn(t testing.TB, db *sql.DB, table string, clock func() time.Time) *sqlstore.Store {
	t.Helper()
	return s.StoreOf(t, db, sqlstore.Options{Table: table, Clock: clock})
}

// StoreOf is StoreIn with options.
func (s Server) StoreOf(t testing.TB, db *sql.DB, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	store := Must(agree.NewCreatingStore(db, s.Dialect, o))(t)
	require.NoError(t, store.Migrate(context.Background()))
	t.Cleanup(func() {
		store.Close()
		Drop(t, db, o.Table)
	})
	return store
}

// Drop drops the tables of a store.
func Drop(t testing.TB, db *sql.DB, table string) {
	t.Helper()
	drop := "DROP TABLE IF EXISTS " + table + ", " + dialect.OverridesTable(table) + ", " + dialect.RegistryTable(table)
	// The connections may be ones that a test has cut.
	for tries := db.Stats().Idle; ; tries-- {
		_, err := db.Exec(drop)
		if err == nil || tries <= 0 {
			require.NoError(t, err, drop)
			return
		}
	}
}

// StoreWith returns a store in a table that may be missing. It is closed when the test ends.
func (s Server) StoreWith(t testing.TB, db *sql.DB, o sqlstore.Options) *sqlstore.Store {
	t.Helper()
	store := Must(agree.NewStore(db, s.Dialect, o))(t)
	t.Cleanup(func() { store.Close() })
	return store
}

// Execute executes a statement.
func Execute(t testing.TB, db interface {
	Exec(text string, args ...any) (sql.Result, error)
}, text string, args ...any) {
	t.Helper()
	_, err := db.Exec(text, args...)
	require.NoError(t, err, text)
}

// With returns the server with a parameter of its connections.
func (s Server) With(parameter string) Server {
	joint := "?"
	if strings.Contains(s.DSN, "?") {
		joint = "&"
	}
	s.DSN += joint + parameter
	return s
}

// Visit returns a store for a table that may be missing.
func (s Server) Visit(t *testing.T, table string) *sqlstore.Store {
	t.Helper()
	db := Must(sql.Open(s.Driver, s.DSN))(t)
	t.Cleanup(func() { db.Close() })
	return s.StoreWith(t, db, sqlstore.Options{Table: table})
}

// RefusesToStart requires that each way to start using the server returns an error that contains says.
func (s Server) RefusesToStart(t *testing.T, table, says string) {
	t.Helper()
	store := s.Visit(t, table)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	take := func() error { return limiter.New(store).Limit(Once("limit", 100), runtime.Key{}).Require(ctx) }
	FailsWith(t, store.Ready(ctx), says)
	FailsWith(t, take(), says)
	FailsWith(t, take(), `limit "limit": `)
}

// FailsWith requires that an error contains says, and wraps an error of the driver.
func FailsWith(t *testing.T, err error, says string) {
	t.Helper()
	assert.ErrorContains(t, err, says)
	assert.True(t, fromDriver(err), "%v", err)
	t.Log(err)
}

// fromDriver reports whether err wraps an error of a driver or of the network.
func fromDriver(err error) bool {
	return fault.CodeOf(err) != fault.Code{} || errors.As(err, new(*net.OpError)) || errors.As(err, new(*net.DNSError))
}

// Shared returns a store on each node, all in one new table, which is dropped when the test ends.
func Shared(t *testing.T, nodes []Server, clock func() time.Time) (table string, stores []runtime.Store) {
	t.Helper()
	table = NewTable()
	stores = []runtime.Store{nodes[0].StoreIn(t, nodes[0].Open(t), table, clock)}
	for _, s := range nodes[1:] {
		stores = append(stores, s.Join(t, s.Open(t), table, clock))
	}
	return table, stores
}

// Join returns a store in a table that another node has created, as soon as the table is replicated.
func (s Server) Join(t *testing.T, db *sql.DB, table string, clock func() time.Time) *sqlstore.Store {
	t.Helper()
	store := s.StoreWith(t, db, sqlstore.Options{Table: table, Clock: clock})
	require.Eventually(t, func() bool { return store.Ready(context.Background()) == nil },
		time.Minute, 10*time.Millisecond, "%s has no table %s", s.Name, table)
	return store
}
