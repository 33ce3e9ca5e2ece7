package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysAreSpreadOverTheTable(t *testing.T) {
	require.Equal(t, []string{"bench-user-00000000", "bench-user-00000001"}, keysOf(2, 2))
	require.Equal(t, []string{"bench-user-00000000", "bench-user-00000250"}, keysOf(2, 500))
}

func TestTableIsFilledWithTheKeysOfTheLimit(t *testing.T) {
	s := &site{dir: t.TempDir(), rows: 1234}
	table, err := s.openFile(t.Context(), s.newFile(), plenty)
	require.NoError(t, err)
	defer table.drop()
	var keys []string
	rows, err := table.db.Query("SELECT key FROM rate_limits WHERE name = 'plenty' AND shard = 0 AND value = 0 ORDER BY key")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var key string
		require.NoError(t, rows.Scan(&key))
		keys = append(keys, key)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, keysOf(1234, 1234), keys)
}

func TestTableOfTheExhaustedLimitIsEmpty(t *testing.T) {
	s := &site{dir: t.TempDir(), rows: 1000}
	table, err := s.openFile(t.Context(), s.newFile(), exhausted)
	require.NoError(t, err)
	defer table.drop()
	var n int
	require.NoError(t, table.db.QueryRow("SELECT count(*) FROM rate_limits").Scan(&n))
	require.Zero(t, n)
}
