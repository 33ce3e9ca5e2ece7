package sqlstore

import (
	"context"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/batch"
)

// locked decides calls in a transaction of the store that locks all of their rows. It serves every kind, operation
// and database.
func (e *engine) locked(ctx context.Context, x *executor, calls []runtime.Call, answers []runtime.Answer) error {
	var b *batch.Batch
	err := retry(ctx, func() error {
		// A new batch picks other shards than those for which other transactions compete.
		b = batch.New(calls)
		order := orderFor(&e.dialect, readFirst)
		for {
			done, err := e.runBatch(ctx, x, b, order, durabilityOf(calls))
			switch {
			case errors.Is(err, errSomeMissing):
				// The transaction has ended, so all rows are locked in order again.
				order = seedFirst
			case done || err != nil:
				return err
			}
		}
	})
	if err == nil {
		copy(answers, b.Answers())
	}
	return err
}

// runBatch runs a batch in a transaction, or returns false if the batch needs more rows. A batch without changes
// is rolled back, and with it the placeholders that were inserted.
func (e *engine) runBatch(
	ctx context.Context, x *executor, b *batch.Batch, order lockOrder, d runtime.Durability,
) (done bool, err error) {
	now, err := e.now(ctx, e.db)
	if err != nil {
		return false, err
	}
	err = e.inTx(ctx, x, d, func(in session) error {
		l := newRowLock(in, b.Rows(), d)
		if err := l.lock(ctx, order); err != nil {
			return err
		}
		// The time is read under the locks, so that no transaction decides as of a time before the one it waited for.
		if done, err = l.run(ctx, b, now()); err != nil {
			return err
		}
		if !done {
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
