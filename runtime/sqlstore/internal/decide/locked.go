package decide

import (
	"context"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// locked decides calls in a transaction of the store that locks all of their rows. It serves every kind, operation
// and database.
func (e *Engine) locked(ctx context.Context, p *plan) error {
	return p.decideRest(func(calls []runtime.Call, answers []runtime.Answer) error {
		// A new batch picks other shards than those for which other transactions compete.
		b, order := batch.New(calls), table.OrderFor(&e.server.Dialect, table.ReadFirst)
		for {
			done, err := e.runBatch(ctx, p, calls, b, order, durabilityOf(calls))
			switch {
			case errors.Is(err, table.ErrSomeMissing):
				// The transaction has ended, so all rows are locked in order again.
				order = table.SeedFirst
			case err != nil:
				return err
			case done:
				copy(answers, b.Answers())
				e.learn(calls, answers)
				return nil
			}
		}
	})
}

// runBatch runs a batch of calls in a transaction, or returns false if the batch needs more rows. A batch without changes
// is rolled back, and with it the placeholders that were inserted.
func (e *Engine) runBatch(
	ctx context.Context, p *plan, calls []runtime.Call, b *batch.Batch, order table.LockOrder, d runtime.Durability,
) (done bool, err error) {
	now, err := e.server.Now(ctx, e.server.DB)
	if err != nil {
		return false, err
	}
	var states []runtime.State
	var w write
	var places map[string]string
	if p.across != nil {
		if places, err = p.across.Of(ctx, table.FirstParts(calls)); err != nil {
			return false, err
		}
	}
	run := func(in conn.Session) error {
		l := table.NewRowLock(in, b.Rows(), d)
		l.Places = places
		if err := l.Lock(ctx, order); err != nil {
			return err
		}
		states = l.States
		// The time is read under the locks, so that no transaction decides as of a time before the one it waited for.
		if done = b.Run(now(), l.States); !done {
			return conn.ErrRollback
		}
		changes := b.Changes()
		if len(changes) == 0 {
			return conn.ErrRollback
		}
		if err := l.Write(ctx, changes); err != nil {
			return err
		}
		w.begin(ctx, e, calls, b.Answers())
		return nil
	}
	if p.across != nil {
		err = e.server.InTwoPhases(ctx, p.on, run)
	} else {
		err = e.server.InTx(ctx, p.on, d, run)
	}
	err = w.end(ctx, true, err)
	if errors.Is(err, conn.ErrRollback) {
		err = nil
	}
	if done && err == nil && e.seen != nil {
		e.seen.wrote(b, states, !e.races.pausing())
	}
	return done, err
}
