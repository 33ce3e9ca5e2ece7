package agree

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

var logType = map[string]string{"sqlite": "BLOB", "postgres": "BYTEA", "mariadb": "BLOB", "mysql": "BLOB"}

// Formats opens tables that earlier versions have written, as testdata/formats has them: they are refused, and those with the
// present meaning are exactly what they were after the statement that the error names.
func Formats(t *testing.T, subject Subject, open func(t *testing.T, o sqlstore.Options) *sqlstore.Store) {
	s, ctx := programs{t, subject, open}, t.Context()
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
	store := func() *sqlstore.Store { return open(t, sqlstore.Options{Table: s.Table, Clock: s.Clock.Now}) }
	require.NoError(t, store().Migrate(ctx))
	for commit, upgrades := range map[string]bool{"c686c6b": false, "6003a5e": true} {
		text, err := os.ReadFile("../../../testdata/formats/" + commit + ".json")
		require.NoError(t, err)
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
		s.exec("DELETE FROM " + s.Table)
		s.exec("ALTER TABLE " + s.Table + " RENAME COLUMN at_ns TO ts")
		s.exec("ALTER TABLE " + s.Table + " DROP COLUMN log")
		for _, r := range dump.Rows {
			_, err := s.DB.Exec(s.sql("INSERT INTO "+s.Table+" (name, {key}, shard, value, ts, prev) VALUES (?, ?, ?, ?, ?, ?)"), r.Name, r.Key, r.Shard, r.Value, r.TS, r.Prev)
			require.NoError(t, err)
		}
		peek := func(store *sqlstore.Store, p *runtime.Policy) (runtime.Answer, error) {
			answers, err := store.Do(ctx, []runtime.Call{{Requests: []runtime.Request{{Op: runtime.Peek, Policy: p, Key: "k"}}}})
			return append(answers, runtime.Answer{})[0], err
		}
		refused := store()
		require.ErrorContains(t, refused.Migrate(ctx, policies...), "is that of a version before v0.1.0")
		for _, p := range policies {
			_, err := peek(refused, p)
			require.ErrorContains(t, err, "is that of a version before v0.1.0", "%s of %s", p.Name, commit)
		}
		s.exec("ALTER TABLE " + s.Table + " RENAME COLUMN ts TO at_ns")
		s.exec("ALTER TABLE " + s.Table + " ADD COLUMN log " + logType[s.Dialect.Name])
		if !upgrades {
			continue
		}
		upgraded := store()
		require.NoError(t, upgraded.Migrate(ctx, policies...))
		require.NoError(t, upgraded.Ready(ctx, policies...))
		for _, p := range policies {
			a, err := peek(upgraded, p)
			require.NoError(t, err)
			require.NoError(t, a.Err)
			assert.Equal(t, dump.Left[p.Name], a.Decisions[0].Value, "%s of %s", p.Name, commit)
		}
	}
}
