package decide

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// compareAndSwap decides calls about one row without a transaction: it reads the row, decides in Go, and writes the row
// if it has not changed. It reports false if it could not: the calls are about several rows, the row must be inserted or
// deleted, another transaction has changed it meanwhile, or the driver might send the write twice.
func (e *Engine) compareAndSwap(ctx context.Context, x *conn.Executor, calls []runtime.Call, answers []runtime.Answer) (done bool, err error) {
	b := batch.New(calls)
	if len(b.Rows()) != 1 || e.Dialect.CompareAndSwap == "" {
		return false, nil
	}
	err = conn.Retry(ctx, func() error {
		now, err := e.Now(ctx, e.DB)
		if err != nil {
			return err
		}
		return e.Single(ctx, x, func(in conn.Session) (err error) {
			done, err = e.swap(ctx, x, in, now, b, durabilityOf(calls))
			return err
		})
	})
	done = done && err == nil
	if done {
		copy(answers, b.Answers())
		e.learn(calls, answers)
	}
	return done, err
}

// swap runs a batch of one row, and returns false if its changes were not written.
func (e *Engine) swap(
	ctx context.Context, x *conn.Executor, in conn.Session, now func() int64, b *batch.Batch, d runtime.Durability,
) (bool, error) {
	l := table.NewRowLock(in, b.Rows(), d)
	if err := l.Read(ctx, conn.ReadUnlocked, b.Rows()); err != nil {
		return false, err
	}
	if !b.Run(now(), l.States) {
		return false, nil
	}
	changes := b.Changes()
	if len(changes) == 0 {
		return true, nil
	}
	was, is := l.States[0], changes[0].State
	if !was.Exists || !is.Exists {
		// A missing row has no state to compare, and only a transaction that has locked a row may delete it.
		return false, nil
	}
	if x.Resends && !x.Splits {
		// The second of two equal writes would find the row changed by the first, and the call would be decided twice.
		// With a driver that splits statements this is a transaction, in which none is sent twice.
		return false, nil
	}
	arity, v := l.Bind([]conn.Stored{{Row: l.Rows[0], State: is}})
	v.Of[conn.ParamOldValue], v.Of[conn.ParamOldTS], v.Of[conn.ParamOldPrev] = was.Value, was.TS, was.Prev
	v.Of[conn.ParamOldPenalty] = []byte(was.Log[:min(len(was.Log), meter.PenaltyLength)])
	result, err := in.Exec(ctx, conn.SwapRow, arity, v)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}
