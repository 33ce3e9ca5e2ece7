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
		now, err := s.server.Now(ctx, s.server.DB)
		if err != nil {
			return p, err
		}
		p.rows, err = s.prepared.Page(ctx, x, after, limit)
		p.at = now()
		return p, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("rows of limit %q: %w", after.Name, err)
	}
	return p.rows, p.at, nil
}
