package livetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/review/reviewtest"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// Whoever runs the SQL that "ratelimitgen diff" prints for a rename or an edit of a key keeps every block.
func TestSQLOfReviewsKeepsBlocks(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		table, db := newTable(), s.open(t)
		require.NoError(t, s.storeIn(t, db, table, nil).Migrate(t.Context(), overridable()))
		open := func(t *testing.T) *sqlstore.Store {
			store := s.storeWith(t, db, sqlstore.Options{Table: table})
			return store
		}
		reviewtest.Blocks(t, db, s.dialect.Name, table, open)
		reviewtest.Plans(t, db, s.dialect.Name, table, open)
		reviewtest.Rename(t, db, s.dialect.Name, table, open)
	})
}
