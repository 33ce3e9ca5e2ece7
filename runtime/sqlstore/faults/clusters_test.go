package faults

import (
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
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// galera is a cluster of three nodes. The first test that needs it starts it.
var (
	galera      = own{script: "./galera.sh"}
	startGalera = sync.OnceValue(galera.start)
)

const galeraNodes = 3

// galeraServers returns the nodes of the Galera cluster.
func galeraServers(t *testing.T) []live.Server {
	t.Helper()
	needOwn(t, startGalera())
	nodes := make([]live.Server, galeraNodes)
	for i := range nodes {
		dsn := fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", galera.port(i+1))
		nodes[i] = live.Server{Name: fmt.Sprintf("galera-%d", i+1), Driver: "mysql", DSN: dsn, Dialect: dialect.MariaDB}
		db := live.Must(sql.Open(nodes[i].Driver, nodes[i].DSN))(t)
		require.NoError(t, db.Ping(), "the cluster does not answer")
		require.NoError(t, db.Close())
	}
	return nodes
}

// mysqlGroup is three primaries of MySQL Group Replication. The first test that needs them starts them.
var (
	mysqlGroup      = own{script: "./mysqlgroup.sh"}
	startMySQLGroup = sync.OnceValue(mysqlGroup.start)
)

const groupNodes = 3

// groupServers returns the nodes of the group, and the first again as a reader that waits for the commits of the
// others.
func groupServers(t *testing.T) (nodes []live.Server, reader live.Server) {
	t.Helper()
	needOwn(t, startMySQLGroup())
	for i := range groupNodes {
		dsn := fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", mysqlGroup.port(i+1))
		nodes = append(nodes, live.Server{Name: fmt.Sprintf("group-%d", i+1), Driver: "mysql", DSN: dsn, Dialect: dialect.MySQL})
	}
	return nodes, nodes[0].With("group_replication_consistency='BEFORE'")
}

// The tests of one database that use all nodes of a cluster.
func TestGaleraConforms(t *testing.T) {
	t.Parallel()
	conforms(t, galeraServers(t), "TestProcessesGetExactlyTheCapacity", "TestHistoriesAreLinearizable", "TestHistoriesWithFaultsAreLinearizable",
		"TestGroupHistoriesAreLinearizable", "TestLeasesAddUpToTheCapacity", "TestKilledProcessLosesAtMostABlock", "TestHistoriesOfHostsFitTheModel",
		"TestHistoriesOfHostsWithFaultsFitTheModel", "TestLeasesStayWithinTheirBounds", "TestDenialsAreStaleUntilDenyCacheEnds",
		"TestReadersMissNoOverride", "TestProcessesNeverExceedAPreciseRate", "TestSweepDeletesOnlyFullRows", "TestForgetDeletesOnlyTheRowsOfItsLimit",
		"TestSweepUnderLoadGrantsExactlyTheCapacity", "TestConcurrentReadysSucceed", "TestProcessesNeverHoldMoreThanTheSlots",
		"TestNothingIsHeldForCallersThatHaveGone")
}

// A node decides as the model does.
func TestGaleraAgreesWithModel(t *testing.T) {
	if !*long {
		t.Skip("a search of many cases: run it with -long")
	}
	t.Parallel()
	conforms(t, interpolated(galeraServers(t))[:1], "TestServersAgreeWithModel")
}

func TestMySQLGroupConforms(t *testing.T) {
	t.Parallel()
	nodes, _ := groupServers(t)
	conforms(t, nodes, "TestProcessesGetExactlyTheCapacity", "TestHistoriesAreLinearizable", "TestProcessesNeverHoldMoreThanTheSlots",
		"TestNothingIsHeldForCallersThatHaveGone")
}

// Transactions of the callers take tokens on all nodes at once, until none are left.
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
	testFaults(t, &galera, nodes, nodes[0].With("wsrep_sync_wait=1"))
}

// testFaults freezes the last node of a cluster for a moment, then until the others have expelled it, and kills it,
// while stores take tokens on all nodes. The reader reads what all of them have committed.
func testFaults(t *testing.T, cluster *own, nodes []live.Server, reader live.Server) {
	victim := strconv.Itoa(len(nodes))
	table, stores := live.Shared(t, nodes, nil)
	l := live.StartLoad(live.Once("limit", 1_000_000), stores)
	progress := func(of string) {
		for i := range l.PerNode {
			before := l.PerNode[i].Answers()
			l.Await(t, of, func() bool { return l.PerNode[i].Answers() > before+10 })
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
	l.Finish(t, reader.Visit(t, table))
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
	table := live.NewTable()
	store := nodes[0].StoreIn(t, nodes[0].Open(t), table, nil)
	require.NoError(t, store.Ready(t.Context()))

	require.NoError(t, galera.run("kill", "3"))
	t.Setenv("CLOCK", "+10m")
	require.NoError(t, galera.run("rejoin", "3"))
	defer func() {
		t.Setenv("CLOCK", "")
		require.NoError(t, galera.run("kill", "3"))
		require.NoError(t, galera.run("rejoin", "3"))
	}()
	ahead := live.Must(agree.NewStore(nodes[2].Open(t), nodes[2].Dialect, sqlstore.Options{Table: table}))(t)
	defer ahead.Close()
	require.NoError(t, ahead.Ready(t.Context()))
	require.NoError(t, limiter.New(ahead).Limit(live.Once("limit", 10), runtime.Key{}).Require(t.Context()))

	err := nodes[0].Visit(t, table).Ready(t.Context())
	assert.ErrorContains(t, err, "ahead of this node's clock")
	assert.ErrorContains(t, err, "synchronize them by NTP")
	t.Log(err)
}
