package livetest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// TestPostgresHasNoDeadlocks has many use sharded keys for the first time at once, of which some shards are there
// and some are not yet. Locked in any other order than that of the rows, they would wait for each other until the
// server notices, a second later, in which nobody learns why.
func TestPostgresHasNoDeadlocks(t *testing.T) {
	s := servers[0]
	admin := s.open(t)
	name := newTable()
	_, err := admin.Exec("CREATE DATABASE " + name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		require.NoError(t, err)
	})
	useShards(t, s.database(t, name))

	require.Eventually(t, func() bool { // its sessions have ended, and told what they have seen
		var sessions int
		err := admin.QueryRow("SELECT numbackends FROM pg_stat_database WHERE datname = $1", name).Scan(&sessions)
		return err == nil && sessions == 0
	}, 10*time.Second, 10*time.Millisecond)
	var deadlocks, commits int
	require.NoError(t, admin.QueryRow("SELECT deadlocks, xact_commit FROM pg_stat_database WHERE datname = $1", name).Scan(&deadlocks, &commits))
	assert.Zero(t, deadlocks)
	assert.Greater(t, commits, 100, "it was this database")
}

// useShards has callers without group commit take from sharded keys, each of several at once.
func useShards(t *testing.T, s server) {
	db, err := sql.Open(s.driver, s.dsn)
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(16)
	store, err := sqlstore.New(db, s.dialect, sqlstore.Options{Batch: 1})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.Migrate(t.Context()))
	limiter := runtime.NewLimiter(store)
	p := once("sharded", 1600)
	p.Rate, p.Shards = 16, 16
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 40 {
				var items []runtime.Item
				for k := range 4 {
					items = append(items, limiter.Limit(p, runtime.KeyOf(runtime.String(fmt.Sprint((i/4+k+g)%8, "-", i/8)))))
				}
				_, err := limiter.All(context.Background(), items...)
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
}
