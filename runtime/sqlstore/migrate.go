package sqlstore

import (
	"context"
	"fmt"
)

// Migrate creates the table, if there is none. Several processes may do so at once.
func (s *Store) Migrate(ctx context.Context) error {
	create, err := s.dialect.DDL(s.table)
	if err != nil {
		return err
	}
	err = retry(ctx, func() error {
		_, err := s.db.ExecContext(ctx, create)
		return err
	})
	if err != nil {
		return fmt.Errorf("create table %q: %w", s.table, s.explain(ctx, err))
	}
	return nil
}
