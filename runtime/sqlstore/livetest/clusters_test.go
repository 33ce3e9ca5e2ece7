package livetest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// galera is a cluster of three nodes. The first test that needs it starts it.
var (
	galera      = own{script: "./galera.sh"}
	startGalera = sync.OnceValue(galera.start)
)

const galeraNodes = 3

// galeraServers returns the nodes of the Galera cluster.
func galeraServers(t *testing.T) []server {
	t.Helper()
	needOwn(t, startGalera())
	nodes := make([]server, galeraNodes)
	for i := range nodes {
		dsn := fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", galera.port(i+1))
		nodes[i] = server{fmt.Sprintf("galera-%d", i+1), "mysql", dsn, dialect.MariaDB}
		db := must(sql.Open(nodes[i].driver, nodes[i].dsn))(t)
		require.NoError(t, db.Ping(), "the cluster does not answer")
		require.NoError(t, db.Close())
	}
	return nodes
}

// onAll runs a test on each database: each single server, and the Galera cluster.
func onAll(t *testing.T, test func(t *testing.T, nodes []server)) {
	onEach(t, func(t *testing.T, s server) { test(t, []server{s}) })
	atOnce(t, "galera", func(t *testing.T) { test(t, galeraServers(t)) })
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

// join returns a store in a table that another node has created, as soon as the table is replicated.
func (s server) join(t *testing.T, db *sql.DB, table string, clock func() time.Time) *sqlstore.Store {
	t.Helper()
	store := s.storeWith(t, db, sqlstore.Options{Table: table, Clock: clock})
	require.Eventually(t, func() bool { return store.Ready(context.Background()) == nil },
		time.Minute, 10*time.Millisecond, "%s has no table %s", s.name, table)
	return store
}

// mysqlGroup is three primaries of MySQL Group Replication. The first test that needs them starts them.
var (
	mysqlGroup      = own{script: "./mysqlgroup.sh"}
	startMySQLGroup = sync.OnceValue(mysqlGroup.start)
)

const groupNodes = 3

// groupServers returns the nodes of the group, and the first again as a reader that waits for the commits of the
// others.
func groupServers(t *testing.T) (nodes []server, reader server) {
	t.Helper()
	needOwn(t, startMySQLGroup())
	for i := range groupNodes {
		dsn := fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", mysqlGroup.port(i+1))
		nodes = append(nodes, server{fmt.Sprintf("group-%d", i+1), "mysql", dsn, dialect.MySQL})
	}
	return nodes, nodes[0].with("group_replication_consistency='BEFORE'")
}

// Callers take on all nodes at once, by single statements and in transactions. A conflict between nodes is an error at
// the commit. No caller sees it, and the counts are exact.
func TestMySQLGroupGrantsExactlyTheCapacity(t *testing.T) {
	nodes, reader := groupServers(t)
	table, stores := shared(t, nodes, nil)
	const capacity = 200
	for _, p := range granting(capacity) {
		l := startLoad(p, stores)
		l.await(t, "the last token", func() bool { _, denied, _ := l.sums(); return denied > callers })
		l.stop()
		admitted, _, errors := l.sums()
		assert.EqualValues(t, capacity, admitted, p.Name)
		assert.Zero(t, errors, p.Name)
		b := must(limiter.New(reader.join(t, reader.open(t), table, nil)).Limit(p, runtime.Key{}).Peek(t.Context()))(t)
		assert.Zero(t, b.Remaining, p.Name)
	}
}

// If the nodes wait for the commits of the others before they read, histories are linearizable as on Galera.
func TestMySQLGroupHistoriesAreLinearizable(t *testing.T) {
	nodes, _ := groupServers(t)
	for i, s := range nodes {
		nodes[i] = s.with("group_replication_consistency='BEFORE'")
	}
	checkHistories(t, nodes, nil)
}

// The same in transactions of the callers.
func TestMySQLGroupTxCommitsTokensWithRows(t *testing.T) {
	nodes, reader := groupServers(t)
	for _, style := range txStyles {
		t.Run(style.name, func(t *testing.T) {
			l := newTxLoad(t, nodes, reader, style, 60)
			l.exhaust(t)
			assert.Empty(t, l.failures)
		})
	}
}

// The same while a node is killed or frozen, several times.
func TestMySQLGroupTxFaults(t *testing.T) {
	if !*long {
		t.Skip("nodes take 20 s to rejoin: run it with -long")
	}
	nodes, reader := groupServers(t)
	testTxFaults(t, &mysqlGroup, nodes, reader)
}

// A node is frozen and killed while stores take tokens on all nodes.
func TestMySQLGroupFaults(t *testing.T) {
	if !*long {
		t.Skip("nodes take 20 s to rejoin: run it with -long")
	}
	nodes, reader := groupServers(t)
	testFaults(t, &mysqlGroup, nodes, reader)
}

// The same on a Galera cluster.
func TestGaleraFaults(t *testing.T) {
	if !*long {
		t.Skip("nodes take 20 s to rejoin: run it with -long")
	}
	nodes := galeraServers(t)
	testFaults(t, &galera, nodes, upToDate(nodes)[0])
}

// testFaults freezes the last node of a cluster for a moment, then until the others have expelled it, and kills it,
// while stores take tokens on all nodes. The reader reads what all of them have committed.
func testFaults(t *testing.T, cluster *own, nodes []server, reader server) {
	victim := strconv.Itoa(len(nodes))
	table, stores := shared(t, nodes, nil)
	l := startLoad(once("limit", 1_000_000), stores)
	progress := func(of string) {
		for i := range l.perNode {
			before := l.perNode[i].answers()
			l.await(t, of, func() bool { return l.perNode[i].answers() > before+10 })
		}
	}
	progress("progress")
	for _, d := range []time.Duration{time.Second, 12 * time.Second} {
		require.NoError(t, cluster.run("freeze", victim))
		<-time.After(d)
		require.NoError(t, cluster.run("thaw", victim))
		progress("service after " + d.String())
	}
	require.NoError(t, cluster.run("kill", victim))
	require.NoError(t, cluster.run("rejoin", victim))
	progress("service after the kill")
	l.finish(t, reader.visit(t, table))
}

// The clock of a node is 10 minutes ahead. Stores that start on other nodes detect it by the rows that it has written.
func TestGaleraClockAheadIsExplained(t *testing.T) {
	if !*long {
		t.Skip("a node takes 20 s to rejoin: run it with -long")
	}
	if found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1"); found == nil {
		needOwn(t, fmt.Errorf("libfaketime: %w", errNotInstalled))
	}
	nodes := galeraServers(t)
	table := newTable()
	store := nodes[0].storeIn(t, nodes[0].open(t), table, nil)
	require.NoError(t, store.Ready(t.Context()))

	require.NoError(t, galera.run("kill", "3"))
	t.Setenv("CLOCK", "+10m")
	require.NoError(t, galera.run("rejoin", "3"))
	defer func() {
		t.Setenv("CLOCK", "")
		require.NoError(t, galera.run("kill", "3"))
		require.NoError(t, galera.run("rejoin", "3"))
	}()
	ahead := must(agree.NewStore(nodes[2].open(t), nodes[2].dialect, sqlstore.Options{Table: table}))(t)
	defer ahead.Close()
	require.NoError(t, ahead.Ready(t.Context()))
	require.NoError(t, limiter.New(ahead).Limit(once("limit", 10), runtime.Key{}).Require(t.Context()))

	err := nodes[0].visit(t, table).Ready(t.Context())
	assert.ErrorContains(t, err, "ahead of this node's clock")
	assert.ErrorContains(t, err, "synchronize them by NTP")
	t.Log(err)
}
