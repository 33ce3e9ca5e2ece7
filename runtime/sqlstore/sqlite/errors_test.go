package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

func TestOpenNamesTheProblemWithAPath(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text.db")
	require.NoError(t, os.WriteFile(text, []byte("This is a text and not a database, and long enough to notice."), 0o644))
	for _, c := range []struct{ path, want string }{
		{"", `open rate limits in "": the path is empty`},
		{filepath.Join(folder, "a\x00b"), "the path has a NUL byte in it"},
		{":memory:\x00", "the path has a NUL byte in it"},
		{filepath.Join(folder, "a.db") + "/", "the path ends in a slash"},
		{folder, "it is not a regular file"},
		{filepath.Join(folder, "no", "such", "limits.db"), "its directory must exist and be accessible: stat " + filepath.Join(folder, "no", "such") + ": no such file or directory"},
		{filepath.Join("/proc", "limits.db"), "unable to open database file"},
		{text, "file is not a database"},
	} {
		s, err := sqlite.Open(c.path)
		assert.ErrorContains(t, err, c.want)
		assert.Nil(t, s)
	}
	_, err := sqlite.OpenWith(":memory:", sqlstore.Options{Table: `limits"; DROP TABLE users; --`})
	assert.ErrorContains(t, err, "only letters, digits and underscores")
}

func TestOpenHostilePaths(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a b.db", "what?.db", "100%.db", "%41.db", "#.db", "a&b=c.db", "é😀.db", "file:x.db", "?_pragma=x"} {
		for _, path := range []string{filepath.Join(folder, name), "/" + filepath.Join(folder, name+" of two slashes")} {
			s, err := sqlite.Open(path)
			require.NoError(t, err, "%q", path)
			require.NoError(t, s.Close())
			assert.FileExists(t, path)
		}
	}
}

// The paths are URIs or names of databases in memory to SQLite, and the process leaves their folder while they are open.
func TestOpenRelativePaths(t *testing.T) {
	folder := t.TempDir()
	for _, path := range []string{"./:memory:", "file:x.db", "file::memory:", "file:x.db?mode=memory", "-", "a\nb"} {
		t.Chdir(folder)
		s, err := sqlite.Open(path)
		require.NoError(t, err, "%q", path)
		t.Chdir(t.TempDir())
		assert.NoError(t, s.Ready(t.Context()), "%q", path)
		require.NoError(t, s.Close())
		assert.FileExists(t, filepath.Join(folder, path))
	}
}

func TestClosedStoreReturnsErrClosed(t *testing.T) {
	for _, path := range []string{":memory:", filepath.Join(t.TempDir(), "limits.db")} {
		s := opened(t, path)
		limit := limiter.New(s).Limit(counted, runtime.Key{})
		require.NoError(t, limit.Require(t.Context()))
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		assert.ErrorIs(t, limit.Require(t.Context()), sqlstore.ErrClosed)
		open := *counted
		open.OnError = runtime.FailOpen
		assert.ErrorIs(t, limiter.New(s).Limit(&open, runtime.Key{}).Require(t.Context()), sqlstore.ErrClosed, "a closed store has not failed")
		assert.ErrorIs(t, s.Ready(t.Context()), sqlstore.ErrClosed)
		_, err := s.Sweep(t.Context(), counted)
		assert.ErrorIs(t, err, sqlstore.ErrClosed)
	}
}

func TestReadOnlyDatabaseIsNamedInTheError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := must(sqlite.Open(path))(t)
	require.NoError(t, s.Close())

	db := database(t, "file:"+path+"?mode=ro")
	ro := must(agree.NewStore(db, dialect.SQLite, sqlstore.Options{}))(t)
	d, err := limiter.New(ro).Limit(counted, runtime.Key{}).Allow(t.Context())
	assert.ErrorContains(t, err, `limit "counted": the database file is read-only: `)
	assert.False(t, d.Allowed)
}

func TestMissingTable(t *testing.T) {
	db := database(t, "file:"+filepath.Join(t.TempDir(), "limits.db"))
	s := must(agree.NewStore(db, dialect.SQLite, sqlstore.Options{Table: "main.quotas"}))(t)
	limit := limiter.New(s).Limit(counted, runtime.Key{})
	assert.ErrorContains(t, limit.Require(t.Context()), `there is no table "main.quotas": call Start or Migrate, or run what "ratelimitgen sql -dialect sqlite -table main.quotas" prints; `)
	require.NoError(t, s.Migrate(t.Context()))
	require.NoError(t, s.Migrate(t.Context()), "again")
	assert.NoError(t, limit.Require(t.Context()))
}

// In these tables counts would not be exact, or could not be kept at all.
func TestUnsuitableTablesAreRefused(t *testing.T) {
	ddl := must(dialect.SQLite.DDL(""))(t)
	for _, row := range []struct{ was, is, says string }{
		{"	prev  REAL    NOT NULL,\n", "", "prev is missing"},
		{"value REAL", "value INTEGER", `value is "integer" instead of "real"`},
		{"value REAL", "value TEXT", `value is "text" instead of "real"`},
		{"at_ns INTEGER", "at_ns REAL", `at_ns is "real" instead of "integer"`},
		{`"key" TEXT`, `"key" TEXT COLLATE NOCASE`, `key is "text collate NOCASE" instead of "text"`},
		{",\n	PRIMARY KEY (name, \"key\", shard)\n)", ")", "primary key is missing"},
		{`PRIMARY KEY (name, "key", shard)`, "PRIMARY KEY (name, shard)", `primary key is "name, shard" instead of "name, key, shard"`},
	} {
		t.Run(row.says, func(t *testing.T) {
			require.Contains(t, ddl, row.was)
			path := filepath.Join(t.TempDir(), "limits.db")
			db := database(t, "file:"+path)
			must(db.Exec(strings.Replace(ddl, row.was, row.is, 1)))(t)

			_, err := sqlite.Open(path)
			assert.ErrorContains(t, err, `change table "rate_limits" to what "ratelimitgen sql -dialect sqlite" prints: `+row.says)
			s := must(agree.NewStore(db, dialect.SQLite, sqlstore.Options{}))(t)
			defer s.Close()
			err = limiter.New(s).Limit(counted, runtime.Key{}).Require(t.Context())
			assert.ErrorContains(t, err, `limit "counted": change table "rate_limits" to what`)
			assert.ErrorContains(t, err, row.says)
		})
	}
}

// unchecked is a dialect without requirements for the table.
func unchecked() dialect.Dialect {
	d := dialect.SQLite
	d.Describe, d.Parts = "", ""
	return d
}

func TestTableWithoutCheckFailsWithTheDatabasesError(t *testing.T) {
	db := database(t, "file:"+filepath.Join(t.TempDir(), "limits.db"))
	s := must(agree.NewStore(db, unchecked(), sqlstore.Options{}))(t)
	limit := limiter.New(s).Limit(counted, runtime.Key{})
	err := limit.Require(t.Context())
	assert.ErrorContains(t, err, `limit "counted": there is no table "rate_limits": call Start or Migrate, or run what "ratelimitgen sql -dialect sqlite" prints; `)
	assert.ErrorContains(t, err, ": SQL logic error: no such table")
	require.NoError(t, s.Migrate(t.Context()))
	require.NoError(t, s.Ready(t.Context()))
	assert.NoError(t, limit.Require(t.Context()))
}

// A trigger refuses one key.
func TestRefusedKeyFailsOnlyItsCall(t *testing.T) {
	r := newRig(t)
	must(r.db.Exec(`CREATE TRIGGER guilty BEFORE INSERT ON rate_limits WHEN NEW.key = '` + agree.Guilty + `'
		BEGIN SELECT RAISE(ABORT, 'no'); END`))(t)
	agree.Innocents(t, r.store)
}

// The rows of the first limit are written before the trigger refuses that of the second.
func TestRefusedRowUndoesItsTransaction(t *testing.T) {
	r := newRig(t)
	must(r.db.Exec(`CREATE TRIGGER guilty BEFORE INSERT ON rate_limits WHEN NEW.key = '` + agree.Guilty + `'
		BEGIN SELECT RAISE(ABORT, 'no'); END`))(t)
	limits, second := limiter.New(r.store), *counted
	second.Name = "second"
	guilty := limits.Limit(&second, runtime.KeyOf(runtime.String(agree.Guilty)))
	for range 2 {
		_, err := limits.All(t.Context(), limits.Limit(counted, runtime.Key{}).N(1), guilty.N(1))
		require.ErrorContains(t, err, "no")
		left := must(limits.Limit(counted, runtime.Key{}).Peek(t.Context()))(t)
		assert.Equal(t, counted.Capacity, left.Remaining)
	}
}

// stalled is an decide.Decider whose disk does not respond.
type stalled struct{ healed chan struct{} }

// Decide implements decide.Decider.
func (s stalled) Decide(_ context.Context, b *batch.Batch, now func() int64) (bool, error) {
	<-s.healed
	return b.Run(now(), make([]runtime.State, len(b.Rows()))), nil
}

func TestTimeoutHoldsWhileTheDiskDoesNotRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := stalled{make(chan struct{})}
		store := must(sqlite.OpenDecidedBy(filepath.Join(t.TempDir(), "limits.db"), disk))(t)
		p := *counted
		p.Timeout = 50 * time.Millisecond
		limit := limiter.New(store).Limit(&p, runtime.Key{})
		for range 3 {
			start := time.Now()
			require.ErrorIs(t, limit.Require(context.Background()), context.DeadlineExceeded)
			require.Equal(t, p.Timeout, time.Since(start))
		}
		close(disk.healed)
		synctest.Wait()
		require.NoError(t, store.Close())
	})
}

func TestEndedDatabasesAndTransactionsAreExplained(t *testing.T) {
	db, store := app(t)
	limits := limiter.New(store)
	tx := must(db.Begin())(t)
	require.NoError(t, tx.Rollback())
	err := limits.WithTx(tx).Limit(counted, runtime.Key{}).Require(t.Context())
	assert.ErrorIs(t, err, sql.ErrTxDone)
	assert.ErrorContains(t, err, `limit "counted": the transaction has ended: it was committed or rolled back, or its context has ended: sql: `)
	conn := must(db.Conn(t.Context()))(t)
	require.NoError(t, conn.Close())
	err = limits.WithConn(conn).Limit(counted, runtime.Key{}).Require(t.Context())
	assert.ErrorIs(t, err, sql.ErrConnDone)
	assert.ErrorContains(t, err, `limit "counted": the connection was closed, or returned to its pool: sql: `)
	for range 2 {
		require.NoError(t, db.Close())
		err := limits.Limit(counted, runtime.Key{}).Require(t.Context())
		assert.ErrorContains(t, err, `limit "counted": the *sql.DB was closed: close the store before it, and make no calls afterwards: sql: `)
		open := *counted
		open.OnError = runtime.FailOpen
		assert.ErrorIs(t, limits.Limit(&open, runtime.Key{}).Require(t.Context()), runtime.ErrClosed, "as a closed store, it has not failed")
	}
}

func TestDialectOfAServerIsExplained(t *testing.T) {
	db, _ := app(t)
	for _, d := range dialect.All() {
		if d.Name == dialect.SQLite.Name {
			continue
		}
		s := must(agree.NewStore(db, d, sqlstore.Options{}))(t)
		says := "the database rejects the SQL of dialect " + d.Name + ": pass the database's own dialect to sqlstore.New: "
		assert.ErrorContains(t, s.Ready(t.Context()), says)
		assert.ErrorContains(t, limiter.New(s).Limit(counted, runtime.Key{}).Require(t.Context()), says)
	}
}

// The call waits for the connection of the transaction, or for its lock of the file.
func TestCallOutsideOfItsTransactionIsExplained(t *testing.T) {
	for connections, says := range map[int]string{
		1: "all 1 connections of the *sql.DB are in use: in a transaction, make calls with WithTx(tx), or raise db.SetMaxOpenConns",
		2: "a transaction of RunInTx has been in flight for 2s: if it waits for this call, make the call with WithTx(tx)",
	} {
		synctest.Test(t, func(t *testing.T) {
			db, store := app(t)
			db.SetMaxOpenConns(connections)
			p := *counted
			p.Timeout = 2 * time.Second
			limits := limiter.New(store)
			require.NoError(t, limits.Limit(&p, runtime.Key{}).Require(t.Context()))
			err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
				require.NoError(t, limits.WithTx(tx).Limit(&p, runtime.Key{}).Require(t.Context()))
				return limits.Limit(&p, runtime.Key{}).Require(t.Context())
			})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, says)
			require.NoError(t, store.Close())
			require.NoError(t, db.Close())
		})
	}
}

// Migrate has created the table, in the connection that it had.
func TestDatabaseInMemoryWithAPoolIsExplained(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer db.Close()
	store, err := agree.NewStore(db, dialect.SQLite, sqlstore.Options{})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.Migrate(t.Context()))
	busy, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer busy.Close()
	require.ErrorContains(t, store.Ready(t.Context()), "each connection to a database in memory has its own tables: for :memory:, use package "+
		"sqlite, or db.SetMaxOpenConns(1)")
}
