package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	driver "modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// The second statement fails because its text is longer than the database accepts. If each call then prepared the first one
// again, it would leave the one before open.
func TestFailedPrepareKeepsTheFirstStatement(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "limits.db"))
	require.NoError(t, err)
	defer s.Close()
	limit := func(length int) {
		conn, err := s.db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		const sqlLength = 1 // SQLITE_LIMIT_SQL_LENGTH
		_, err = driver.Limit(conn, sqlLength, length)
		require.NoError(t, err)
	}
	prepare := func() error {
		s.upserter.mu.Lock()
		defer s.upserter.mu.Unlock()
		return s.upserter.prepareLocked()
	}
	text, err := dialect.SQLite.Text(upsertOne, "")
	require.NoError(t, err)
	limit(len(text) + 10)
	assert.ErrorContains(t, prepare(), "too big")
	one := s.upserter.one
	assert.NotNil(t, one)
	assert.Error(t, prepare())
	assert.Same(t, one, s.upserter.one)
	limit(1_000_000)
	assert.NoError(t, prepare())
	assert.Same(t, one, s.upserter.one)
}

func TestErrorOfAMissingCallRecordDoesNotContainTheKey(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer db.Close()
	c := new(callRecord)
	n := addRecord(c)
	defer records.Delete(n)
	c.begin([]meter.RowUpsert{{Row: runtime.Row{Key: "another"}}})
	err = db.QueryRow("SELECT ratelimitgen_take(?, 'ada@example.com', 1.0, 1, 0.0)", n).Scan(new(int))
	require.ErrorContains(t, err, "the statement's key is not in its call record; this is a bug in ratelimitgen")
	assert.NotContains(t, err.Error(), "ada")
}

// DropConnections makes the pool close its connection.
func DropConnections(s *Store) {
	s.db.SetMaxIdleConns(-1)
	s.db.SetMaxIdleConns(1)
}
