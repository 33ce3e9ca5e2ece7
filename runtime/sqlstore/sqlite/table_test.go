package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// TestTableDiffers finds tables in which counts would not be exact, or could not be kept at all.
func TestTableDiffers(t *testing.T) {
	ddl, err := sqlstore.SQLite.DDL("")
	require.NoError(t, err)
	for _, row := range []struct{ was, is, says string }{
		{"	prev  REAL    NOT NULL,\n", "", "prev is missing"},
		{"value REAL", "value INTEGER", `value is "integer" instead of "real"`},
		{"value REAL", "value TEXT", `value is "text" instead of "real"`},
		{"ts    INTEGER", "ts REAL", `ts is "real" instead of "integer"`},
		{`"key" TEXT`, `"key" TEXT COLLATE NOCASE`, `key is "text collate NOCASE" instead of "text"`},
		{",\n	PRIMARY KEY (name, \"key\", shard)\n) WITHOUT ROWID", ")", "primary key is missing"},
		{`PRIMARY KEY (name, "key", shard)`, "PRIMARY KEY (name, shard)", `primary key is "name, shard" instead of "name, key, shard"`},
	} {
		t.Run(row.says, func(t *testing.T) {
			require.Contains(t, ddl, row.was)
			path := filepath.Join(t.TempDir(), "limits.db")
			db, err := sql.Open("sqlite", "file:"+path)
			require.NoError(t, err)
			defer db.Close()
			_, err = db.Exec(strings.Replace(ddl, row.was, row.is, 1))
			require.NoError(t, err)

			_, err = sqlite.Open(path)
			assert.ErrorContains(t, err, `change table "rate_limits" to what "ratelimitgen sql -dialect sqlite" prints: `+row.says)
			s, err := sqlstore.New(db, sqlstore.SQLite, sqlstore.Options{})
			require.NoError(t, err)
			defer s.Close()
			err = runtime.NewLimiter(s).Limit(told, runtime.Key{}).Require(t.Context())
			assert.ErrorContains(t, err, `limit "told": change table "rate_limits" to what`)
			assert.ErrorContains(t, err, row.says)
		})
	}
}

// unchecked is a dialect that says nothing of what the table must be.
func unchecked() sqlstore.Dialect {
	d := sqlstore.SQLite
	d.Describe, d.Parts = "", ""
	return d
}

// TestUnchecked uses a table without a check before, and says what the database says when it cannot.
func TestUnchecked(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "limits.db"))
	require.NoError(t, err)
	defer db.Close()
	s, err := sqlstore.New(db, unchecked(), sqlstore.Options{})
	require.NoError(t, err)
	limit := runtime.NewLimiter(s).Limit(told, runtime.Key{})
	assert.ErrorContains(t, limit.Require(t.Context()), `limit "told": there is no table "rate_limits": call Migrate, or run what "ratelimitgen sql -dialect sqlite" prints: SQL logic error: no such table`)
	require.NoError(t, s.Migrate(t.Context()))
	require.NoError(t, s.Ready(t.Context()))
	assert.NoError(t, limit.Require(t.Context()))
}
