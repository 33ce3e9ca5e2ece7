package conn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// RunInTx is sqlstore.RunInTx, where it is documented.
func RunInTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	return Retry(ctx, func(ctx context.Context) error { return inTx(ctx, db, fn) })
}

// inTx runs fn in one transaction. It returns soon after ctx has ended, unless fn does not return: a call of the driver that
// has not returned by then continues in the background. If ctx has no deadline, the transaction is begun and ended within
// [bounds.Timeout] each.
func inTx(ctx context.Context, db *sql.DB, fn func(tx *sql.Tx) error) error {
	t, err := begin(ctx, db)
	if err != nil {
		return err
	}
	open, err := t.run(db, fn)
	ended := t.await(ctx, func() error { return t.end(ctx, open, err) })
	switch {
	case err != nil:
		return err // whether or not the rollback had a response
	case errors.Is(ended, errSilent):
		return fault.OutcomeUnknown(ended)
	}
	return ended
}

func begin(ctx context.Context, db *sql.DB) (*connTx, error) {
	within, cancel := withDeadline(ctx)
	defer cancel()
	return through(within, circuitOf(db), db, func() (*connTx, error) {
		return Await(within, func() (*connTx, error) { return beginOn(ctx, within, db) }, (*connTx).abandon)
	})
}

// connTx is a transaction on a connection of its own.
type connTx struct {
	conn *sql.Conn
	tx   *sql.Tx
	// cancel ends the context of the transaction, upon which some drivers give up a connection that does not respond.
	cancel context.CancelFunc
}

// await runs f, which ends the transaction.
func (t *connTx) await(ctx context.Context, f func() error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, t.cancel)()
	_, err := Await(ctx, func() (struct{}, error) { return struct{}{}, f() }, nil)
	return err
}

// run runs fn, and rolls the transaction back if fn panics. See runInTxTransactions for open.
func (t *connTx) run(db *sql.DB, fn func(tx *sql.Tx) error) (open string, err error) {
	running := &runInTx{db: db, began: time.Now()}
	returned := false
	defer func() {
		runInTxTransactions.Delete(t.tx)
		// fn has panicked: without this the connection would never return to the pool.
		if !returned {
			_ = t.await(context.Background(), func() error { t.abandon(); return nil }) // the panic goes on
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
		err = RequireOpen(ctx, t.tx, open)
	}
	if err != nil {
		return err
	}
	return commit(ctx, t.conn, t.tx)
}

// beginOn begins a transaction of a context on a connection of a pool, if it can within another context.
func beginOn(ctx, within context.Context, db *sql.DB) (t *connTx, err error) {
	err = reconnecting(within, db, func() error {
		conn, err := db.Conn(within)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		inTime := context.AfterFunc(within, cancel)
		tx, err := conn.BeginTx(ctx, nil)
		if !inTime() {
			if err == nil {
				rollback(conn, tx)
			}
			err = fmt.Errorf("%w: %w", errSilent, within.Err())
		}
		if err != nil {
			defer cancel()
			defer conn.Close()
			return Unsent(ended(conn, err))
		}
		t = &connTx{conn, tx, cancel}
		return nil
	})
	return t, err
}

// abandon rolls the transaction back, if it has not ended, and returns the connection to its pool.
func (t *connTx) abandon() {
	rollback(t.conn, t.tx)
	t.conn.Close()
	t.cancel()
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

// OldestRunInTx returns for how long the oldest transaction of RunInTx in a pool has been in flight, or 0.
func OldestRunInTx(db *sql.DB) (age time.Duration) {
	runInTxTransactions.Range(func(_, tx any) bool {
		if running := tx.(*runInTx); running.db == db {
			age = max(age, time.Since(running.began))
		}
		return true
	})
	return age
}

// inRunInTx returns where to set that statement, if tx is a transaction of RunInTx.
func inRunInTx(tx Runner) (open *atomic.Pointer[string], ok bool) {
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
