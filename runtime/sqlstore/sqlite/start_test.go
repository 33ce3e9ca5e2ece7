package sqlite_test

import (
	"bytes"
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// A mode that makes limits less strict is seen in the log, whether the limiter is made before the start or after it.
func TestStartLogsTheMode(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer slog.SetDefault(before)
	for _, row := range []struct {
		mode   runtime.Mode
		logged string
	}{
		{runtime.ModeEnforce, ""},
		{runtime.ModeShadow, `level=WARN msg="rate limits: no limit is stricter than limiter.Mode" mode=shadow`},
		{runtime.ModeOff, `level=WARN msg="rate limits: no limit is stricter than limiter.Mode" mode=off`},
	} {
		for _, before := range []bool{true, false} {
			logged.Reset()
			store := must(sqlite.Open(filepath.Join(t.TempDir(), "limits.db")))(t)
			if before {
				limiter.New(store, limiter.Mode(row.mode))
			}
			require.NoError(t, store.Start(t.Context()))
			if !before {
				limiter.New(store, limiter.Mode(row.mode))
			}
			require.NoError(t, store.Close())
			assert.Contains(t, logged.String(), row.logged)
			assert.Equal(t, row.logged != "", strings.Count(logged.String(), "\n") == 1, "one line")
		}
	}
}

// A program that starts its store does nothing else for it. The second one here is its next version, without one of the
// limits.
func TestStartMigratesChecksAndSweeps(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.db")
		kept := &runtime.Policy{Name: "kept", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10}
		removed := *kept
		removed.Name, removed.Overrides = "removed", runtime.OverrideBounds{Rate: 10, Capacity: 10}

		store := must(sqlite.Open(path))(t)
		require.NoError(t, store.Start(t.Context(), kept, &removed))
		limits := limiter.New(store)
		require.NoError(t, limits.Limit(kept, runtime.Key{}).Require(t.Context()))
		must(limits.Overrides(&removed, runtime.Key{}).Block(t.Context(), runtime.Block{Until: runtime.ForGood(), Reason: "spam", Author: "ann"}))(t)
		require.NoError(t, store.Close())
		require.Empty(t, logged.String())

		next := must(sqlite.Open(path))(t)
		require.NoError(t, next.Start(t.Context(), kept), "a block without effect stops no program")
		assert.Contains(t, logged.String(), `level=WARN msg="rate limits: blocks or overrides without effect"`)
		assert.Contains(t, logged.String(), `limit \"removed\" is not among the policies`)
		logged.Reset()
		rows := func() (n int) {
			db := must(sql.Open("sqlite", path))(t)
			defer db.Close()
			require.NoError(t, db.QueryRow("SELECT count(*) FROM rate_limits").Scan(&n))
			return n
		}
		require.Equal(t, 1, rows())
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		require.Zero(t, rows(), "swept when it had been full for an hour")
		require.Empty(t, logged.String())

		db := must(sql.Open("sqlite", path))(t)
		must(db.Exec("DROP TABLE rate_limits"))(t)
		require.NoError(t, db.Close())
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Contains(t, logged.String(), `level=ERROR msg="rate limits: sweep"`)
		require.NoError(t, next.Close(), "and nothing sweeps after it, or the bubble would not end")
		require.ErrorIs(t, next.Start(t.Context(), kept), runtime.ErrClosed)
	})
}
