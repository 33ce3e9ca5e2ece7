package runtime

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
)

// ErrTxConflict is the error of [MemTx.Commit] if a key that was used in the transaction has changed outside of it: nothing
// was taken, and the transaction must be run again from its beginning.
var ErrTxConflict = errors.New("the transaction has conflicted with another request: run it again")

// errNoSQL is the error of every statement in a [MemTx].
var errNoSQL = errors.New("a runtime.MemTx has no database: run SQL statements in a transaction of one")

// MemTx is a transaction of a [MemStore]. With it, code that takes tokens in its own transaction can be tested without a
// database, if it takes a [Tx] and not an [sql.Tx]:
//
//	tx := store.Begin()
//	err := limits.WithTx(tx).SendMessage(42).Require(ctx)
//	err = tx.Commit() // or tx.Rollback()
//
// Tokens are taken if and only if Commit returns nil; until then only the transaction counts them. A MemTx locks nothing,
// where a database makes other requests for the same keys wait: such requests make Commit return [ErrTxConflict]. SQL
// statements in it are errors. It may be used by many goroutines at once.
type MemTx struct {
	store *MemStore

	mu    sync.Mutex
	ended bool
	// read has the rows that were used, as they were in the store, and written those that have changed.
	read, written map[Row]State
}

// Begin returns a transaction, which ends with Commit or Rollback.
func (m *MemStore) Begin() *MemTx {
	return &MemTx{store: m, read: map[Row]State{}, written: map[Row]State{}}
}

// WithTx implements [TxStore]. The transaction must be one of Begin, of this store: otherwise the error of all calls is
// [ErrNoTx], or [ErrNilTx] for nil.
func (m *MemStore) WithTx(tx Tx) Store { return memTxStore{m, tx} }

// memTxStore is a [MemStore] in a transaction.
type memTxStore struct {
	store *MemStore
	tx    Tx
}

// Do implements [Store].
func (s memTxStore) Do(ctx context.Context, calls []Call) ([]Answer, error) {
	t, ok := s.tx.(*MemTx)
	switch {
	case s.tx == nil || ok && t == nil:
		return nil, ErrNilTx
	case !ok || t.store != s.store:
		return nil, fmt.Errorf("%w of a %T: pass one that the Begin of this MemStore has returned", ErrNoTx, s.tx)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return t.do(calls)
}

func (t *MemTx) do(calls []Call) ([]Answer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, sql.ErrTxDone
	}
	now, b := t.store.now(), NewBatch(calls)
	for !b.Run(now, t.readLocked(b.Rows())) {
	}
	for _, c := range b.Changes() {
		t.written[c.Row] = c.State
	}
	return b.Answers(), nil
}

// readLocked returns rows as the transaction has left them.
func (t *MemTx) readLocked(rows []Row) []State {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	states := make([]State, len(rows))
	for i, row := range rows {
		if _, ok := t.read[row]; !ok {
			t.read[row] = t.store.rows[row]
		}
		states[i] = t.read[row]
		if s, ok := t.written[row]; ok {
			states[i] = s
		}
	}
	return states
}

// Commit takes the tokens. The error is [ErrTxConflict], or [sql.ErrTxDone] if the transaction has ended already; then
// nothing is taken.
func (t *MemTx) Commit() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return sql.ErrTxDone
	}
	t.ended = true
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	for row, s := range t.read {
		if t.store.rows[row] != s {
			return ErrTxConflict
		}
	}
	for row, s := range t.written {
		t.store.writeLocked([]Change{{row, s}})
	}
	return nil
}

// Rollback ends the transaction and takes nothing. The error is [sql.ErrTxDone] if it has ended already.
func (t *MemTx) Rollback() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return sql.ErrTxDone
	}
	t.ended = true
	return nil
}

// ExecContext implements [Tx]. It returns an error, because there is no database.
func (t *MemTx) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, errNoSQL
}

// QueryContext implements [Tx]. It returns an error, because there is no database.
func (t *MemTx) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errNoSQL
}

// QueryRowContext implements [Tx]. The Scan of its result returns an error, because there is no database.
func (t *MemTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	// Only a database can make an sql.Row.
	db := sql.OpenDB(noDatabase{})
	defer db.Close()
	return db.QueryRowContext(ctx, query, args...)
}

// noDatabase is a database that cannot be reached.
type noDatabase struct{}

func (noDatabase) Connect(context.Context) (driver.Conn, error) { return nil, errNoSQL }
func (noDatabase) Driver() driver.Driver                        { return nil }
