package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// rig is a store with a second connection to its file, by which a test reads and writes rows.
type rig struct {
	store *sqlite.Store
	clock *storetest.Clock
	db    *sql.DB
}

func newRig(t testing.TB) *rig {
	r := &rig{clock: storetest.NewClock()}
	path := filepath.Join(t.TempDir(), "limits.db")
	var err error
	r.store, err = sqlite.OpenWith(path, sqlstore.Options{Clock: r.clock.Now})
	require.NoError(t, err)
	r.db, err = sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.db.Close())
		require.NoError(t, r.store.Close())
	})
	return r
}

// subject is what is compared with the pure step.
func (r *rig) subject() agree.Subject {
	return agree.Subject{Store: r.store, DB: r.db, Dialect: sqlstore.SQLite, Table: sqlstore.DefaultTable, Clock: r.clock}
}
