package livetest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// galera is a cluster of three nodes, started when the first test asks for it.
var (
	galera      = own{script: "./galera.sh"}
	startGalera = sync.OnceValue(galera.start)
)

const galeraNodes = 3

// galeraServers returns the nodes of the cluster.
func galeraServers(t *testing.T) []server {
	t.Helper()
	needOwn(t, startGalera())
	nodes := make([]server, galeraNodes)
	for i := range nodes {
		dsn := fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", galera.port(i+1))
		nodes[i] = server{fmt.Sprintf("galera-%d", i+1), "mysql", dsn, sqlstore.MariaDB}
		db, err := sql.Open(nodes[i].driver, nodes[i].dsn)
		require.NoError(t, err)
		require.NoError(t, db.Ping(), "the cluster is not there")
		require.NoError(t, db.Close())
	}
	return nodes
}

// onAll runs a test on each database: a server on its own, or the nodes of the cluster.
func onAll(t *testing.T, test func(t *testing.T, nodes []server)) {
	onEach(t, func(t *testing.T, s server) { test(t, []server{s}) })
	t.Run("galera", func(t *testing.T) { test(t, galeraServers(t)) })
}

// shared returns a store on each node, all in one new table, which is dropped when the test ends.
func shared(t *testing.T, nodes []server, clock func() time.Time) (table string, stores []runtime.Store) {
	t.Helper()
	table = newTable()
	stores = []runtime.Store{nodes[0].storeIn(t, nodes[0].open(t), table, clock)}
	for _, s := range nodes[1:] {
		stores = append(stores, s.join(t, s.open(t), table, clock))
	}
	return table, stores
}

// join returns a store in a table that another node has created, once it has come here.
func (s server) join(t *testing.T, db *sql.DB, table string, clock func() time.Time) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.New(db, s.dialect, sqlstore.Options{Table: table, Clock: clock})
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	require.Eventually(t, func() bool { return store.Ready(context.Background()) == nil },
		time.Minute, 10*time.Millisecond, "%s has no table %s", s.name, table)
	return store
}
