package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// A statement that Postgres has planned while the table was empty, and had no statistics, looks its rows up by the index.
func TestStatementsDoNotReadAllOfANewTable(t *testing.T) {
	for _, s := range named(t, "postgres-pgx", "postgres-pq") {
		t.Run(s.Name, func(t *testing.T) {
			watch, table := s.Open(t), live.NewTable()
			db := s.With("application_name=" + table).Open(t)
			s.StoreIn(t, watch, table, nil) // which drops it
			store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
			readMany(t, store)
			require.NoError(t, store.Close())
			require.NoError(t, db.Close())
			// A session adds what it has scanned to the statistics before it is gone.
			count := func(query, of string) (n int) {
				require.NoError(t, watch.QueryRow(query, of).Scan(&n))
				return n
			}
			require.Eventually(t, func() bool {
				return count("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", table) == 0
			}, 10*time.Second, 10*time.Millisecond)
			require.NotZero(t, count("SELECT idx_scan FROM pg_stat_user_tables WHERE relname = $1", table))
			// The checks of a table read it once.
			require.LessOrEqual(t, count("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = $1", table), 2)
		})
	}
}

// readMany makes batches of calls that read rows, or update them with numbers of their own, so often that the server keeps
// the plans.
func readMany(t *testing.T, store *sqlstore.Store) {
	sliding := &runtime.Policy{Name: "sliding", Kind: runtime.SlidingWindow, Rate: 5, Capacity: 5, Period: time.Hour}
	sharded := &runtime.Policy{Name: "sharded", Kind: runtime.TokenBucket, Rate: 80, Capacity: 80, Period: time.Hour, Shards: 8}
	for round := range 20 {
		for _, op := range []runtime.Op{runtime.Take, runtime.Peek} {
			var calls []runtime.Call
			for i := range 30 {
				plan := &runtime.Policy{Name: "plans", Kind: runtime.TokenBucket, Rate: 5, Capacity: int64(5 + i%2), Period: time.Hour}
				for _, p := range []*runtime.Policy{sliding, sharded, plan} {
					q := runtime.Request{Policy: p, Key: fmt.Sprint(round/2*30 + i), Op: op}
					if op == runtime.Take {
						q.Count = 1
					}
					calls = append(calls, runtime.Call{Requests: []runtime.Request{q}})
				}
			}
			live.Must(store.Do(t.Context(), calls))(t)
		}
	}
}
