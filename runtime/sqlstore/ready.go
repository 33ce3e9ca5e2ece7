package sqlstore

import (
	"context"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Ready returns nil if the store can answer: the table is there, is what the store needs, and can be read and
// written. It leaves nothing changed. Call it when the program starts, so that what is missing is known
// before the first request.
//
// The error says what is wrong, such as a column of another type, a privilege that is lacking or a server that
// is a replica, and what to do about it. On a Galera cluster, it is also about nodes whose clocks differ, as far as 10,000
// rows show that: by a row that another node has written, or this one before its clock was set back.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	_, err := bounded(ctx, func(ctx context.Context) (any, error) {
		return nil, s.withRoom(ctx, func() error { return retry(ctx, func() error { return s.tryOut(ctx) }) })
	})
	if err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

// tryOut checks the table and the clocks of a cluster, rehearses a call, and looks for a pooler that mixes statements up.
func (s *Store) tryOut(ctx context.Context) error {
	p, err := s.prepareNow(ctx)
	if err != nil {
		return err
	}
	if err := s.check(ctx, s.db); err != nil {
		return err
	}
	if err := s.checkClocks(ctx, p); err != nil {
		return err
	}
	if err := s.rehearse(ctx, p); err != nil {
		return err
	}
	return s.checkNames(ctx, p)
}

// rehearse does with a row that no limit can have what a call does with its rows, and rolls back.
func (s *Store) rehearse(ctx context.Context, p *prepared) error {
	row := runtime.Row{Shard: -1}
	err := s.inTx(ctx, p, runtime.DurabilityDefault, func(se session) error {
		l := newRowLock(se, []runtime.Row{row}, runtime.DurabilityDefault)
		if err := l.lock(ctx, s.locking(readFirst)); err != nil {
			return err
		}
		for _, s := range []statement{writeRows, deleteRows} {
			if err := l.put(ctx, s, []stored{{row: row}}); err != nil {
				return err
			}
		}
		return errRollback
	})
	if errors.Is(err, errRollback) {
		return nil
	}
	return err
}
