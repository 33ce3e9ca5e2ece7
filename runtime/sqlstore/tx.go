package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// RetryTxError says that the caller's transaction met another one, and cannot go on: roll it back and run
// it again from its beginning, which may well succeed. [RunInTx] does so.
type RetryTxError struct {
	// Err is what the database said.
	Err error
}

// Error says what to do, and why.
func (e *RetryTxError) Error() string {
	return fmt.Sprintf("run your transaction again: %v", e.Err)
}

// Unwrap returns what the database said.
func (e *RetryTxError) Unwrap() error { return e.Err }

// WithTx implements [runtime.TxStore]. In the transaction, the rows that are taken from are locked until
// it ends: take last, and keep it short.
func (s *Store) WithTx(tx runtime.Tx) runtime.Store { return &txStore{s, tx} }

// txStore is a store in a transaction of the caller: it never retries and never commits.
type txStore struct {
	store *Store
	tx    runtime.Tx
}

// Do implements [runtime.Store].
func (t *txStore) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := t.store.usable(); err != nil {
		return nil, err
	}
	if isNil(t.tx) {
		return nil, runtime.ErrNilTx
	}
	answers, err := t.answer(ctx, calls)
	if err != nil && retryable(err) {
		return nil, &RetryTxError{err}
	}
	return answers, t.store.advise(err)
}

func (t *txStore) answer(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if !t.store.checked.Load() {
		if err := t.store.check(ctx, t.tx); err != nil {
			return nil, err
		}
	}
	now, err := t.store.now(ctx, t.tx)
	if err != nil {
		return nil, err
	}
	b := runtime.NewBatch(calls)
	for {
		// When the transaction is on the disk is for its owner to say.
		l := newRowLock(callers{t.tx, &t.store.texts}, b.Rows(), runtime.DurabilityDefault)
		if err := l.lock(ctx, t.store.locking(seedFirst)); err != nil {
			return nil, err
		}
		if !b.Run(now(), l.states) {
			continue
		}
		if err := l.write(ctx, b.Changes()); err != nil {
			return nil, err
		}
		return b.Answers(), nil
	}
}

// isNil reports whether there is no transaction, be it in a variable of the type of one.
func isNil(tx runtime.Tx) bool {
	switch tx := tx.(type) {
	case nil:
		return true
	case *sql.Tx:
		return tx == nil
	case *sql.Conn:
		return tx == nil
	}
	return false
}

// RunInTx runs fn in a transaction of db and commits it, and does so again if it met another one: after a
// [*RetryTxError] from fn, or another error of the kind, also from the commit. fn must have no other
// effects than those in the transaction, and must use no connection but tx.
//
// The error is that of fn, of the commit, or of ctx. If fn returns one, the transaction is rolled back.
func RunInTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	return retry(ctx, func() error { return inTx(ctx, db, fn) })
}

// inTx runs fn in one transaction.
func inTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}
