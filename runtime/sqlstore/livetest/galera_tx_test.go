package livetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// txLoad is callers on all nodes of a cluster that each take a token and insert a row of their own in one transaction.
type txLoad struct {
	nodes []txNode
	// reader is a node that answers once it has all that the others had committed before.
	reader server
	policy *runtime.Policy
	// table is the store's, and log that of the callers' own rows.
	table, log string
	style      txStyle
	// patience is how long a transaction may take.
	patience time.Duration

	mu sync.Mutex
	// committed counts the transactions whose commit was reported, unknown those that failed and may be committed.
	committed, unknown, denied int64
	failures                   map[string]int
}

// txNode is a node, as its callers reach it.
type txNode struct {
	db    *sql.DB
	store *sqlstore.Store
}

// txKeys is how many keys the callers share, and txCallers how many callers a node has.
const txKeys, txCallers = 3, 4

// newTxLoad returns a load on the nodes, in new tables, of a limit that grants capacity tokens to each key.
func newTxLoad(t *testing.T, nodes []server, reader server, style txStyle, capacity int64) *txLoad {
	t.Helper()
	table := newTable()
	l := &txLoad{
		reader: reader, policy: once("limit", capacity), table: table, log: table + "_log", style: style, patience: time.Minute,
		failures: map[string]int{},
	}
	db := nodes[0].open(t)
	l.nodes = []txNode{{db, nodes[0].storeIn(t, db, table, nil)}}
	_, err := db.Exec("CREATE TABLE " + l.log + " (id VARCHAR(64) PRIMARY KEY)")
	require.NoError(t, err)
	t.Cleanup(func() { db.Exec("DROP TABLE " + l.log) })
	for _, s := range nodes[1:] {
		db := s.open(t)
		l.nodes = append(l.nodes, txNode{db, s.join(t, db, table, nil)})
		require.Eventually(t, func() bool { return db.QueryRow("SELECT COUNT(*) FROM "+l.log).Scan(new(int)) == nil },
			10*time.Second, 10*time.Millisecond)
	}
	return l
}

// start starts the callers, and returns a function that stops them.
func (l *txLoad) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range txCallers * len(l.nodes) {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if !l.record(l.transact(l.nodes[i%len(l.nodes)], fmt.Sprint(i, "-", n))) {
					<-time.After(10 * time.Millisecond) // a node that is down is not to be stormed
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// transact runs one transaction.
func (l *txLoad) transact(n txNode, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	defer cancel()
	attempt := 0
	steps := []func(tx *sql.Tx) error{
		func(tx *sql.Tx) error {
			text, row := "INSERT INTO "+l.log+" VALUES (?)", fmt.Sprint(id, ".", attempt)
			if !l.style.prepare {
				_, err := tx.ExecContext(ctx, text, row)
				return err
			}
			stmt, err := tx.PrepareContext(ctx, text)
			if err == nil {
				_, err = stmt.ExecContext(ctx, row)
			}
			return err
		},
		func(tx *sql.Tx) error {
			return runtime.NewLimiter(n.store).WithTx(tx).Limit(l.policy, keyOf(rand.IntN(txKeys))).Require(ctx)
		},
	}
	if l.style.takeFirst {
		steps[0], steps[1] = steps[1], steps[0]
	}
	all := func(tx *sql.Tx) error {
		attempt++
		if err := steps[0](tx); err != nil {
			return err
		}
		return steps[1](tx)
	}
	if l.style.runInTx {
		return sqlstore.RunInTx(ctx, n.db, all)
	}
	tx, err := n.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := all(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// record counts what came of a transaction, and reports whether the node has answered.
func (l *txLoad) record(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.committed++
	case errors.Is(err, runtime.ErrLimited):
		l.denied++
	case conflicts(err):
	default:
		l.unknown++
		l.failures[err.Error()]++
		return false
	}
	return true
}

// conflicts reports whether the transaction is to be run again: it has done nothing.
func conflicts(err error) bool {
	var said *mysql.MySQLError
	return errors.As(err, new(*sqlstore.RetryTxError)) ||
		errors.As(err, &said) && (said.Number == 1213 || said.Number == 1180 || said.Number == 3101)
}

// count returns how many transactions are committed, as far as their callers know.
func (l *txLoad) count() (committed, unknown, denied int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committed, l.unknown, l.denied
}

// finish requires that the tokens that are stored as taken are those of the transactions that are committed.
func (l *txLoad) finish(t *testing.T) {
	t.Helper()
	committed, unknown, denied := l.count()
	var tokens, rows int64
	for k := range txKeys {
		tokens += l.policy.Capacity - int64(l.left(t, keyOf(k)))
	}
	require.NoError(t, l.reader.open(t).QueryRow("SELECT COUNT(*) FROM "+l.log).Scan(&rows))
	label := l.style.name
	t.Logf("%s: %d committed, %d unknown, %d denied; %d tokens of %d and %d rows stored",
		label, committed, unknown, denied, tokens, l.policy.Capacity*txKeys, rows)
	for text, n := range l.failures {
		t.Logf("%s: %d times: %s", label, n, text)
	}
	if l.style.prepare { // after an abort, the row alone may have been inserted
		assert.LessOrEqual(t, tokens, rows)
	} else {
		assert.Equal(t, rows, tokens, "each row has its token")
	}
	assert.LessOrEqual(t, committed, tokens, "tokens of committed transactions are stored")
	assert.LessOrEqual(t, tokens, committed+unknown)
	assert.LessOrEqual(t, tokens, l.policy.Capacity*txKeys)
}

// left returns how many tokens a key has, by what is stored.
func (l *txLoad) left(t *testing.T, key runtime.Key) (value float64) {
	t.Helper()
	row := l.reader.open(t).QueryRow("SELECT value FROM "+l.table+" WHERE name = ? AND `key` = ?", l.policy.Name, key.String())
	err := row.Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return float64(l.policy.Capacity)
	}
	require.NoError(t, err)
	return value
}

// txStyle is how callers run their transactions.
type txStyle struct {
	name string
	// runInTx: by RunInTx. takeFirst: they take before they insert. prepare: they prepare the insert.
	runInTx, takeFirst, prepare bool
}

var txStyles = []txStyle{
	{"RunInTx, take last", true, false, false},
	{"RunInTx, take first", true, true, false},
	{"RunInTx, take first, prepare", true, true, true},
	{"own commit, take last", false, false, false},
	{"own commit, take first", false, true, false},
}

// TestGaleraTx has callers on all nodes take in transactions of their own until nothing is left. Nodes abort each
// other's transactions all the time, also while those are idle: no token of a committed transaction is lost, and each
// transaction is committed as a whole.
func TestGaleraTx(t *testing.T) {
	nodes := galeraServers(t)
	for _, style := range txStyles {
		t.Run(style.name, func(t *testing.T) {
			l := newTxLoad(t, interpolated(nodes), nodes[0].with("wsrep_sync_wait=1"), style, 60)
			l.exhaust(t)
			assert.Empty(t, l.failures)
		})
	}
}

// interpolated returns the nodes with a driver that prepares no statements by itself.
func interpolated(nodes []server) []server {
	all := slices.Clone(nodes)
	for i := range all {
		all[i] = all[i].with("interpolateParams=true")
	}
	return all
}

// exhaust runs the load until nothing is left.
func (l *txLoad) exhaust(t *testing.T) {
	t.Helper()
	stop := l.start()
	assert.Eventually(t, func() bool { _, _, denied := l.count(); return denied >= 10*txCallers }, 2*time.Minute, 10*time.Millisecond)
	stop()
	l.finish(t)
}

// TestGaleraTxFaults is TestGaleraTx again and again, also while a node is killed or frozen.
func TestGaleraTxFaults(t *testing.T) {
	if !*long {
		t.Skip("nodes take 20 s to rejoin: run it with -long")
	}
	nodes := galeraServers(t)
	testTxFaults(t, &galera, interpolated(nodes), nodes[0].with("wsrep_sync_wait=1"))
}

// testTxFaults runs loads on a cluster, of which some have a fault of the last node.
func testTxFaults(t *testing.T, cluster *own, nodes []server, reader server) {
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
		4: freeze(12 * time.Second), // so that the others go on without it
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

// TestGaleraTxPrepares refuses transactions in which the driver prepares statements.
func TestGaleraTxPrepares(t *testing.T) {
	nodes := galeraServers(t)
	db := nodes[0].open(t)
	store, p := nodes[0].store(t, db, nil), once("limit", 1)
	for range 2 {
		err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
			return runtime.NewLimiter(store).WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context())
		})
		assert.ErrorContains(t, err, "set interpolateParams=true in the data source name")
	}
	assert.EqualValues(t, 1, left(t, store, p))
}

// TestGaleraTxAborted has transactions end without an error, as when another node aborts one while the server prepares or
// closes a statement. That is a matter of microseconds, so a ROLLBACK stands in for it.
func TestGaleraTxAborted(t *testing.T) {
	nodes := interpolated(galeraServers(t))
	db := nodes[0].open(t)
	store, p := nodes[0].store(t, db, nil), once("limit", 10)
	require.NoError(t, store.Ready(t.Context()))
	take := func(tx runtime.Tx) error {
		return runtime.NewLimiter(store).WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context())
	}
	abort := func(tx *sql.Tx) {
		_, err := tx.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
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
	assert.EqualValues(t, 9, left(t, store, p), "noticed before the commit")

	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, take(tx))
	abort(tx)
	assert.ErrorAs(t, take(tx), new(*sqlstore.RetryTxError))
	require.NoError(t, tx.Commit())
	assert.EqualValues(t, 9, left(t, store, p), "noticed by the next call, which takes nothing")

	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	assert.ErrorContains(t, take(conn), "the transaction is no longer open", "none was begun")
	assert.EqualValues(t, 9, left(t, store, p))
}

// TestGaleraOwnTxAborted does so with a transaction of the store's own, after it has read a row, when it prepares the
// statement that writes it: what others have taken meanwhile stays taken.
func TestGaleraOwnTxAborted(t *testing.T) {
	node := galeraServers(t)[0]
	table := newTable()
	others := node.storeIn(t, node.open(t), table, nil)
	p := &runtime.Policy{Name: "sliding", Kind: runtime.SlidingWindow, Rate: 10, Capacity: 10, Period: runtime.MaxPeriod}
	take := func(store *sqlstore.Store) {
		require.NoError(t, runtime.NewLimiter(store).Limit(p, runtime.Key{}).Require(context.Background()))
	}
	take(others)

	config, err := mysql.ParseDSN(node.dsn)
	require.NoError(t, err)
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
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
	store, err := sqlstore.New(db, sqlstore.MariaDB, sqlstore.Options{Table: table})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.Ready(t.Context()))
	conn, err := db.Conn(t.Context()) // the one that has all statements prepared
	require.NoError(t, err)
	defer conn.Close()
	armed.Store(true)
	take(store)
	assert.False(t, armed.Load())
	assert.EqualValues(t, 5, left(t, others, p))
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

// mysqlConn is what a connection of the driver can do.
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

// TestGaleraTxRefused has a node that refuses all queries, as one does that has lost the others, when a transaction is
// to end. It stays open on the connection, which is not used again: neither do later transactions fail to begin on it,
// nor do they commit what is left of it.
func TestGaleraTxRefused(t *testing.T) {
	node := interpolated(galeraServers(t))[0]
	admin, db := node.open(t), node.open(t)
	db.SetMaxOpenConns(1)
	store, p := node.store(t, db, nil), once("limit", 10)
	require.NoError(t, store.Ready(t.Context()))
	reject := func(what string) {
		_, err := admin.ExecContext(context.Background(), "SET GLOBAL wsrep_reject_queries = "+what)
		require.NoError(t, err)
	}
	defer reject("NONE")

	err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
		defer reject("ALL")
		return runtime.NewLimiter(store).WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context())
	})
	assert.ErrorContains(t, err, "Error 1047")
	reject("NONE")
	require.NoError(t, sqlstore.RunInTx(t.Context(), db, func(*sql.Tx) error { return nil }))
	assert.EqualValues(t, 10, left(t, store, p))

	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, runtime.NewLimiter(store).WithTx(tx).Limit(p, runtime.Key{}).Require(t.Context()))
	reject("ALL")
	assert.ErrorContains(t, tx.Commit(), "Error 1047")
	reject("NONE")
	require.NoError(t, runtime.NewLimiter(store).Limit(p, runtime.Key{}).Require(t.Context()), "on a connection that was left in a transaction")
	assert.EqualValues(t, 9, left(t, store, p))
}
