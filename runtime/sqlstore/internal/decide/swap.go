package decide

import (
	"context"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// compareAndSwap decides calls about one row, or a call about two shards of a key, without a transaction: it reads the rows,
// decides in Go, and writes the one that changes if it is still what it was. It does not read rows that probably only this
// process writes. It leaves the calls if it could not: they are about other rows, both change, the row must be inserted or
// deleted, another transaction has changed it meanwhile, or the driver might send the write twice.
//
// The shard that is not written may have changed since it was seen. That matters only if it has a debt now. A debt is given
// to all shards at once, and so the other one has it too, and has been seen since.
func (e *Engine) compareAndSwap(ctx context.Context, p *plan) error {
	return p.decideRest(func(calls []runtime.Call, answers []runtime.Answer) error {
		return e.readAndSwap(ctx, p, calls, answers)
	})
}

// triesSwap reports whether the calls may be about one row. Most batches are about several keys, and their rows are not
// worth collecting.
func (e *Engine) triesSwap(p *plan) bool {
	first, last := p.calls[p.rest[0]].Requests, p.calls[p.rest[len(p.rest)-1]].Requests
	return e.server.Dialect.CompareAndSwap != "" && (len(p.rest) == 1 || len(first) == 0 || len(last) == 0 ||
		first[0].Key == last[0].Key)
}

func (e *Engine) readAndSwap(ctx context.Context, p *plan, calls []runtime.Call, answers []runtime.Answer) error {
	b := batch.New(calls)
	oneCall := len(calls) == 1 && len(calls[0].Requests) == 1
	if n := len(b.Rows()); n != 1 && !(n == 2 && oneCall) {
		return nil
	}
	now, err := e.server.Now(ctx, e.server.DB)
	if err != nil {
		return err
	}
	done := false
	var w write
	err = e.server.Once(ctx, p.on, func(in conn.Session) (err error) {
		l := table.NewRowLock(in, b.Rows(), durabilityOf(calls))
		if l.States = e.seen.all(l.Rows); l.States != nil {
			// They show whether to take, and not whether to deny.
			if done, err = e.swap(ctx, p.on, l, now, calls, b, &w); err != nil || done && len(b.Changes()) > 0 {
				return err
			}
		}
		l = table.NewRowLock(in, b.Rows(), durabilityOf(calls))
		if err := l.Read(ctx, conn.ReadUnlocked, l.Rows); err != nil {
			return err
		}
		e.seen.read(l.Rows, l.States)
		done, err = e.swap(ctx, p.on, l, now, calls, b, &w)
		return err
	})
	// After the commit, if the driver needs a transaction.
	err = w.end(ctx, done, err)
	if done && err == nil {
		copy(answers, b.Answers())
		e.learn(calls, answers)
	}
	return err
}

// swap runs a batch of calls on the states of its rows, and returns false if its changes were not written.
func (e *Engine) swap(
	ctx context.Context, x *conn.Executor, l *table.RowLock, now func() int64, calls []runtime.Call, b *batch.Batch, w *write,
) (bool, error) {
	if !b.Run(now(), l.States) {
		return false, nil
	}
	changes := b.Changes()
	if len(changes) != 1 {
		return len(changes) == 0, nil
	}
	row, is := changes[0].Row, changes[0].State
	was := l.States[slices.Index(l.Rows, row)]
	if !was.Exists || !is.Exists {
		// A missing row has no state to compare, and only a transaction that has locked a row may delete it.
		return false, nil
	}
	if x.Resends && !x.Splits {
		// The second of two equal writes would find the row changed by the first, and the call would be decided twice.
		// With a driver that splits statements this is a transaction, in which none is sent twice.
		return false, nil
	}
	arity, v := l.Bind([]runtime.StoredRow{{Row: row, State: is}})
	v.Of[conn.ParamOldValue], v.Of[conn.ParamOldTS], v.Of[conn.ParamOldPrev] = was.Value, was.TS, was.Prev
	v.Of[conn.ParamOldPenalty] = []byte(was.Log[:min(len(was.Log), meter.PenaltyLength)])
	w.begin(ctx, e, calls, b.Answers())
	result, err := l.Exec(ctx, conn.SwapRow, arity, v)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	e.seen.swapped(row, is, n == 1)
	return n == 1, err
}
