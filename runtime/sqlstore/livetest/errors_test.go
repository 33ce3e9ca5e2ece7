package livetest

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// visit returns a store in a table that there may be.
func (s server) visit(t *testing.T, table string) *sqlstore.Store {
	t.Helper()
	db, err := sql.Open(s.driver, s.dsn)
	require.NoError(t, err)
	store, err := sqlstore.New(db, s.dialect, sqlstore.Options{Table: table})
	require.NoError(t, err)
	t.Cleanup(func() {
		store.Close()
		db.Close()
	})
	return store
}

// refuses requires that each way to begin to use a server says what is wrong and what to do.
func (s server) refuses(t *testing.T, table, says string) {
	t.Helper()
	store := s.visit(t, table)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	said(t, store.Ready(ctx), says)
	said(t, take(ctx, store), says)
	said(t, take(ctx, store), `limit "limit": `)
}

// said requires that an error says something, and keeps what the driver has said.
func said(t *testing.T, err error, says string) {
	t.Helper()
	assert.ErrorContains(t, err, says)
	assert.True(t, fromDriver(err), "%v", err)
	t.Log(err)
}

func take(ctx context.Context, store *sqlstore.Store) error {
	return runtime.NewLimiter(store).Limit(once("limit", 100), runtime.Key{}).Require(ctx)
}

func sweep(ctx context.Context, store *sqlstore.Store) error {
	_, err := store.Sweep(ctx, once("limit", 1))
	return err
}

// fromDriver reports whether there is an error of a driver, or of the network, behind an error.
func fromDriver(err error) bool {
	return errors.As(err, new(*pgconn.PgError)) || errors.As(err, new(*pq.Error)) ||
		errors.As(err, new(*mysql.MySQLError)) || errors.As(err, new(*net.OpError)) ||
		errors.As(err, new(*net.DNSError))
}

// TestWrongAddress says that there is no server.
func TestWrongAddress(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		closed := listener.Addr().String()
		require.NoError(t, listener.Close())
		for _, address := range []string{closed, "no-such-host.invalid:5432"} {
			s.dsn, _ = redirect(t, s, address)
			s.refuses(t, "", "the database server cannot be reached: check host and port")
		}
	})
}

// TestWrongDatabase says that there is no such database.
func TestWrongDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		s.database(t, "rl_no_such").refuses(t, "", "there is no such database: create it, or name another")
	})
}

// TestWrongUser says that the server does not know the user.
func TestWrongUser(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		s.as(t, "rl_nobody", "secret").refuses(t, "", "the server refuses the database user: check user and password")
	})
}

// TestWrongDialect says that a store was given the dialect of another database.
func TestWrongDialect(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		wrong := map[string]sqlstore.Dialect{"postgres": sqlstore.MySQL, "mysql": sqlstore.Postgres}
		s.dialect = wrong[s.protocol()]
		s.refuses(t, "", "the database does not understand the dialect "+s.dialect.Name)
	})
}

// TestMissingSchema says that Migrate creates no schema.
func TestMissingSchema(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		store, err := sqlstore.New(s.open(t), s.dialect, sqlstore.Options{Table: "rl_no_such.quotas"})
		require.NoError(t, err)
		says := map[string]string{
			"postgres": `there is no schema for table "rl_no_such.quotas": create it`,
			"mysql":    `there is no such database: create it`,
		}
		err = store.Migrate(t.Context())
		assert.ErrorContains(t, err, says[s.protocol()])
		assert.ErrorContains(t, err, `create table "rl_no_such.quotas": `)
		assert.True(t, fromDriver(err))
	})
}

// TestReadOnlyTransactions has connections whose transactions only read, as some hosts set them when a disk is
// full. (By lib/pq, those that the store begins write nevertheless.)
func TestReadOnlyTransactions(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		table := newTable()
		s.storeIn(t, db, table, nil)
		s = s.with(s.word("readOnly") + "=1")
		if s.driver == "postgres" {
			require.NoError(t, s.visit(t, table).Ready(t.Context()))
			return
		}
		s.refuses(t, table, readOnly)
	})
}

// readOnly is what is said of a server that only reads.
const readOnly = "is read-only: taking tokens writes to the table, so connect to the primary server"
