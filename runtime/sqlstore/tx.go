package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

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
	switch {
	case err != nil && retryable(err):
		return nil, &RetryTxError{err}
	case errors.Is(err, errInvisibleTable):
		return nil, &hintedError{t.store.fillIn(missingTableInTx), errInvisibleTable}
	case hintFor(err) == missingTable:
		// The transaction may be one of another database than the store's.
		return nil, &hintedError{t.store.fillIn(missingTableInTx), err}
	}
	return answers, t.store.withHint(err)
}

// decideGuarded is decide for servers that may abort a transaction without reporting it: before or during the
// call, which the check after it detects, or later, which the commit reports or [RunInTx] detects.
func (t *callerTxStore) decideGuarded(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	guarded, err := t.store.admit(ctx, t.tx)
	if err != nil {
		return nil, err
	}
	answers, err := t.decide(ctx, calls)
	if err != nil || !guarded {
		return answers, err
	}
	if err := requireOpen(ctx, t.tx, t.store.dialect.TxOpen); err != nil {
		return nil, err
	}
	return answers, nil
}

func (t *callerTxStore) decide(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
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
		// The durability of the transaction is its owner's choice.
		l := newRowLock(callerTx{t.tx, &t.store.queries}, b.Rows(), runtime.DurabilityDefault)
		// Seeding first: a deadlock that reading first may cause could not be retried here.
		if err := l.lock(ctx, t.store.lockOrder(seedFirst)); err != nil {
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

// RunInTx runs fn in a transaction of db and commits it, and runs it again if it has conflicted with another transaction:
// after a [*RetryTxError] from fn, or a deadlock or serialization failure from fn or the commit. fn must have no effects
// outside of the transaction, must use no connection but tx, and must not end it.
//
// On a Galera cluster, if a store was used in tx, RunInTx checks that the transaction is still open before it commits, and
// otherwise runs fn again.
//
// While a store in db waits for a database that does not respond, so does RunInTx, before it begins a transaction.
//
// The error is that of fn, of the commit, or of ctx. If fn returns an error, the transaction is rolled back. If ctx ends
// during the commit, the transaction may have been committed although there is an error.
func RunInTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	return retry(ctx, func() error { return inTx(ctx, db, fn) })
}

// inTx runs fn in one transaction. It returns soon after ctx has ended, unless fn does not return: a call of the driver that
// has not returned by then continues in the background.
func inTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	t, err := through(ctx, circuitOf(db), db, func() (*connTx, error) {
		return await(ctx, func() (*connTx, error) { return beginOn(ctx, db) }, (*connTx).abandon)
	})
	if err != nil {
		return err
	}
	open, err := t.run(db, fn)
	_, ended := await(ctx, func() (struct{}, error) { return struct{}{}, t.end(ctx, open, err) }, nil)
	return ended
}

// connTx is a transaction on a connection of its own.
type connTx struct {
	conn *sql.Conn
	tx   *sql.Tx
}

// run runs fn, and rolls the transaction back if fn panics. See runInTxTransactions for open.
func (t *connTx) run(db *sql.DB, fn func(tx *sql.Tx) error) (open string, err error) {
	running := &runInTx{db: db, began: time.Now()}
	returned := false
	defer func() {
		runInTxTransactions.Delete(t.tx)
		// fn has panicked: without this the connection would never return to the pool.
		if !returned {
			t.abandon()
		}
	}()
	runInTxTransactions.Store(t.tx, running)
	err = fn(t.tx)
	returned = true
	if set := running.open.Load(); set != nil {
		open = *set
	}
	return open, err
}

// end commits the transaction, if err is nil and it is still open, and otherwise rolls it back.
func (t *connTx) end(ctx context.Context, open string, err error) error {
	defer t.abandon()
	if err == nil && open != "" {
		err = requireOpen(ctx, t.tx, open)
	}
	if err != nil {
		return err
	}
	return commit(ctx, t.conn, t.tx)
}

// beginOn begins a transaction on a connection of a pool.
func beginOn(ctx context.Context, db *sql.DB) (*connTx, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err == nil {
		return &connTx{conn, tx}, nil
	}
	defer conn.Close()
	if errors.Is(err, driver.ErrBadConn) {
		return nil, &RetryTxError{err} // on another connection: nothing was sent on this one
	}
	return nil, ended(conn, err)
}

// abandon rolls the transaction back, if it has not ended, and returns the connection to its pool.
func (t *connTx) abandon() {
	rollback(t.conn, t.tx)
	t.conn.Close()
}

// commit commits a transaction on a connection of its own. If ctx ends meanwhile, the outcome is unknown: lib/pq then
// cancels the wait for a synchronous standby, Postgres reports success, and a failover may lose the transaction.
func commit(ctx context.Context, conn *sql.Conn, tx *sql.Tx) error {
	if err := ended(conn, tx.Commit()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the transaction may have been committed: %w", err)
	}
	return nil
}

// rollback rolls a transaction back unless it has ended.
func rollback(conn *sql.Conn, tx *sql.Tx) { ended(conn, tx.Rollback()) }

// ended returns err, and closes the connection if the server has refused to begin or end a transaction, as a Galera node
// does that has lost the others. The transaction is then still open, and if the connection returned to the pool, the next
// transaction on it could not begin, or would commit this one.
func ended(conn *sql.Conn, err error) error {
	if number := mysqlNumber(err); number == txInProgress || number != 0 && !retryable(err) {
		conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

// txAborts is how the server reports that it has aborted a transaction between two statements.
type txAborts = int32

const (
	abortsUnknown txAborts = iota
	// abortsReported: the next statement fails.
	abortsReported
	// abortsDiscarded: a command that prepares or closes a statement discards the error, but the driver sends such
	// commands only if the caller prepares a statement.
	abortsDiscarded
)

// admit reports whether the store must check that tx is open. It returns an error for a driver that prepares statements by
// itself: the caller's statements after an abort would be committed alone, without the tokens.
func (s *Store) admit(ctx context.Context, tx runtime.Tx) (guarded bool, err error) {
	if s.dialect.TxOpen == "" {
		return false, nil
	}
	if s.aborts.Load() == abortsUnknown {
		aborts, err := s.detectAborts(ctx, tx)
		if err != nil {
			return false, err
		}
		s.aborts.Store(aborts)
	}
	if s.aborts.Load() == abortsReported {
		return false, nil
	}
	if open, ok := inRunInTx(tx); ok {
		open.Store(&s.dialect.TxOpen)
	}
	return true, nil
}

// detectAborts returns how aborts are reported, or an error for a driver that may hide them.
func (s *Store) detectAborts(ctx context.Context, tx runtime.Tx) (txAborts, error) {
	err := tx.QueryRowContext(ctx, s.dialect.RepeatsStatements).Scan(new(string))
	if errors.Is(err, sql.ErrNoRows) {
		// The server is not a node of a cluster.
		return abortsReported, nil
	}
	if err != nil {
		return abortsUnknown, s.explainServer(err)
	}
	prepares, err := s.prepares(ctx, tx)
	if err == nil && prepares {
		err = &hintedError{preparesOnGalera, nil}
	}
	return abortsDiscarded, err
}

// preparesOnGalera is the hint for a driver that prepares statements in transactions.
const preparesOnGalera = "a Galera node may abort a transaction without an error if statements are prepared in it, as this driver " +
	"does: set interpolateParams=true in the data source name, and prepare no statements in the transaction"

// prepares reports whether the driver prepares statements with arguments.
func (s *Store) prepares(ctx context.Context, tx runtime.Tx) (bool, error) {
	count, err := s.dialect.compile(s.dialect.CountPrepared, rowSource{}, s.table)
	if err != nil {
		return false, err
	}
	// If the driver prepares the statement that counts, the second count includes the first statement.
	var counts [2]int64
	for i := range counts {
		if err := tx.QueryRowContext(ctx, count.sql, s.dialect.Name).Scan(&counts[i]); err != nil {
			return false, err
		}
	}
	return counts[1] > counts[0], nil
}

// runInTxTransactions are the transactions of RunInTx while their functions run.
var runInTxTransactions sync.Map // *sql.Tx to *runInTx

type runInTx struct {
	db    *sql.DB
	began time.Time
	// open is the statement that selects whether the transaction is open, if a store needs that to be checked before the
	// commit. A call that has returned because its context ended may still set it.
	open atomic.Pointer[string]
}

// oldestRunInTx returns for how long the oldest transaction of RunInTx in a pool has been in flight, or 0.
func oldestRunInTx(db *sql.DB) (age time.Duration) {
	runInTxTransactions.Range(func(_, tx any) bool {
		if running := tx.(*runInTx); running.db == db {
			age = max(age, time.Since(running.began))
		}
		return true
	})
	return age
}

// inRunInTx returns where to set that statement, if tx is a transaction of RunInTx.
func inRunInTx(tx runtime.Tx) (open *atomic.Pointer[string], ok bool) {
	sqlTx, ok := tx.(*sql.Tx)
	if !ok {
		return nil, false
	}
	found, ok := runInTxTransactions.Load(sqlTx)
	if !ok {
		return nil, false
	}
	return &found.(*runInTx).open, true
}

// requireOpen returns an error if the session is not in a transaction.
func requireOpen(ctx context.Context, tx runtime.Tx, statement string) error {
	var open bool
	// Without parameters no driver prepares it, so that the server reports an abort that has just happened.
	err := tx.QueryRowContext(ctx, statement).Scan(&open)
	if err == nil && !open {
		return errTxEnded
	}
	return err
}
