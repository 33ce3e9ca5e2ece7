package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// txLoad is callers on all nodes of a cluster. Each transaction takes a token and inserts a row.
type txLoad struct {
	nodes []txNode
	// reader is a node whose reads wait for the commits of the others.
	reader live.Server
	policy *runtime.Policy
	// table is the table of the store, and log that of the callers' rows.
	table, log string
	style      txStyle
	// patience is the timeout of a transaction.
	patience time.Duration

	mu sync.Mutex
	// committed counts the transactions whose commit has succeeded, unknown those that failed and may be committed.
	committed, unknown, denied int64
	failures                   map[string]int
}

type txNode struct {
	db    *sql.DB
	store *sqlstore.Store
}

// txKeys is how many keys the callers share, and txCallers how many callers a node has.
const txKeys, txCallers = 3, 4

// newTxLoad returns a load on the nodes, in new tables, with a limit of capacity tokens for each key.
func newTxLoad(t *testing.T, nodes []live.Server, reader live.Server, style txStyle, capacity int64) *txLoad {
	t.Helper()
	table := live.NewTable()
	l := &txLoad{
		reader: reader, policy: live.Once("limit", capacity), table: table, log: table + "_log", style: style, patience: time.Minute,
		failures: map[string]int{},
	}
	db := nodes[0].Open(t)
	l.nodes = []txNode{{db, nodes[0].StoreIn(t, db, table, nil)}}
	live.Execute(t, db, "CREATE TABLE "+l.log+" (id VARCHAR(64) PRIMARY KEY)")
	t.Cleanup(func() { db.Exec("DROP TABLE " + l.log) })
	for _, s := range nodes[1:] {
		db := s.Open(t)
		l.nodes = append(l.nodes, txNode{db, s.Join(t, db, table, nil)})
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
					<-time.After(10 * time.Millisecond) // without it, a node that is down would be flooded with connections
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

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
			return limiter.New(n.store).WithTx(tx).Limit(l.policy, live.KeyOf(rand.IntN(txKeys))).Require(ctx)
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

// record counts the outcome of a transaction, and reports whether the node has answered.
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

// conflicts reports whether the transaction was aborted because of a conflict, without an effect.
func conflicts(err error) bool {
	var said *mysql.MySQLError
	return errors.As(err, new(*sqlstore.RetryTxError)) ||
		errors.As(err, &said) && (said.Number == 1213 || said.Number == 1180 || said.Number == 3101)
}

// count returns how many transactions are committed, may be committed, and were denied.
func (l *txLoad) count() (committed, unknown, denied int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committed, l.unknown, l.denied
}

// finish requires that the tokens stored as taken are those of the committed transactions.
func (l *txLoad) finish(t *testing.T) {
	t.Helper()
	committed, unknown, denied := l.count()
	var tokens, rows int64
	for k := range txKeys {
		tokens += l.policy.Capacity - int64(l.left(t, live.KeyOf(k)))
	}
	require.NoError(t, l.reader.Open(t).QueryRow("SELECT COUNT(*) FROM "+l.log).Scan(&rows))
	label := l.style.name
	t.Logf("%s: %d committed, %d unknown, %d denied; %d tokens of %d and %d rows stored",
		label, committed, unknown, denied, tokens, l.policy.Capacity*txKeys, rows)
	for text, n := range l.failures {
		t.Logf("%s: %d times: %s", label, n, text)
	}
	if l.style.prepare { // after an abort, only the row may have been inserted
		assert.LessOrEqual(t, tokens, rows)
	} else {
		assert.Equal(t, rows, tokens, "each row has its token")
	}
	assert.LessOrEqual(t, committed, tokens, "tokens of committed transactions are stored")
	assert.LessOrEqual(t, tokens, committed+unknown)
	assert.LessOrEqual(t, tokens, l.policy.Capacity*txKeys)
}

// left returns how many tokens a key has according to its row.
func (l *txLoad) left(t *testing.T, key runtime.Key) (value float64) {
	t.Helper()
	row := l.reader.Open(t).QueryRow("SELECT value FROM "+l.table+" WHERE name = ? AND `key` = ?", l.policy.Name, key.String())
	err := row.Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return float64(l.policy.Capacity)
	}
	require.NoError(t, err)
	return float64(l.policy.Capacity) + value
}

// txStyle is a way to write a transaction.
type txStyle struct {
	name string
	// runInTx: by RunInTx. takeFirst: take before the insert. prepare: prepare the insert.
	runInTx, takeFirst, prepare bool
}

var txStyles = []txStyle{
	{"RunInTx, take last", true, false, false},
	{"RunInTx, take first", true, true, false},
	{"RunInTx, take first, prepare", true, true, true},
	{"own commit, take last", false, false, false},
	{"own commit, take first", false, true, false},
}
