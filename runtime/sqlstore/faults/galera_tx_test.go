package faults

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// Callers on all nodes take tokens in their transactions until none are left. Nodes abort each other's transactions all
// the time, even idle ones. No token of a committed transaction is lost, and each transaction is committed as a whole.
func TestGaleraTxCommitsTokensWithRows(t *testing.T) {
	nodes := galeraServers(t)
	for _, style := range txStyles {
		t.Run(style.name, func(t *testing.T) {
			l := newTxLoad(t, interpolated(nodes), nodes[0].With("wsrep_sync_wait=1"), style, 60)
			l.exhaust(t)
			assert.Empty(t, l.failures)
		})
	}
}

// interpolated returns the nodes with a driver setting that avoids prepared statements.
func interpolated(nodes []live.Server) []live.Server {
	all := slices.Clone(nodes)
	for i := range all {
		all[i] = all[i].With("interpolateParams=true")
	}
	return all
}

// exhaust runs the load until all calls are denied.
func (l *txLoad) exhaust(t *testing.T) {
	t.Helper()
	stop := l.start()
	assert.Eventually(t, func() bool { _, _, denied := l.count(); return denied >= 10*txCallers }, 2*time.Minute, 10*time.Millisecond)
	stop()
	l.finish(t)
}

// TestGaleraTxCommitsTokensWithRows several times, also while a node is killed or frozen.
func TestGaleraTxFaults(t *testing.T) {
	if !*long {
		t.Skip("nodes take 20 s to rejoin: run it with -long")
	}
	nodes := galeraServers(t)
	testTxFaults(t, &galera, interpolated(nodes), nodes[0].With("wsrep_sync_wait=1"))
}

// testTxFaults runs several loads on a cluster. During some of them, the last node is killed or frozen.
func testTxFaults(t *testing.T, cluster *own, nodes []live.Server, reader live.Server) {
	const runs = 50
	victim := strconv.Itoa(len(nodes))
	freeze := func(d time.Duration) func(t *testing.T) {
		return func(t *testing.T) {
			assert.NoError(t, cluster.run("freeze", victim))
			<-time.After(d)
			assert.NoError(t, cluster.run("thaw", victim))
		}
	}
	faults := map[int]func(t *testing.T){
		2: freeze(time.Second),
		4: freeze(12 * time.Second), // longer than the others wait for it
		6: func(t *testing.T) {
			assert.NoError(t, cluster.run("kill", victim))
			assert.NoError(t, cluster.run("rejoin", victim))
		},
	}
	for i := range runs {
		style, fault := txStyles[i%len(txStyles)], faults[i%7]
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if fault == nil {
				newTxLoad(t, nodes, reader, style, 60).exhaust(t)
				return
			}
			l := newTxLoad(t, nodes, reader, style, 100_000)
			l.patience = 3 * time.Second
			stop := l.start()
			progress := func() { // some more are committed
				before, _, _ := l.count()
				assert.Eventually(t, func() bool { now, _, _ := l.count(); return now >= before+30 }, time.Minute, 10*time.Millisecond)
			}
			progress()
			fault(t)
			progress()
			stop()
			l.finish(t)
		})
	}
}

// Transactions in which the driver prepares statements are refused.
func TestGaleraTxWithPreparedStatementsIsRefused(t *testing.T) {
	nodes := galeraServers(t)
	db := nodes[0].Open(t)
	store, p := nodes[0].Store(t, db, nil), live.Once("limit", 1)
	for range 2 {
		err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
			return limiter.New(store).WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context())
		})
		assert.ErrorContains(t, err, "set interpolateParams=true in the data source name")
	}
	assert.EqualValues(t, 1, live.Left(t, store, p))
}

// Another node may abort a transaction while the server prepares or closes a statement, and the transaction then ends
// without an error. That takes only microseconds, so the test uses a ROLLBACK instead.
func TestGaleraTxAbortedSilentlyIsDetected(t *testing.T) {
	nodes := interpolated(galeraServers(t))
	db := nodes[0].Open(t)
	store, p := nodes[0].Store(t, db, nil), live.Once("limit", 10)
	require.NoError(t, store.Ready(t.Context()))
	take := func(tx runtime.Tx) error {
		return limiter.New(store).WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context())
	}
	abort := func(tx *sql.Tx) {
		live.Must(tx.ExecContext(t.Context(), "ROLLBACK"))(t)
	}

	attempts := 0
	require.NoError(t, sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
		attempts++
		err := take(tx)
		if attempts == 1 {
			abort(tx)
		}
		return err
	}))
	assert.Equal(t, 2, attempts)
	assert.EqualValues(t, 9, live.Left(t, store, p), "noticed before the commit")

	tx := live.Must(db.BeginTx(t.Context(), nil))(t)
	require.NoError(t, take(tx))
	abort(tx)
	assert.ErrorAs(t, take(tx), new(*sqlstore.RetryTxError))
	require.NoError(t, tx.Commit())
	assert.EqualValues(t, 9, live.Left(t, store, p), "the next call detects it and takes nothing")

	conn := live.Must(db.Conn(t.Context()))(t)
	defer conn.Close()
	assert.ErrorIs(t, limiter.New(store).WithConn(conn).Limit(p, runtime.Key{}).Require(t.Context()), runtime.ErrNoTx, "none was begun")
	assert.EqualValues(t, 9, live.Left(t, store, p))
}

// The same in a transaction of the store, after it has read a row, when it prepares the statement that writes the row.
// Tokens that others have taken meanwhile are not lost.
func TestGaleraStoreTxAbortedSilentlyIsRetried(t *testing.T) {
	node := galeraServers(t)[0]
	table := live.NewTable()
	others := node.StoreIn(t, node.Open(t), table, nil)
	p := &runtime.Policy{Name: "sliding", Kind: runtime.SlidingWindow, Rate: 10, Capacity: 10, Period: runtime.MaxPeriod}
	take := func(store *sqlstore.Store) {
		require.NoError(t, limiter.New(store).Limit(p, runtime.Key{}).Require(context.Background()))
	}
	take(others)

	config := live.Must(mysql.ParseDSN(node.DSN))(t)
	connector := live.Must(mysql.NewConnector(config))(t)
	var armed atomic.Bool
	db := sql.OpenDB(hookedConnector{connector, func(conn driver.ExecerContext, query string) {
		if strings.Contains(query, "VALUES(prev)") && armed.CompareAndSwap(true, false) {
			_, err := conn.ExecContext(context.Background(), "ROLLBACK", nil)
			assert.NoError(t, err)
			for range 3 {
				take(others)
			}
		}
	}})
	defer db.Close()
	store := live.Must(agree.NewStore(db, dialect.MariaDB, sqlstore.Options{Table: table}))(t)
	defer store.Close()
	require.NoError(t, store.Ready(t.Context()))
	conn, err := db.Conn(t.Context()) // the connection that has prepared all statements
	require.NoError(t, err)
	defer conn.Close()
	armed.Store(true)
	take(store)
	assert.False(t, armed.Load())
	assert.EqualValues(t, 5, live.Left(t, others, p))
}

// hookedConnector opens connections that call a hook before they prepare a statement.
type hookedConnector struct {
	driver.Connector
	hook func(conn driver.ExecerContext, query string)
}

func (c hookedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return hookedConn{conn.(mysqlConn), c.hook}, nil
}

// mysqlConn is the interfaces of the driver's connections.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

type hookedConn struct {
	mysqlConn
	hook func(conn driver.ExecerContext, query string)
}

func (c hookedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.hook(c.mysqlConn, query)
	return c.mysqlConn.PrepareContext(ctx, query)
}

// A node that has lost the others refuses all queries, also the end of a transaction. The transaction then stays open
// on its connection, which must not be used again: later transactions could not begin on it, or would commit the old
// one.
func TestGaleraTxLeftOpenIsNotReused(t *testing.T) {
	node := interpolated(galeraServers(t))[0]
	admin, db := node.Open(t), node.Open(t)
	db.SetMaxOpenConns(1)
	store, p := node.Store(t, db, nil), live.Once("limit", 10)
	require.NoError(t, store.Ready(t.Context()))
	reject := func(what string) {
		live.Must(admin.ExecContext(context.Background(), "SET GLOBAL wsrep_reject_queries = "+what))(t)
	}
	defer reject("NONE")

	err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
		defer reject("ALL")
		return limiter.New(store).WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context())
	})
	assert.ErrorContains(t, err, "Error 1047")
	reject("NONE")
	require.NoError(t, sqlstore.RunInTx(t.Context(), db, func(*sql.Tx) error { return nil }))
	assert.EqualValues(t, 10, live.Left(t, store, p))

	tx := live.Must(db.BeginTx(t.Context(), nil))(t)
	require.NoError(t, limiter.New(store).WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context()))
	reject("ALL")
	assert.ErrorContains(t, tx.Commit(), "Error 1047")
	reject("NONE")
	require.NoError(t, limiter.New(store).Limit(p, runtime.Key{}).Require(t.Context()), "on a connection that was left in a transaction")
	assert.EqualValues(t, 9, live.Left(t, store, p))
}
