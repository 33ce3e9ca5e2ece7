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
		return fmt.Errorf("create table %q: %w", s.table, err)
	}
	return nil
}

// Ready returns nil if the store can answer: the table is there, has the columns that it needs, and can be
// written. It changes nothing.
func (s *Store) Ready(ctx context.Context) error {
	return retry(ctx, func() error {
		p, err := s.prepare(ctx)
		if err != nil {
			return err
		}
		const noShard = -1
		_, err = p[deleteRow].ExecContext(ctx, "", "", noShard)
		return err
	})
}
