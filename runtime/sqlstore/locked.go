package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// locked answers calls in a transaction of the store that has locked all of their rows.
func (s *Store) locked(ctx context.Context, p *prepared, calls []runtime.Call) ([]runtime.Answer, error) {
	var b *runtime.Batch
	err := retry(ctx, func() error {
		b = runtime.NewBatch(calls)
		how := s.locking(readFirst)
		for {
			done, err := s.run(ctx, p, b, how, durabilityOf(calls))
			switch {
			case errors.Is(err, errPartly):
				how = seedFirst
			case done || err != nil:
				return err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return b.Answers(), nil
}

// run runs a batch in a transaction, or returns false if it takes more rows. A batch that changes nothing
// is rolled back, and with it the rows that were inserted to be locked.
func (s *Store) run(ctx context.Context, p *prepared, b *runtime.Batch, how locking, d runtime.Durability) (done bool, err error) {
	now, err := s.now(ctx, s.db)
	if err != nil {
		return false, err
	}
	err = s.inTx(ctx, p, d, func(se session) error {
		l := newRowLock(se, b.Rows(), d)
		if err := l.lock(ctx, how); err != nil {
			return err
		}
		if done = b.Run(now(), l.states); !done {
			return errRollback
		}
		changes := b.Changes()
		if len(changes) == 0 {
			return errRollback
		}
		return l.write(ctx, changes)
	})
	if errors.Is(err, errRollback) {
		err = nil
	}
	return done, err
}

// errRollback rolls a transaction back that has done nothing to keep.
var errRollback = errors.New("nothing to commit")

// inTx runs fn in a transaction of the store, and commits it if fn returns no error. If ctx ends during the commit, the
// transaction may have been committed although there is an error.
func (s *Store) inTx(ctx context.Context, p *prepared, d runtime.Durability, fn func(se session) error) error {
	if err := p.prepareWanted(ctx); err != nil {
		return err
	}
	err := s.again(ctx, func() error { return s.inTxOnce(ctx, p, d, fn) })
	if unbegun := new(unbegunError); errors.As(err, &unbegun) && ctx.Err() == nil {
		return &advised{closedAtBegin, unbegun.err}
	}
	return err
}

// inTxOnce is inTx without a second try.
func (s *Store) inTxOnce(ctx context.Context, p *prepared, d runtime.Durability, fn func(se session) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.withSync(ctx, conn, d, func() error { return s.inTxOf(ctx, conn, p, fn) })
}

// inTxOf is inTx on a connection.
func (s *Store) inTxOf(ctx context.Context, conn *sql.Conn, p *prepared, fn func(se session) error) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: s.dialect.Isolation})
	if err != nil {
		return unbegun(ended(conn, err))
	}
	defer rollback(conn, tx)
	if err := fn(own{tx, p}); err != nil {
		return err
	}
	if p.resends && s.dialect.TxOpen != "" {
		if err := requireOpen(ctx, tx, s.dialect.TxOpen); err != nil {
			return err
		}
	}
	return commit(ctx, conn, tx)
}

// locking returns how rows are locked by the dialect, if not plainly.
func (s *Store) locking(otherwise locking) locking {
	if s.dialect.Seed == "" {
		return plainly
	}
	return otherwise
}
