package views_test

import (
	"database/sql"
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/gen/views"
	"github.com/ratelimitgen/ratelimitgen/gen/views/viewstest"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

var instants = flag.Int("instants", 1000, "compare the views with the runtime at `N` instants")

func openSQLite(t *testing.T) *sql.DB {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "limits.db"))
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func TestViewsEqualPeekOnSQLite(t *testing.T) {
	viewstest.Run(t, openSQLite(t), sqlstore.SQLite, "rate_limits", *instants)
}

// Whoever queries a view while it is replaced finds the view before or the one after.
func TestViewsAreReplacedAtOnceOnSQLite(t *testing.T) {
	file, diagnostics := spec.Parse("limits.yaml", []byte("version: 1\nlimits: {a: {key: k, kind: token bucket, rate: 1, period: 1m}}\n"))
	require.Empty(t, diagnostics)
	text, err := views.SQL(file, views.Options{Dialect: sqlstore.SQLite})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "limits.db")
	open := func() *sql.DB {
		db, err := sql.Open("sqlite", path+"?_pragma=journal_mode(wal)")
		require.NoError(t, err)
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { db.Close() })
		return db
	}
	writer, reader := open(), open()
	ddl, err := sqlstore.SQLite.DDL("rate_limits")
	require.NoError(t, err)
	_, err = writer.Exec(ddl + ";" + text)
	require.NoError(t, err)
	for _, statement := range viewstest.Statements(text) {
		_, err := writer.Exec(statement)
		require.NoError(t, err)
		var n int
		require.NoError(t, reader.QueryRow("SELECT COUNT(*) FROM rate_limits_now").Scan(&n), statement)
	}
}

func TestViewsUsePrimaryKeyOnSQLite(t *testing.T) {
	viewstest.Explain(t, openSQLite(t), sqlstore.SQLite, "rate_limits")
}

func TestViewsReadTheClockOnSQLite(t *testing.T) {
	viewstest.Clock(t, openSQLite(t), sqlstore.SQLite, "rate_limits")
}
