package conformance

import (
	"context"
	"database/sql"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// A flood of requests for keys with a penalty writes nothing, not even a lock. There are more keys than a store remembers to
// have been denied.
func TestFloodDuringPenaltyWritesNothing(t *testing.T) {
	const keys, rounds = 500, 5
	onEach(t, func(t *testing.T, s live.Server) {
		if s.Protocol() == "postgres" {
			db := s.Open(t)
			table := live.NewTable()
			limits := limiter.New(s.StoreIn(t, db, table, nil))
			// So long that no window of the keys, which begin at different instants, ends during the test.
			for _, p := range []*runtime.Policy{
				{Name: "bucket", Kind: runtime.TokenBucket, Rate: 1, Capacity: 1, Period: runtime.MaxPeriod},
				{Name: "window", Kind: runtime.FixedWindow, Rate: 1, Capacity: 1, Period: runtime.MaxPeriod},
				{Name: "sliding", Kind: runtime.SlidingWindow, Rate: 1, Capacity: 1, Period: runtime.MaxPeriod},
				{Name: "precise", Kind: runtime.SlidingWindow, Rate: 1, Capacity: 1, Period: runtime.MaxPeriod, Precise: true},
			} {
				p.Penalty = runtime.PenaltyOf(0, 2*time.Hour)
				flood := func(allowed bool) {
					var wg sync.WaitGroup
					for i := range keys {
						wg.Go(func() {
							d, err := limits.Limit(p, runtime.KeyOf(runtime.Int(i))).Allow(context.Background())
							assert.NoError(t, err)
							assert.Equal(t, allowed, d.Allowed)
						})
					}
					wg.Wait()
				}
				begins := walBytes(t, db)
				flood(true)
				flood(false) // starts the penalties
				started := walBytes(t, db) - begins
				require.Greater(t, started, int64(keys*20))
				untouched := versions(t, db, table)
				// Other databases of the server write too, but not in every round.
				least := int64(math.MaxInt64)
				for begun, n := time.Now(), 0; n < rounds || least > 0 && time.Since(begun) < time.Minute; n++ {
					before := walBytes(t, db)
					flood(false)
					least = min(least, walBytes(t, db)-before)
				}
				t.Logf("%s: %d bytes of WAL for %d takes and as many penalties, then at least %d for %d denied requests", p.Name, started, keys, least, keys)
				assert.Zero(t, least, p.Name)
				assert.Equal(t, untouched, versions(t, db, table), "rows of %s were written or locked", p.Name)
			}
		}
	})
}

// walBytes returns how many bytes the server has ever written to its write-ahead log.
func walBytes(t *testing.T, db *sql.DB) (bytes int64) {
	t.Helper()
	require.NoError(t, db.QueryRow("SELECT CAST(pg_current_wal_insert_lsn() - '0/0' AS bigint)").Scan(&bytes))
	return bytes
}

// versions returns which transactions have written and locked the rows of a table last.
func versions(t *testing.T, db *sql.DB, table string) (all string) {
	t.Helper()
	require.NoError(t, db.QueryRow("SELECT md5(string_agg(CAST(ctid AS text) || ' ' || xmin || ' ' || xmax, ',' ORDER BY ctid)) FROM "+table).Scan(&all))
	return all
}
