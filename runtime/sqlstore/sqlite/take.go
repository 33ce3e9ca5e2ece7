package sqlite

import (
	"context"
	"database/sql"
	"sync"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// taker is an [sqlstore.Taker] whose statement calls back into this process: SQLite runs in it. For a row that is
// there, it asks whether to write and what, and that is all that it calculates; see [slips]. To calculate in SQL
// takes longer, and RETURNING, which would tell the result, much longer: SQLite makes a table for it each time.
// Several rows are several such statements in a transaction.
type taker struct {
	db    *sql.DB
	table string

	mu   sync.Mutex
	stmt *sql.Stmt
}

// takeText is the statement. Its parameters are the name, the key, Fresh, T and, twice, the number of the slip.
const takeText = `
INSERT INTO {table} (name, {key}, shard, value, ts, prev) VALUES (?, ?, 0, ?, ?, 0)
ON CONFLICT (name, {key}, shard) DO UPDATE SET
	value = ratelimitgen_value(?),
	ts    = max(ts, excluded.ts),
	prev  = 0
WHERE ratelimitgen_take(?, value, ts)
`

// Take implements [sqlstore.Taker].
func (t *taker) Take(ctx context.Context, rows []*sqlstore.RowTake) error {
	// A statement that is cancelled may have written, and its result is lost.
	ctx = context.WithoutCancel(ctx)
	stmt, err := t.prepare(ctx)
	if err != nil {
		return err
	}
	if len(rows) == 1 {
		return take(ctx, stmt, rows[0])
	}
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	stmt = tx.StmtContext(ctx, stmt)
	for _, r := range rows {
		if err := take(ctx, stmt, r); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// take runs the statement for one row, which is inserted as it is to be, unless it turns out to be there.
func take(ctx context.Context, stmt *sql.Stmt, r *sqlstore.RowTake) error {
	r.After = runtime.State{Value: r.Upsert.Fresh, TS: r.Upsert.T, Seen: true}
	n := slips.open(r)
	defer slips.close(n)
	_, err := stmt.ExecContext(ctx, r.Row.Name, r.Row.Key, r.Upsert.Fresh, r.Upsert.T, n, n)
	return err
}

// prepare prepares the statement at the first use, when the table exists.
func (t *taker) prepare(ctx context.Context) (*sql.Stmt, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stmt != nil {
		return t.stmt, nil
	}
	text, err := sqlstore.SQLite.Text(takeText, t.table)
	if err != nil {
		return nil, err
	}
	t.stmt, err = t.db.PrepareContext(ctx, text)
	return t.stmt, err
}
