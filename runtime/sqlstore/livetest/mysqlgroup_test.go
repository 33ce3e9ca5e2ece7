package livetest

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// mysqlGroup is three primaries of MySQL Group Replication, started when the first test asks for them.
var (
	mysqlGroup      = own{script: "./mysqlgroup.sh", offset: 24}
	startMySQLGroup = sync.OnceValue(mysqlGroup.start)
)

const groupNodes = 3

// groupServers returns the nodes of the group, and the first as a reader that waits for what the others have committed.
func groupServers(t *testing.T) (nodes []server, reader server) {
	t.Helper()
	needOwn(t, startMySQLGroup())
	for i := range groupNodes {
		dsn := fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", mysqlGroup.port(i+1))
		nodes = append(nodes, server{fmt.Sprintf("group-%d", i+1), "mysql", dsn, sqlstore.MySQL})
	}
	return nodes, nodes[0].with("group_replication_consistency='BEFORE'")
}

// TestMySQLGroup has callers take on all nodes at once, by single statements and in transactions. A conflict with another
// node shows itself at the commit, as an error of its own: it reaches no caller, and the counts are exact.
func TestMySQLGroup(t *testing.T) {
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
		b, err := runtime.NewLimiter(reader.join(t, reader.open(t), table, nil)).Limit(p, runtime.Key{}).Peek(t.Context())
		require.NoError(t, err)
		assert.Zero(t, b.Remaining, p.Name)
	}
}

// TestMySQLGroupTx takes in transactions of the callers.
func TestMySQLGroupTx(t *testing.T) {
	nodes, reader := groupServers(t)
	for _, style := range txStyles {
		t.Run(style.name, func(t *testing.T) {
			l := newTxLoad(t, nodes, reader, style, 60)
			l.exhaust(t)
			assert.Empty(t, l.failures)
		})
	}
}

// TestMySQLGroupTxFaults does so again and again, also while a node is killed or frozen.
func TestMySQLGroupTxFaults(t *testing.T) {
	if !*long {
		t.Skip("nodes take 20 s to rejoin: run it with -long")
	}
	nodes, reader := groupServers(t)
	testTxFaults(t, &mysqlGroup, nodes, reader)
}

// TestMySQLGroupFaults freezes and kills a node while stores take tokens on all of them.
func TestMySQLGroupFaults(t *testing.T) {
	if !*long {
		t.Skip("nodes take 20 s to rejoin: run it with -long")
	}
	nodes, _ := groupServers(t)
	testFaults(t, &mysqlGroup, nodes)
}

// TestGaleraFaults does the same on a Galera cluster.
func TestGaleraFaults(t *testing.T) {
	if !*long {
		t.Skip("nodes take 20 s to rejoin: run it with -long")
	}
	testFaults(t, &galera, galeraServers(t))
}

// testFaults freezes the last node of a cluster for a moment, and for so long that the others go on without it, and
// kills it, while stores take tokens on all nodes.
func testFaults(t *testing.T, cluster *own, nodes []server) {
	victim := strconv.Itoa(len(nodes))
	_, stores := shared(t, nodes, nil)
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
	l.finish(t, stores[0])
}
