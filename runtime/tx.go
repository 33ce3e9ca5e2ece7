package runtime

import (
	"context"
	"database/sql"
)

// Tx is a transaction of the caller's own: an [sql.Tx], or an [sql.Conn] on which one was begun.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// TxStore is a [Store] that can keep count inside a transaction of its caller.
type TxStore interface {
	Store
	// WithTx returns a store whose counts change if and only if tx commits. It never begins, commits
	// or rolls back, and leaves tx usable after a denial. If tx is nil, it answers with [ErrNilTx].
	WithTx(tx Tx) Store
}

// WithTx returns a limiter that asks inside a transaction of the caller, which must be of the database
// that holds the counts. What it takes is taken if and only if tx commits. If its store knows no
// transactions, the limiter answers every question with [ErrNoTx], and if tx is nil, with [ErrNilTx].
func (l *Limiter) WithTx(tx Tx) *Limiter {
	if l == nil || l.store == nil {
		return l
	}
	return &Limiter{store: InTx(l.store, tx), inTx: true}
}

// InTx returns a store inside a transaction of the caller. If it is no [TxStore], it answers with [ErrNoTx].
func InTx(store Store, tx Tx) Store {
	if inTx, ok := store.(TxStore); ok {
		return inTx.WithTx(tx)
	}
	return noTx{}
}

// noTx is the store inside a transaction of a store that knows none.
type noTx struct{}

func (noTx) Do(context.Context, []Call) ([]Answer, error) { return nil, ErrNoTx }
