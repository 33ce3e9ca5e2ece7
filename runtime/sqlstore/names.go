package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// nameRounds is how often a pooler is given the occasion to mix up statements: it may have several sessions, and other
// clients at the same time.
const nameRounds = 2

// sparePatience is how long Ready waits for a second connection, or for a pooler's second session. There may be none.
const sparePatience = 250 * time.Millisecond

// checkNames returns the error of a statement that the driver has prepared under a name, and that a pooler has then sent
// to a session of the server that does not have it, or has it from another client. Two connections run the same
// statement: the first one alone, the second one in a transaction, and the first one again, which then cannot have the
// session of the transaction. In a pooler that has only one session, the second one finds the first one's statement.
func (s *Store) checkNames(ctx context.Context, p *prepared) error {
	if s.dialect.Named == "" || p.splits {
		return nil
	}
	first, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { first.Close() }()
	named, err := s.named(ctx, first)
	for i := 0; err == nil && named && i < nameRounds; i++ {
		var second *sql.Conn
		if second = s.spare(ctx); second != nil {
			err = s.meet(ctx, first, second)
			second.Close()
		}
		if err == nil {
			first, named, err = s.renew(ctx, first)
		}
	}
	return err
}

// named reports whether a statement has a name in the session that runs it.
func (s *Store) named(ctx context.Context, in runtime.Tx) (named bool, err error) {
	v := new(values)
	v[paramName] = "%ratelimitgen_named%"
	t := &s.texts[askNamed][oneRow]
	err = in.QueryRowContext(ctx, t.sql, t.args(v)...).Scan(&named)
	return named, err
}

// spare returns a second connection, or nil if there is none.
func (s *Store) spare(ctx context.Context) *sql.Conn {
	if s.db.Stats().MaxOpenConnections == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sparePatience)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil
	}
	return conn
}

// meet has two connections run the statement so that they cannot have the same session.
func (s *Store) meet(ctx context.Context, first, second *sql.Conn) error {
	tx, err := second.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := s.named(ctx, tx); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, sparePatience)
	defer cancel()
	if _, err := s.named(wait, first); err != nil && wait.Err() == nil {
		return err
	}
	return nil
}

// renew closes a connection, and has another one run the statement.
func (s *Store) renew(ctx context.Context, conn *sql.Conn) (_ *sql.Conn, named bool, err error) {
	conn.Raw(func(any) error { return driver.ErrBadConn })
	fresh, err := s.db.Conn(ctx)
	if err != nil {
		return conn, false, err
	}
	named, err = s.named(ctx, fresh)
	return fresh, named, err
}
