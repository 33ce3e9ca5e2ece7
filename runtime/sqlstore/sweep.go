package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// sweepPage is how many rows a sweep reads at once, and so the most that it deletes in one transaction.
const sweepPage = 500

// Sweep deletes the rows of the policies that are worth no more than a key never seen, and have been so for
// an hour, and returns how many they were. It reads the table page by page, and deletes those of a page
// in a transaction of their own; a row that is used meanwhile stays. Run it now and then, from any one
// process. Rows of other policies are kept.
func (s *Store) Sweep(ctx context.Context, policies ...*runtime.Policy) (deleted int, err error) {
	for _, p := range policies {
		if err := p.Validate(); err != nil {
			return deleted, err
		}
		n, err := s.sweep(ctx, p)
		deleted += n
		if err != nil {
			return deleted, fmt.Errorf("sweep limit %q: %w", p.Name, err)
		}
	}
	return deleted, nil
}

// sweep sweeps the rows of one policy.
func (s *Store) sweep(ctx context.Context, p *runtime.Policy) (deleted int, err error) {
	st, err := s.statements(ctx)
	if err != nil {
		return 0, err
	}
	last := stored{row: runtime.Row{Name: p.Name, Shard: -1}}
	for {
		page, err := readPage(ctx, st.page, last.row)
		if err != nil || len(page) == 0 {
			return deleted, err
		}
		last = page[len(page)-1]
		n, err := s.forgetFull(ctx, st, p, page)
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
}

// forgetFull deletes the rows of a page that can be forgotten, in one transaction.
func (s *Store) forgetFull(ctx context.Context, st *statements, p *runtime.Policy, page []stored) (deleted int, err error) {
	now := s.now()
	page = slices.DeleteFunc(page, func(r stored) bool { return !p.Forgettable(r.row, r.state, now) })
	if len(page) == 0 {
		return 0, nil
	}
	err = s.retry(ctx, func() error {
		deleted, err = s.forget(ctx, st, page)
		return err
	})
	return deleted, err
}

// stored is a row with its state.
type stored struct {
	row   runtime.Row
	state runtime.State
}

// readPage returns the rows that follow one of the same name.
func readPage(ctx context.Context, stmt *sql.Stmt, after runtime.Row) ([]stored, error) {
	rows, err := stmt.QueryContext(ctx, after.Name, after.Key, after.Shard, sweepPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []stored
	for rows.Next() {
		r := stored{runtime.Row{Name: after.Name}, runtime.State{Seen: true}}
		if err := rows.Scan(&r.row.Key, &r.row.Shard, &r.state.Value, &r.state.TS, &r.state.Prev); err != nil {
			return nil, err
		}
		page = append(page, r)
	}
	return page, rows.Err()
}

// forget deletes rows unless they have changed since they were read.
func (s *Store) forget(ctx context.Context, st *statements, page []stored) (deleted int, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	stmt := tx.StmtContext(ctx, st.forget)
	for _, r := range page {
		result, err := stmt.ExecContext(ctx, r.row.Name, r.row.Key, r.row.Shard, r.state.Value, r.state.TS, r.state.Prev)
		if err != nil {
			return 0, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, err
		}
		deleted += int(n)
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	return deleted, nil
}
