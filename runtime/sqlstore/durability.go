package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// durabilityOf returns the durability of what calls change together: full if one of them asks for it, and
// relaxed if all do.
func durabilityOf(calls []runtime.Call) runtime.Durability {
	relaxed := true
	for _, c := range calls {
		for _, q := range c.Requests {
			if q.Policy == nil {
				continue
			}
			switch q.Policy.Durability {
			case runtime.DurabilityFull:
				return runtime.DurabilityFull
			case runtime.DurabilityDefault:
				relaxed = false
			}
		}
	}
	if relaxed {
		return runtime.DurabilityRelaxed
	}
	return runtime.DurabilityDefault
}

// setsSync reports whether a durability is a setting of the session, and not of a statement.
func (s *Store) setsSync(d runtime.Durability) bool {
	return s.dialect.Sync != "" && d == runtime.DurabilityFull
}

// syncFull is the setting of a session whose transactions wait for the disk.
const syncFull = 2

// withSync runs fn while the session waits for the disk, if the durability asks for it.
func (s *Store) withSync(ctx context.Context, conn *sql.Conn, d runtime.Durability, fn func() error) error {
	if !s.setsSync(d) {
		return fn()
	}
	var before int
	if err := conn.QueryRowContext(ctx, s.dialect.Sync).Scan(&before); err != nil {
		return err
	}
	if before >= syncFull {
		return fn()
	}
	if err := s.setSync(ctx, conn, syncFull); err != nil {
		return err
	}
	// If it cannot be set back, the session waits more often than it must.
	defer s.setSync(context.WithoutCancel(ctx), conn, before)
	return fn()
}

func (s *Store) setSync(ctx context.Context, conn *sql.Conn, to int) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("%s = %d", s.dialect.Sync, to))
	return err
}
