package sqlstore

import (
	"context"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

var _ runtime.RowLister = (*Store)(nil)

// Rows implements [runtime.RowLister]. If ctx has no deadline, it takes at most [Timeout].
func (s *Store) Rows(ctx context.Context, after runtime.Row, limit int) ([]runtime.StoredRow, int64, error) {
	if err := s.usable(); err != nil {
		return nil, 0, err
	}
	type page struct {
		rows []runtime.StoredRow
		at   int64
	}
	p, err := table.Using(ctx, s.prepared, func(ctx context.Context, x *conn.Executor) (p page, err error) {
		now, err := s.prepared.Now(ctx, s.prepared.DB)
		if err != nil {
			return p, err
		}
		stored, err := s.sweeper.Page(ctx, x, after)
		if err != nil {
			return p, err
		}
		for _, r := range stored[:min(len(stored), max(0, limit))] {
			p.rows = append(p.rows, runtime.StoredRow{Row: r.Row, State: r.State})
		}
		p.at = now()
		return p, nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("rows of limit %q: %w", after.Name, err)
	}
	return p.rows, p.at, nil
}
