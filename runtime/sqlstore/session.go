package sqlstore

import (
	"context"
	"database/sql"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// query runs a statement outside of a transaction.
func (p *prepared) query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error) {
	return p.stmts[s][f].QueryContext(ctx, p.texts[s][f].args(v)...)
}

// exec runs a statement outside of a transaction.
func (p *prepared) exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error) {
	return p.stmts[s][f].ExecContext(ctx, p.texts[s][f].args(v)...)
}

// session runs statements, in a transaction or each by itself.
type session interface {
	query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error)
	exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error)
}

// own is a transaction of the store, with the prepared statements.
type own struct {
	tx       *sql.Tx
	prepared *prepared
}

func (o own) exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error) {
	return o.tx.StmtContext(ctx, o.prepared.stmts[s][f]).ExecContext(ctx, o.prepared.texts[s][f].args(v)...)
}

func (o own) query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error) {
	return o.tx.StmtContext(ctx, o.prepared.stmts[s][f]).QueryContext(ctx, o.prepared.texts[s][f].args(v)...)
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
