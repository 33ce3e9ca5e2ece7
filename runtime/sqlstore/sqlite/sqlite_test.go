package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// open opens a store in a new file.
func open(t testing.TB, clock func() time.Time) *sqlite.Store {
	t.Helper()
	s, err := sqlite.OpenWith(filepath.Join(t.TempDir(), "limits.db"), sqlstore.Options{Clock: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store { return open(t, clock) })
}

func TestStoreInMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store {
		s, err := sqlite.OpenWith(":memory:", sqlstore.Options{Clock: clock})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	})
}

// TestVectors holds the store to all that the reference implementation has decided.
func TestVectors(t *testing.T) {
	traces, err := os.Open("../../../testdata/convex.jsonl")
	require.NoError(t, err)
	defer traces.Close()
	clock := storetest.NewClock()
	path := filepath.Join(t.TempDir(), "limits.db")
	s, err := sqlite.OpenWith(path, sqlstore.Options{Clock: clock.Now})
	require.NoError(t, err)
	defer s.Close()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()

	stored := func(row runtime.Row) runtime.State {
		s := runtime.State{Exists: true}
		require.NoError(t, db.QueryRow("SELECT value, ts, prev FROM rate_limits WHERE name = ?", row.Name).Scan(&s.Value, &s.TS, &s.Prev))
		return s
	}
	assert.Equal(t, 4800, storetest.Vectors(t, s, clock, stored, traces))
}
