package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Migrate creates the table, if there is none. Several processes may do so at once.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	create, err := s.dialect.DDL(s.table)
	if err != nil {
		return err
	}
	tries := 0
	_, err = bounded(ctx, func(ctx context.Context) (any, error) {
		return nil, retry(ctx, func() error {
			// Before there is a table that would have to be moved to another database.
			if err := s.checkSession(ctx, s.db); err != nil {
				return err
			}
			_, err := s.db.ExecContext(ctx, create)
			if tries++; tries < 10 && createdMeanwhile(err) {
				return &RetryTxError{err}
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("create table %q: %w", s.table, s.explain(ctx, err))
	}
	return nil
}

// createdMeanwhile reports whether a table could not be created because somebody else was at it: Postgres looks
// whether there is one, and then is surprised.
func createdMeanwhile(err error) bool {
	var stated interface{ SQLState() string }
	// unique_violation, duplicate_table and duplicate_object.
	return errors.As(err, &stated) && slices.Contains([]string{"23505", "42P07", "42710"}, stated.SQLState())
}
