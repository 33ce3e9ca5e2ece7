package sqlstore

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// glance answers calls that are about one row, without a transaction: it reads the row, and writes it if it is
// still what it was. It returns nil if it cannot: they are about more rows, the row is to be inserted or deleted,
// somebody else has changed it meanwhile, or a driver might send again what writes.
func (s *Store) glance(ctx context.Context, p *prepared, calls []runtime.Call) (answers []runtime.Answer, err error) {
	b := runtime.NewBatch(calls)
	if len(b.Rows()) != 1 || s.dialect.Swap == "" {
		return nil, nil
	}
	err = retry(ctx, func() error {
		now, err := s.now(ctx, s.db)
		if err != nil {
			return err
		}
		return s.single(ctx, p, func(in session) error {
			swapped, err := s.swap(ctx, p, in, now, b, durabilityOf(calls))
			answers = nil
			if swapped {
				answers = b.Answers()
			}
			return err
		})
	})
	if err != nil {
		answers = nil
	}
	if row := b.Rows()[0]; deniesTake(calls, answers) {
		s.streaks.denied(row)
	} else {
		s.streaks.ended(row)
	}
	return answers, err
}

// deniesTake reports whether a call was denied that takes.
func deniesTake(calls []runtime.Call, answers []runtime.Answer) bool {
	for i, a := range answers {
		if a.Err == nil && !a.Allowed() && calls[i].Requests[0].Op == runtime.Take {
			return true
		}
	}
	return false
}

// swap runs a batch of one row, and returns false if what it has changed was not written.
func (s *Store) swap(
	ctx context.Context, p *prepared, in session, now func() int64, b *runtime.Batch, d runtime.Durability,
) (bool, error) {
	l := newRowLock(in, b.Rows(), d)
	if err := l.read(ctx, lookRows, b.Rows()); err != nil {
		return false, err
	}
	if !b.Run(now(), l.states) {
		return false, nil
	}
	changes := b.Changes()
	if len(changes) == 0 {
		return true, nil
	}
	was, is := l.states[0], changes[0].State
	if !was.Exists || !is.Exists || p.resends && !p.splits { // what splits is in a transaction
		return false, nil
	}
	form, v := l.bind([]stored{{l.rows[0], is}})
	v[paramOldValue], v[paramOldTS], v[paramOldPrev] = was.Value, was.TS, was.Prev
	result, err := in.exec(ctx, swapRows, form, v)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}
