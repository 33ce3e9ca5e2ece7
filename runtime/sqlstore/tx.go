package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/batch"
)

// WithTx implements [runtime.TxStore]. In the transaction, the rows of the calls are locked until it ends: call it last, and
// keep the transaction short.
//
// On a Galera cluster, another node can abort the transaction between two statements, and the server does not report it
// if the next command prepares or closes a statement: later statements then run outside of the transaction, and the
// commit succeeds. So connect with interpolateParams=true there, without which calls return an error, and prepare no
// statements in the transaction.
func (s *Store) WithTx(tx runtime.Tx) runtime.Store { return &callerTxStore{s, tx} }

// callerTxStore is a store in a transaction of the caller: it never retries and never commits.
type callerTxStore struct {
	store *Store
	tx    runtime.Tx
}

// Do implements [runtime.Store].
func (t *callerTxStore) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := t.store.usable(); err != nil {
		return nil, err
	}
	if isNil(t.tx) {
		return nil, runtime.ErrNilTx
	}
	answers, err := await(ctx, func() ([]runtime.Answer, error) { return t.decideGuarded(ctx, calls) }, nil)
	t.store.denials.InTx(calls, answers)
	switch {
	case err != nil && retryable(err):
		return nil, &RetryTxError{err}
	case errors.Is(err, errInvisibleTable):
		return nil, &hintedError{t.store.prepared.fillIn(missingTableInTx), errInvisibleTable}
	case hintFor(err) == missingTable:
		// The transaction may be one of another database than the store's.
		return nil, &hintedError{t.store.prepared.fillIn(missingTableInTx), err}
	}
	return answers, t.store.prepared.withHint(err)
}

// decideGuarded is decide for servers that may abort a transaction without reporting it: before or during the
// call, which the check after it detects, or later, which the commit reports or [RunInTx] detects.
func (t *callerTxStore) decideGuarded(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	guarded, err := t.store.prepared.admit(ctx, t.tx)
	if err != nil {
		return nil, err
	}
	answers, err := t.decide(ctx, calls)
	if err != nil || !guarded {
		return answers, err
	}
	if err := requireOpen(ctx, t.tx, t.store.prepared.dialect.TxOpen); err != nil {
		return nil, err
	}
	return answers, nil
}

func (t *callerTxStore) decide(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if !t.store.prepared.checked.Load() {
		if err := t.store.prepared.check(ctx, t.tx); err != nil {
			return nil, err
		}
	}
	now, err := t.store.prepared.now(ctx, t.tx)
	if err != nil {
		return nil, err
	}
	b := batch.New(calls)
	for {
		// The durability of the transaction is its owner's choice.
		l := newRowLock(callerTx{t.tx, &t.store.prepared.queries}, b.Rows(), runtime.DurabilityDefault)
		// Seeding first: a deadlock that reading first may cause could not be retried here.
		if err := l.lock(ctx, orderFor(&t.store.prepared.dialect, seedFirst)); err != nil {
			return nil, err
		}
		if done, err := l.run(ctx, b, now()); err != nil {
			return nil, err
		} else if !done {
			continue
		}
		if err := l.write(ctx, b.Changes()); err != nil {
			return nil, err
		}
		return b.Answers(), nil
	}
}

// isNil reports whether tx is nil, or a nil pointer in the interface.
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






