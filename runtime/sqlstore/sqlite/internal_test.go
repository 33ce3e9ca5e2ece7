package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	driver "modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// TestPrepareAgain has the second statement fail, whose text is longer than the database takes: the first is not
// prepared once more by each call that follows.
func TestPrepareAgain(t *testing.T) {
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
	text, err := sqlstore.SQLite.Text(takeOne, "")
	require.NoError(t, err)
	limit(len(text) + 10)
	assert.ErrorContains(t, s.taker.prepare(), "too big")
	one := s.taker.one
	assert.NotNil(t, one)
	assert.Error(t, s.taker.prepare())
	assert.Same(t, one, s.taker.one)
	limit(1_000_000)
	assert.NoError(t, s.taker.prepare())
	assert.Same(t, one, s.taker.one)
}

// DropConnections has the pool close its connection.
func DropConnections(s *Store) {
	s.db.SetMaxIdleConns(-1)
	s.db.SetMaxIdleConns(1)
}
