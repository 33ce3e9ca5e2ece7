package livetest

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// TestSessionSettings has connections that would not commit what a statement has written, or would write keys in
// two ways.
func TestSessionSettings(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		if s.protocol() != "mysql" {
			return
		}
		table := newTable()
		s.storeIn(t, s.open(t), table, nil)
		for parameter, says := range map[string]string{
			"autocommit=0":      `autocommit is "`,
			"completion_type=1": `completion_type is "CHAIN" instead of "NO_CHAIN"`,
			"charset=latin1":    `character_set_client is "latin1" instead of "utf8mb4"`,
		} {
			err := s.with(parameter).visit(t, table).Ready(t.Context())
			assert.ErrorContains(t, err, "change the settings of the connections, in the data source name or in the server: "+says, parameter)
		}
	})
}

// TestMigrateAtOnce has many processes, as it were, create the table at once.
func TestMigrateAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		for range 5 {
			table := newTable()
			failed := make(chan error)
			for range 8 {
				go func() {
					store, err := sqlstore.New(db, s.dialect, sqlstore.Options{Table: table})
					if err == nil {
						err = store.Migrate(context.Background())
					}
					failed <- err
				}()
			}
			for range 8 {
				assert.NoError(t, <-failed)
			}
			_, err := db.Exec("DROP TABLE " + table)
			require.NoError(t, err)
		}
	})
}

// TestClockOfABusyPool waits for a connection: that is no part of the way to the database's clock.
func TestClockOfABusyPool(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		db := s.open(t)
		store := s.store(t, db, nil)
		db.SetMaxOpenConns(1)
		busy, err := db.Conn(t.Context())
		require.NoError(t, err)
		const wait = 600 * time.Millisecond
		time.AfterFunc(wait, func() { busy.Close() })
		p := once("limit", 1)
		answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{{Policy: p, Op: runtime.Peek}}}})
		require.NoError(t, err)
		assert.Less(t, time.Until(time.Unix(0, answers[0].At)), wait/4, "the clock of this machine, which is the server's")
	})
}

// TestAlteredTable changes a column to another type that the store can use, while it is used.
func TestAlteredTable(t *testing.T) {
	for _, s := range servers[:2] {
		t.Run(s.name, func(t *testing.T) {
			db, table := s.open(t), newTable()
			store := s.storeIn(t, db, table, nil)
			limit := runtime.NewLimiter(store).Limit(once("limit", 2), runtime.Key{})
			for range 2 {
				require.NoError(t, limit.Require(t.Context()))
				_, err := limit.Peek(t.Context())
				require.NoError(t, err)
				_, err = db.Exec("ALTER TABLE " + table + " ALTER COLUMN shard TYPE bigint")
				require.NoError(t, err)
			}
			b, err := limit.Peek(t.Context())
			require.NoError(t, err)
			assert.Zero(t, b.Remaining)
		})
	}
}

// TestAlteredTableAmidCalls does so while many ask: some of them have taken when others learn of it, and some find
// their statements closed.
func TestAlteredTableAmidCalls(t *testing.T) {
	for _, s := range servers[:2] {
		t.Run(s.name, func(t *testing.T) {
			db, table := s.open(t), newTable()
			store := s.storeIn(t, db, table, nil)
			limiter := runtime.NewLimiter(store)
			taken, peeked := once("taken", 1_000_000), once("peeked", 1)
			calls := []runtime.Call{
				{Requests: []runtime.Request{{Policy: taken, Count: 1}}},
				{Requests: []runtime.Request{{Policy: peeked, Op: runtime.Peek}}},
			}
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() {
					for range 50 {
						answers, err := store.Do(t.Context(), calls)
						if assert.NoError(t, err) {
							assert.True(t, answers[0].Allowed() && answers[1].Allowed())
						}
					}
				})
			}
			for _, kind := range []string{"bigint", "integer", "bigint"} {
				_, err := db.Exec("ALTER TABLE " + table + " ALTER COLUMN shard TYPE " + kind)
				require.NoError(t, err)
			}
			all.Wait()
			b, err := limiter.Limit(taken, runtime.Key{}).Peek(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 1_000_000-12*50, b.Remaining)
		})
	}
}

// TestNeighbours asks of two limits at once, of which the row of one is locked for too long: of the other, what is
// told is taken, is.
func TestNeighbours(t *testing.T) {
	s := servers[0].with("statement_timeout=300")
	db := s.open(t)
	table := newTable()
	s.storeIn(t, db, table, nil)
	store, err := sqlstore.New(db, s.dialect, sqlstore.Options{Table: table, Batch: 1})
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	free, locked := once("free", 2), once("locked", 2)
	limiter := runtime.NewLimiter(store)
	require.NoError(t, limiter.Limit(locked, runtime.Key{}).Require(t.Context()))
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{})
	require.NoError(t, err)
	defer tx.Rollback()
	require.NoError(t, limiter.WithTx(tx).Limit(locked, runtime.Key{}).Require(t.Context()))

	ask := func(p *runtime.Policy) runtime.Call {
		return runtime.Call{Requests: []runtime.Request{{Policy: p, Count: 1}}}
	}
	answers, err := store.Do(t.Context(), []runtime.Call{ask(free), ask(locked)})
	require.ErrorContains(t, err, "57014", "canceling statement due to statement timeout")
	require.Len(t, answers, 2)
	assert.True(t, answers[0].Allowed())
	assert.False(t, answers[1].Given())
}
