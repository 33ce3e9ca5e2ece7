package views_test

import (
	"database/sql"
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

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

func TestViewsUsePrimaryKeyOnSQLite(t *testing.T) {
	viewstest.Explain(t, openSQLite(t), sqlstore.SQLite, "rate_limits")
}

func TestViewsReadTheClockOnSQLite(t *testing.T) {
	viewstest.Clock(t, openSQLite(t), sqlstore.SQLite, "rate_limits")
}
