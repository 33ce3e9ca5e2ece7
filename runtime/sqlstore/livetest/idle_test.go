package livetest

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// TestConnectionsClosedWhileIdle has the server close all idle connections of a pool: the next calls begin again on
// others, by a driver with which they run in transactions.
func TestConnectionsClosedWhileIdle(t *testing.T) {
	const connections, rounds = 10, 10
	admin := servers[1].open(t)
	table := newTable()
	p, truth := once("limit", 2*rounds), servers[1].storeIn(t, admin, table, nil)
	s := servers[1].with("application_name=" + table)
	failed := 0
	for range rounds {
		db := s.open(t)
		db.SetMaxIdleConns(connections)
		store, err := sqlstore.New(db, s.dialect, sqlstore.Options{Table: table})
		require.NoError(t, err)
		require.NoError(t, store.Ready(t.Context()))
		limit := runtime.NewLimiter(store).Limit(p, runtime.Key{})
		for _, ask := range []func() error{
			func() error { return limit.Require(t.Context()) },
			func() error { _, err := limit.Peek(t.Context()); return err },
		} {
			beIdle(t, db, connections)
			var closed int
			require.NoError(t, admin.QueryRow(
				"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", table).Scan(&closed))
			require.GreaterOrEqual(t, closed, connections)
			require.Eventually(t, func() bool {
				err := admin.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", table).Scan(&closed)
				return err == nil && closed == 0
			}, 10*time.Second, time.Millisecond)
			if !assert.NoError(t, ask()) {
				failed++
			}
		}
		require.NoError(t, store.Close())
		db.Close()
	}
	assert.EqualValues(t, rounds, left(t, truth, p))
	t.Logf("%d of %d calls failed", failed, 2*rounds)
}

// beIdle has a pool hold so many connections that are idle and work.
func beIdle(t *testing.T, db *sql.DB, connections int) {
	t.Helper()
	var all []*sql.Conn
	for len(all) < connections {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		if conn.PingContext(t.Context()) == nil {
			all = append(all, conn)
		} else {
			conn.Close() // one that the server has closed
		}
	}
	for _, conn := range all {
		require.NoError(t, conn.Close())
	}
}
