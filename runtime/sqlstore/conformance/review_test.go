package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/review/reviewtest"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// Whoever runs the SQL that "ratelimitgen diff" prints for a rename or an edit of a key keeps every block.
func TestSQLOfReviewsKeepsBlocks(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		table, db := live.NewTable(), s.Open(t)
		require.NoError(t, s.StoreIn(t, db, table, nil).Migrate(t.Context(), live.Overridable()))
		open := func(t *testing.T) *sqlstore.Store {
			store := s.StoreWith(t, db, sqlstore.Options{Table: table})
			return store
		}
		reviewtest.Blocks(t, db, s.Dialect.Name, table, open)
		reviewtest.Plans(t, db, s.Dialect.Name, table, open)
		reviewtest.Rename(t, db, s.Dialect.Name, table, open)
	})
}
