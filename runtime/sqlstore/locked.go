package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// locked answers calls in a transaction that has locked all of their rows.
func (s *Store) locked(ctx context.Context, st *statements, calls []runtime.Call) ([]runtime.Answer, error) {
	b := runtime.NewBatch(calls)
	for {
		done, err := s.run(ctx, st, b)
		if err != nil {
			return nil, err
		}
		if done {
			return b.Answers(), nil
		}
	}
}

// run runs a batch in a transaction, or returns false if it takes more rows.
func (s *Store) run(ctx context.Context, st *statements, b *runtime.Batch) (done bool, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	states, err := read(ctx, tx.StmtContext(ctx, st.read), b.Rows())
	if err != nil {
		return false, err
	}
	if !b.Run(s.now(), states) {
		return false, nil
	}
	if err := write(ctx, tx, st, b.Changes()); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// read returns the states of rows, and locks them in their order.
func read(ctx context.Context, stmt *sql.Stmt, rows []runtime.Row) ([]runtime.State, error) {
	states := make([]runtime.State, len(rows))
	for i, r := range rows {
		s := runtime.State{Seen: true}
		switch err := stmt.QueryRowContext(ctx, r.Name, r.Key, r.Shard).Scan(&s.Value, &s.TS, &s.Prev); {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return nil, err
		default:
			states[i] = s
		}
	}
	return states, nil
}

// write writes what has changed.
func write(ctx context.Context, tx *sql.Tx, st *statements, changes []runtime.Change) error {
	for _, c := range changes {
		r, s := c.Row, c.State
		var err error
		if s.Seen {
			_, err = tx.StmtContext(ctx, st.write).ExecContext(ctx, r.Name, r.Key, r.Shard, s.Value, s.TS, s.Prev)
		} else {
			_, err = tx.StmtContext(ctx, st.delete).ExecContext(ctx, r.Name, r.Key, r.Shard)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
