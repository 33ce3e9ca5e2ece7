package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

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
//
// On a Galera cluster, another node can abort the transaction between two statements, and the server does not report it
// if the next command prepares or closes a statement: later statements then run outside of the transaction, and the
// commit succeeds. So connect with interpolateParams=true there, without which calls return an error, and prepare no
// statements in the transaction.
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
	answers, err := await(ctx, func() ([]runtime.Answer, error) { return t.answerGuarded(ctx, calls) }, nil)
	switch {
	case err != nil && retryable(err):
		return nil, &RetryTxError{err}
	case errors.Is(err, errUnseen):
		return nil, &advised{t.store.say(noTableInTx), errUnseen}
	case remedy(err) == noTable:
		return nil, &advised{t.store.say(noTableInTx), err}
	}
	return answers, t.store.advise(err)
}

// answerGuarded is answer where the server may have aborted the transaction without reporting it: before or during the
// call, which its own check finds, or after it, which the commit reports or [RunInTx] finds.
func (t *txStore) answerGuarded(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	guarded, err := t.store.admit(ctx, t.tx)
	if err != nil {
		return nil, err
	}
	answers, err := t.answer(ctx, calls)
	if err != nil || !guarded {
		return answers, err
	}
	if err := requireOpen(ctx, t.tx, t.store.dialect.TxOpen); err != nil {
		return nil, err
	}
	return answers, nil
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
// effects than those in the transaction, must use no connection but tx, and must not end it.
//
// On a Galera cluster, if a store was used in tx, RunInTx checks that the transaction is still open before it commits, and
// otherwise runs fn again.
//
// The error is that of fn, of the commit, or of ctx. If fn returns one, the transaction is rolled back. If ctx ends during
// the commit, the transaction may have been committed although there is an error.
func RunInTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	return retry(ctx, func() error { return inTx(ctx, db, fn) })
}

// inTx runs fn in one transaction. It returns soon after ctx has ended, unless fn does not: what the driver has not
// returned from by then goes on in the background.
func inTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	t, err := await(ctx, func() (*connTx, error) { return beginOn(ctx, db) }, (*connTx).abandon)
	if err != nil {
		return err
	}
	var open string
	err = t.run(fn, &open)
	_, err = await(ctx, func() (struct{}, error) {
		defer t.abandon()
		if err == nil && open != "" {
			err = requireOpen(ctx, t.tx, open)
		}
		if err == nil {
			err = commit(ctx, t.conn, t.tx)
		}
		return struct{}{}, err
	}, nil)
	return err
}

// connTx is a transaction on a connection of its own.
type connTx struct {
	conn *sql.Conn
	tx   *sql.Tx
}

// run runs fn, and rolls the transaction back if fn panics. See runInTxs for open.
func (t *connTx) run(fn func(tx *sql.Tx) error, open *string) (err error) {
	returned := false
	defer func() {
		runInTxs.Delete(t.tx)
		if !returned {
			t.abandon()
		}
	}()
	runInTxs.Store(t.tx, open)
	err = fn(t.tx)
	returned = true
	return err
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
		return nil, &RetryTxError{err} // by another connection: nothing was sent by this one
	}
	return nil, ended(conn, err)
}

// abandon rolls the transaction back, if it has not ended, and gives the connection back to its pool.
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

// rollback rolls one back that has not ended yet.
func rollback(conn *sql.Conn, tx *sql.Tx) { ended(conn, tx.Rollback()) }

// ended returns err, with which the server has refused to end or to begin a transaction, as a Galera node does that has
// lost the others. The transaction is then still open, and the connection must not go back to the pool: the next
// transaction on it could not begin, or would commit this one.
func ended(conn *sql.Conn, err error) error {
	if number := mysqlNumber(err); number == txInProgress || number != 0 && !retryable(err) {
		conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

// txAborts is what is known of how the server reports that it has aborted a transaction between two statements.
type txAborts = int32

const (
	abortsUnknown txAborts = iota
	// abortsReported: the next statement fails.
	abortsReported
	// abortsDiscarded: a command that prepares or closes a statement discards the error, but the driver sends such
	// commands only if the caller prepares a statement.
	abortsDiscarded
)

// admit reports whether the store must check that tx is open. The error is about a driver that prepares statements by
// itself: what the caller runs after an abort would be committed alone, and the commit would succeed without the tokens.
func (s *Store) admit(ctx context.Context, tx runtime.Tx) (guarded bool, err error) {
	if s.dialect.TxOpen == "" {
		return false, nil
	}
	if s.aborts.Load() == abortsUnknown {
		aborts, err := s.learnAborts(ctx, tx)
		if err != nil {
			return false, err
		}
		s.aborts.Store(aborts)
	}
	if s.aborts.Load() == abortsReported {
		return false, nil
	}
	if open, ok := inRunInTx(tx); ok {
		*open = s.dialect.TxOpen
	}
	return true, nil
}

// learnAborts finds out how aborts are reported. The error is also about a driver by which they may not be.
func (s *Store) learnAborts(ctx context.Context, tx runtime.Tx) (txAborts, error) {
	err := tx.QueryRowContext(ctx, s.dialect.Repeats).Scan(new(string))
	if errors.Is(err, sql.ErrNoRows) {
		return abortsReported, nil
	}
	if err != nil {
		return abortsUnknown, err
	}
	prepares, err := s.prepares(ctx, tx)
	if err == nil && prepares {
		err = &advised{preparesOnGalera, nil}
	}
	return abortsDiscarded, err
}

// preparesOnGalera is what to do about a driver that prepares statements in transactions.
const preparesOnGalera = "a Galera node may abort a transaction without an error if statements are prepared in it, as this driver " +
	"does: set interpolateParams=true in the data source name, and prepare no statements in the transaction"

// prepares reports whether the driver prepares a statement with arguments: then it counts itself.
func (s *Store) prepares(ctx context.Context, tx runtime.Tx) (bool, error) {
	count, err := s.dialect.compile(s.dialect.Prepared, given{}, s.table)
	if err != nil {
		return false, err
	}
	var counts [2]int64
	for i := range counts {
		if err := tx.QueryRowContext(ctx, count.sql, s.dialect.Name).Scan(&counts[i]); err != nil {
			return false, err
		}
	}
	return counts[1] > counts[0], nil
}

// runInTxs holds the transactions of RunInTx, each with the statement that selects whether it is open, if a store has
// asked for that to be checked before the commit.
var runInTxs sync.Map // *sql.Tx to *string

// inRunInTx returns where to ask for the check, if tx is a transaction of RunInTx.
func inRunInTx(tx runtime.Tx) (open *string, ok bool) {
	own, ok := tx.(*sql.Tx)
	if !ok {
		return nil, false
	}
	found, ok := runInTxs.Load(own)
	if !ok {
		return nil, false
	}
	return found.(*string), true
}

// requireOpen returns an error if the session is not in a transaction. The statement has no parameters, so that no
// driver prepares it, and an abort that has just happened is reported.
func requireOpen(ctx context.Context, tx runtime.Tx, statement string) error {
	var open bool
	err := tx.QueryRowContext(ctx, statement).Scan(&open)
	if err == nil && !open {
		return errTxEnded
	}
	return err
}
