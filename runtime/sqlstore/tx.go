package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/registry"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// WithTx implements [runtime.TxStore]. In the transaction, the rows of the calls are locked until it ends: call it last, and
// keep the transaction short.
//
// On a Galera cluster, another node can abort the transaction between two statements, and the server does not report it
// if the next command prepares or closes a statement: later statements then run outside of the transaction, and the
// commit succeeds. So connect with interpolateParams=true there, without which calls return an error, and prepare no
// statements in the transaction.
//
// On Vitess, a transaction that has lasted longer than transaction_timeout is rolled back, and its next statement fails. A
// statement after that one would begin another transaction, which then commits without the first part: after an error, roll
// back.
func (s *Store) WithTx(tx runtime.Tx) runtime.Store { return &callerTxStore{s, tx} }

// WithConn implements [runtime.TxStore]. Each call begins with a statement by which the database says whether a
// transaction is open. For the rest it is [Store.WithTx].
func (s *Store) WithConn(c *sql.Conn) runtime.Store { return &callerTxStore{s, c} }

// callerTxStore is a store in a transaction of the caller: it never retries and never commits.
type callerTxStore struct {
	store *Store
	tx    conn.Runner
}

// Do implements [runtime.Store].
func (t *callerTxStore) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	answers, err := inTx(ctx, t, func(ctx context.Context) ([]runtime.Answer, error) { return t.decide(ctx, calls) })
	if t.store.usable() == nil {
		t.store.denials.InTx(calls, answers)
	}
	return answers, err
}

// inTx executes a request in the transaction, and explains its error.
func inTx[T any](ctx context.Context, t *callerTxStore, request func(ctx context.Context) (T, error)) (result T, err error) {
	if err := t.store.usable(); err != nil {
		return result, err
	}
	result, err = conn.Bounded(ctx, func(ctx context.Context) (T, error) { return guarded(ctx, t, request) })
	err = fault.Cut(err)
	switch {
	case err != nil && fault.Retryable(err):
		err = &RetryTxError{err}
	case errors.Is(err, conn.ErrInvisibleTable):
		err = &fault.Hinted{Text: t.store.server.FillIn(fault.MissingTableInTx), Err: conn.ErrInvisibleTable}
	case fault.NoTable(err):
		// The transaction may be one of another database than the store's.
		err = &fault.Hinted{Text: t.store.server.FillIn(fault.MissingTableInTx), Err: err}
	default:
		err = t.store.server.ExplainSession(ctx, t.tx, t.store.server.WithHint(err))
	}
	return result, err
}

// guarded executes a request for servers that may abort a transaction without reporting it: before or during the
// request, which the check after it detects, or later, which the commit reports or [RunInTx] detects.
func guarded[T any](ctx context.Context, t *callerTxStore, request func(ctx context.Context) (T, error)) (result T, err error) {
	if err := t.store.server.RequireBegun(ctx, t.tx); err != nil {
		return result, err
	}
	mayAbort, err := t.store.server.Admit(ctx, t.tx)
	if err != nil {
		return result, err
	}
	if !t.store.server.Checked.Load() {
		if err := t.locate(ctx); err != nil {
			return result, err
		}
		if err := t.store.server.Check(ctx, t.reads()); err != nil {
			return result, err
		}
	}
	did, err := request(ctx)
	if err == nil && mayAbort {
		err = conn.RequireOpen(ctx, t.tx, t.store.server.Dialect.TxOpen)
	}
	if err != nil {
		return result, err
	}
	return did, nil
}

// locate finds the tables. A vtgate would make each shard that it reads meanwhile a part of the transaction, so that another
// connection does it there, which checks them too.
func (t *callerTxStore) locate(ctx context.Context) error {
	if t.mayBeSharded() {
		_, err := t.store.prepared.PrepareRetrying(ctx)
		return err
	}
	return t.store.prepared.LocateFor(ctx, t.tx)
}

func (t *callerTxStore) mayBeSharded() bool { return t.store.server.Dialect.Keyspaces != "" }

// reads returns the transaction for reads of settings and the clock, or the pool if that would make a shard a part of the
// transaction.
func (t *callerTxStore) reads() conn.Querier {
	if t.mayBeSharded() {
		return t.store.server.DB
	}
	return t.tx
}

// now returns the clock of the store.
func (t *callerTxStore) now(ctx context.Context) (func() int64, error) {
	return t.store.server.Now(ctx, t.reads())
}

func (t *callerTxStore) decide(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, err error) {
	var refused registry.Refusals
	if t.mayBeSharded() {
		refused, err = t.store.registry.Refuse(ctx, calls)
	} else {
		refused, err = t.store.registry.RefuseInTx(ctx, t.tx, calls)
	}
	if err != nil {
		return nil, err
	}
	if admitted := refused.Admitted(calls); len(admitted) > 0 {
		if err := t.onOneShard(ctx, admitted); err != nil {
			return nil, err
		}
		answers, err = t.decideAdmitted(ctx, admitted)
	}
	return refused.Answers(answers), err
}

// onOneShard returns an error if the keys of calls lie on several shards: the transaction could not write to all of them.
func (t *callerTxStore) onOneShard(ctx context.Context, calls []runtime.Call) error {
	if !t.store.server.Sharded() {
		return nil
	}
	var all runtime.Call
	for _, c := range calls {
		all.Requests = append(all.Requests, c.Requests...)
	}
	places, err := t.store.server.PlacesIn(ctx, t.tx, table.FirstParts([]runtime.Call{all}))
	if err == nil {
		_, err = table.PlaceOf(&all, places)
	}
	return err
}

func (t *callerTxStore) decideAdmitted(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	now, err := t.now(ctx)
	if err != nil {
		return nil, err
	}
	b := batch.New(calls)
	for {
		// The durability of the transaction is its owner's choice.
		l := table.NewRowLock(t.store.server.In(t.tx), b.Rows(), runtime.DurabilityDefault)
		// Seeding first: a deadlock that reading first may cause could not be retried here.
		if err := l.Lock(ctx, table.OrderFor(&t.store.server.Dialect, table.SeedFirst)); err != nil {
			return nil, err
		}
		if !b.Run(now(), l.States) {
			continue
		}
		if err := l.Write(ctx, b.Changes()); err != nil {
			return nil, err
		}
		return b.Answers(), nil
	}
}

// RunInTx runs fn in a transaction of db and commits it, and runs it again if it has conflicted with another transaction:
// after a [*RetryTxError] from fn, or a deadlock or serialization failure from fn or the commit. fn must have no effects
// outside of the transaction, must use no connection but tx, and must not end it.
//
// On a Galera cluster, if a store was used in tx, RunInTx checks that the transaction is still open before it commits, and
// otherwise runs fn again.
//
// While a store in db waits for a database that does not respond, so does RunInTx, before it begins a transaction.
//
// If ctx has no deadline, the transaction is begun within [Timeout], and committed or rolled back within another one, also
// on a connection that does not respond. Each call of a store in it is bounded in the same way, and the statements of fn by
// the contexts that fn gives them.
//
// The error comes from fn, the commit or ctx. If fn returns an error, the transaction is rolled back. If ctx ends
// during the commit, or the commit has no response, the error is an [ErrOutcomeUnknown].
func RunInTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	return conn.RunInTx(ctx, db, fn)
}

// RetryTxError means that the caller's transaction has conflicted with another one (deadlock, serialization failure) and
// cannot continue: roll it back and run it again from its beginning, which may succeed. [RunInTx] does so.
type RetryTxError struct {
	// Err is the database's error.
	Err error
}

// Error returns the remedy and the database's error.
func (e *RetryTxError) Error() string {
	return fmt.Sprintf("run your transaction again: %v", e.Err)
}

// Unwrap returns the database's error.
func (e *RetryTxError) Unwrap() error { return e.Err }
