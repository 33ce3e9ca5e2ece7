package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// query runs a statement outside of a transaction.
func (p *prepared) query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error) {
	stmt, err := p.stmt(ctx, s, f)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return p.db.QueryContext(ctx, p.texts[s][f].sql, p.texts[s][f].args(v)...)
	}
	return stmt.QueryContext(ctx, p.texts[s][f].args(v)...)
}

// exec runs a statement outside of a transaction.
func (p *prepared) exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error) {
	stmt, err := p.stmt(ctx, s, f)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return p.db.ExecContext(ctx, p.texts[s][f].sql, p.texts[s][f].args(v)...)
	}
	return stmt.ExecContext(ctx, p.texts[s][f].args(v)...)
}

// session runs statements, in a transaction or each by itself.
type session interface {
	query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error)
	exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error)
}

// own is a transaction of the store, with its prepared statements.
type own struct {
	tx       *sql.Tx
	prepared *prepared
}

func (o own) exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error) {
	stmt, err := o.stmt(ctx, s, f)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return callers{o.tx, o.prepared.texts}.exec(ctx, s, f, v)
	}
	return stmt.ExecContext(ctx, o.prepared.texts[s][f].args(v)...)
}

func (o own) query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error) {
	stmt, err := o.stmt(ctx, s, f)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return callers{o.tx, o.prepared.texts}.query(ctx, s, f, v)
	}
	return stmt.QueryContext(ctx, o.prepared.texts[s][f].args(v)...)
}

// stmt returns a statement as the transaction runs it, or nil if it runs the text.
func (o own) stmt(ctx context.Context, s statement, f form) (*sql.Stmt, error) {
	switch stmt := o.prepared.stmtInTx(s, f); {
	case stmt != nil:
		return o.tx.StmtContext(ctx, stmt), nil
	case o.prepared.keeps:
		// Prepared for this transaction only: by a text, MariaDB reads a variable before the statement has set it.
		return o.tx.PrepareContext(ctx, o.prepared.texts[s][f].sql)
	}
	return nil, nil
}

// callers is a transaction of the caller. What is prepared in the database is not used in it: to prepare
// takes a connection, and the caller may have the only one.
type callers struct {
	tx    runtime.Tx
	texts *texts
}

func (c callers) exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error) {
	return c.tx.ExecContext(ctx, c.texts[s][f].sql, c.texts[s][f].args(v)...)
}

func (c callers) query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error) {
	return c.tx.QueryContext(ctx, c.texts[s][f].sql, c.texts[s][f].args(v)...)
}

// again runs fn, which uses one connection, and once more on another one if that was lost before anything was done.
// Each try uses up a connection of the pool that the server has closed.
func (s *Store) again(ctx context.Context, fn func() error) error {
	for tries := s.db.Stats().OpenConnections + 1; ; tries-- {
		err := fn()
		if tries == 0 || ctx.Err() != nil || !errors.As(err, new(*unbegunError)) {
			return err
		}
	}
}

// single runs fn, which runs a statement that does no harm if it is carried out twice, outside of a transaction if the
// driver does not split it.
func (s *Store) single(ctx context.Context, p *prepared, fn func(session) error) error {
	if p.splits {
		return s.inTx(ctx, p, runtime.DurabilityDefault, fn)
	}
	return fn(p)
}
