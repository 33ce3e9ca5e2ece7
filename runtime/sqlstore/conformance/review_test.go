package conformance

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// Whoever runs the SQL that "ratelimitgen diff" prints for a rename or an edit of a key keeps every block.
func TestSQLOfReviewsKeepsBlocks(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		table, db := live.NewTable(), s.Open(t)
		require.NoError(t, s.StoreIn(t, db, table, nil).Migrate(t.Context(), live.Overridable()))
		testSQLOfReviews(t, db, s.Dialect.Name, table, func(t *testing.T) *sqlstore.Store {
			return s.StoreWith(t, db, sqlstore.Options{Table: table})
		})
	})
}

func TestSQLOfReviewsKeepsBlocksOnSQLite(t *testing.T) {
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
	testSQLOfReviews(t, db, "sqlite", "rate_limits", open)
}

func testSQLOfReviews(t *testing.T, db *sql.DB, dialect, table string, open func(t *testing.T) *sqlstore.Store) {
	reviewKeepsBlocks(t, db, dialect, table, open)
	reviewKeepsPlans(t, db, dialect, table, open)
	reviewRenames(t, db, dialect, table, open)
}
