package sqlite_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// Files of earlier versions, as testdata/formats has them, are refused, and those with rows of another meaning also after
// the statements. Rows with the present meaning are exactly as they were after the statements that the error names. Package
// agree has the statements of servers.
func TestFormats(t *testing.T) {
	const day = 24 * time.Hour
	bucket := func(name string, maxReserved int64) *runtime.Policy {
		return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 10, Period: day, Capacity: 10, MaxReserved: maxReserved}
	}
	window := func(name string, kind runtime.Kind) *runtime.Policy {
		return &runtime.Policy{Name: name, Kind: kind, Rate: 10, Period: day, Capacity: 10, Start: runtime.StartOffset(0)}
	}
	policies := []*runtime.Policy{
		bucket("used up", 0), bucket("partly used", 0), bucket("reserved", 10), window("windowed", runtime.FixedWindow), window("sliding", runtime.SlidingWindow),
		{Name: "precise", Kind: runtime.SlidingWindow, Rate: 10, Period: day, Capacity: 10, Precise: true},
	}
	for commit, upgrades := range map[string]bool{"c686c6b": false, "6003a5e": true} {
		text := must(os.ReadFile("../../../testdata/formats/" + commit + ".json"))(t)
		var dump struct {
			Rows []struct {
				Name, Key string
				Shard     int
				Value     float64
				TS        int64
				Prev      float64
			}
			Left map[string]float64
		}
		require.NoError(t, json.Unmarshal(text, &dump))
		path := filepath.Join(t.TempDir(), "limits.db")
		db := database(t, path)
		must(db.Exec(`CREATE TABLE rate_limits (name TEXT NOT NULL, key TEXT NOT NULL, shard INTEGER NOT NULL, value REAL NOT NULL,
			ts INTEGER NOT NULL, prev REAL NOT NULL, PRIMARY KEY (name, key, shard)) WITHOUT ROWID`))(t)
		for _, r := range dump.Rows {
			must(db.Exec("INSERT INTO rate_limits VALUES (?, ?, ?, ?, ?, ?)", r.Name, r.Key, r.Shard, r.Value, r.TS, r.Prev))(t)
		}
		_, err := sqlite.Open(path)
		require.ErrorContains(t, err, `"rate_limits" is that of a version before v0.1.0`)
		must(db.Exec("ALTER TABLE rate_limits RENAME COLUMN ts TO at_ns; ALTER TABLE rate_limits ADD COLUMN log BLOB"))(t)
		if !upgrades {
			// The statements were run although an older version has written the table.
			store := must(agree.NewCreatingStore(db, dialect.SQLite, sqlstore.Options{}))(t)
			_, opened := sqlite.Open(path)
			for name, err := range map[string]error{
				"Migrate": store.Migrate(t.Context(), policies...), "Adopt": store.Adopt(t.Context(), policies...),
				"Ready": store.Ready(t.Context(), policies...), "Open": opened,
				"first use": limiter.New(store).Limit(policies[0], runtime.KeyOf(runtime.String("k"))).Require(t.Context()),
			} {
				require.ErrorIs(t, err, runtime.ErrForeignCounts, name)
				require.ErrorContains(t, err, `table "rate_limits" has rows that a version before 23 November 2026 has written`, name)
			}
			require.NoError(t, store.Close())
			must(db.Exec("DELETE FROM rate_limits WHERE value > 0"))(t)
		}
		upgraded := must(sqlite.OpenWith(path, sqlstore.Options{Clock: storetest.NewClock().Now}))(t)
		defer upgraded.Close()
		require.NoError(t, upgraded.Migrate(t.Context(), policies...))
		require.NoError(t, upgraded.Ready(t.Context(), policies...))
		if !upgrades {
			continue
		}
		for _, p := range policies {
			answers := must(upgraded.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{{Op: runtime.Peek, Policy: p, Key: "k"}}}}))(t)
			require.NoError(t, answers[0].Err)
			assert.Equal(t, dump.Left[p.Name], answers[0].Decisions[0].Value, p.Name)
		}
	}
}
