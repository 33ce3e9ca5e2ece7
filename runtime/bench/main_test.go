package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nowhere is servers that do not answer.
var nowhere = servers{
	postgres: "postgres://postgres@127.0.0.1:1/test?sslmode=disable",
	mariadb:  "root@tcp(127.0.0.1:1)/test",
	mysqlDB:  "root@tcp(127.0.0.1:1)/test",
	redisDB:  "redis://127.0.0.1:1/0",
}

func TestContendersInTheProcessDecide(t *testing.T) {
	for _, c := range contenders {
		if c.server != "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := &site{servers: nowhere, dir: t.TempDir(), rows: 10}
			require.Equal(t, []bool{true, true, true}, verdictsOf(t, c, s, plenty))
			want := []bool{true, false, false}
			if c.kind == floor {
				want = []bool{true, true, true}
			}
			require.Equal(t, want, verdictsOf(t, c, s, exhausted))
		})
	}
}

// verdictsOf takes three tokens of one key.
func verdictsOf(t *testing.T, c contender, s *site, l limit) (allowed []bool) {
	o, err := c.open(t.Context(), s, l)
	require.NoError(t, err)
	defer o.close()
	for range 3 {
		ok, err := o.take(t.Context(), keyOf(3))
		require.NoError(t, err)
		allowed = append(allowed, ok)
	}
	return allowed
}

// brieflyOf is a plan of one short heat of all contenders.
func brieflyOf(turns int) plan {
	return plan{
		heats: []heat{{2, 10, allNames()}}, turns: turns, idleKeys: 1000, bigTable: 2000,
		pace: pace{leadIn: time.Millisecond, length: 50 * time.Millisecond, stride: 1},
	}
}

func TestContendersWithoutServerAreReportedAndOthersRun(t *testing.T) {
	r := report{NotRun: map[string]string{}}
	p := brieflyOf(3)
	require.NoError(t, r.measure(t.Context(), &site{servers: nowhere, dir: t.TempDir(), rows: p.maxKeys()}, p))
	for _, c := range contenders {
		cell, why := r.cell(c.name, 2, 10), r.NotRun[c.name]
		if c.server != "" {
			require.Nil(t, cell, c.name)
			require.NotEmpty(t, why, c.name)
			continue
		}
		require.Empty(t, why, c.name)
		require.NotNil(t, cell, c.name)
		require.Len(t, cell.Turns, 3)
		require.Positive(t, cell.PerSecond)
		require.LessOrEqual(t, cell.P50, cell.P99)
		require.Zero(t, cell.Failed)
	}
	require.Equal(t, 1.0, r.Tallies[floorSQLite].Trips, "a bare upsert is one statement")
	require.Greater(t, r.Tallies[xTimeRate].BytesPerKey, float64(len(keyOf(0))), "its map keeps the keys")
	require.Len(t, r.Growth, 1)

	path := filepath.Join(t.TempDir(), "bench.json")
	require.NoError(t, writeJSON(path, r))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var read report
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, r, read)
	require.Contains(t, r.markdown(), "| redis_rate | not run: ")
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := report{NotRun: map[string]string{}}
	require.ErrorIs(t, r.measure(ctx, &site{servers: nowhere, dir: t.TempDir()}, brieflyOf(3)), context.Canceled)
	require.Empty(t, r.Cells)
}

func TestServersAreMovedToAnotherAddress(t *testing.T) {
	s := servers{
		postgres: "postgres://user:secret@db/app?sslmode=disable",
		mariadb:  "user:secret@tcp(db:3307)/app?parseTime=true",
		redisDB:  "redis://:secret@db:6380/5",
	}
	for _, c := range []struct {
		of      server
		address string
		moved   string
	}{
		{postgres, "db:5432", "postgres://user:secret@127.0.0.1:1/app?sslmode=disable"},
		{mariadb, "db:3307", "user:secret@tcp(127.0.0.1:1)/app?parseTime=true"},
		{redisDB, "db:6380", "redis://:secret@127.0.0.1:1/5"},
	} {
		address, err := s.address(c.of)
		require.NoError(t, err)
		require.Equal(t, c.address, address)
		moved, err := s.through(c.of, "127.0.0.1:1")
		require.NoError(t, err)
		require.Equal(t, c.moved, moved[c.of])
		require.NotEqual(t, s[c.of], moved[c.of], "the original is not changed")
	}
}

func TestServerWithoutDataSourceNameIsAnError(t *testing.T) {
	_, err := servers{}.address(mysqlDB)
	require.EqualError(t, err, "MySQL has no data source name")
}
