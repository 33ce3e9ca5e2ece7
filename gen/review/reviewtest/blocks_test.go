package reviewtest_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/review/reviewtest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

func TestSQLKeepsBlocksOnSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	open := func(t *testing.T) *sqlstore.Store {
		store, err := sqlite.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { store.Close() })
		return store.Store
	}
	p := &runtime.Policy{Name: "any", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1}
	require.NoError(t, open(t).Migrate(t.Context(), p), "which creates the tables")
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	defer db.Close()
	reviewtest.Blocks(t, db, "sqlite", "rate_limits", open)
	reviewtest.Plans(t, db, "sqlite", "rate_limits", open)
	reviewtest.Rename(t, db, "sqlite", "rate_limits", open)
}
