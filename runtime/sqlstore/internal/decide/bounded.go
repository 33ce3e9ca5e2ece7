package decide

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// Bounded is an engine for calls that share statements: it waits for rows that other transactions have locked for a moment
// only, and then decides the calls about other rows without them.
type Bounded struct{ Engine *Engine }

// Do implements [runtime.Store]. The error may be a [*group.LockedError].
func (b Bounded) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	e := b.Engine
	if !e.server.Gate.Enter() {
		return nil, runtime.ErrClosed
	}
	defer e.server.Gate.Open.Done()
	answers := make([]runtime.Answer, len(calls))
	sent, err := e.server.Circuit.Send(ctx, e.server.DB)
	if err != nil {
		return answers, err
	}
	err = e.decideAndRecover(ctx, calls, answers, manner{bounded: true}, bounds.OutdatedTries)
	if err != nil && fault.LockTimeout(err) {
		err = e.aroundLocks(ctx, calls, answers, err)
	}
	e.server.Circuit.Received(ctx, sent, err)
	if errors.As(err, new(*group.LockedError)) {
		// No caller gets it, and an explanation would be a query for which all callers wait.
		return answers, err
	}
	return answers, e.server.Explain(ctx, err)
}

// aroundLocks decides the calls that err has left without an answer, except those whose rows are locked.
func (e *Engine) aroundLocks(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, err error) error {
	ctx = conn.WithBudget(ctx)
	found := &group.LockedError{Err: err}
	at := unanswered(answers)
	var sharded []int
	for range bounds.MostProbes {
		locked, unknown, err := e.lockedRows(ctx, rowsOf(calls, at))
		if err != nil {
			return err
		}
		for _, r := range locked {
			// Calls take from another shard, as long as this one was not seen again.
			e.seen.forget(r)
			found.Rows = append(found.Rows, head(r))
		}
		at = slices.DeleteFunc(at, func(i int) bool {
			needs, other := needsAny(calls[i], locked)
			if needs && other {
				sharded = append(sharded, i)
			}
			return needs
		})
		// Where statements are bounded by their time, one that was slow has the same error.
		slow := len(locked) == 0 && len(unknown) == 0
		err = e.decideAt(ctx, at, calls, answers, manner{bounded: !slow})
		if err != nil && !fault.LockTimeout(err) {
			return err
		}
		at = slices.DeleteFunc(at, func(i int) bool { return answers[i].Answered() })
		if len(at) == 0 || len(unknown) > 0 {
			break
		}
	}
	if err := e.inHalves(ctx, at, calls, answers); err != nil {
		return err
	}
	if err := e.decideAt(ctx, sharded, calls, answers, manner{bounded: true}); err != nil && !fault.LockTimeout(err) {
		return err
	}
	if len(unanswered(answers)) == 0 {
		return nil
	}
	return found
}

// decideAt decides the calls at these indexes.
func (e *Engine) decideAt(ctx context.Context, at []int, calls []runtime.Call, answers []runtime.Answer, how manner) error {
	if len(at) == 0 {
		return nil
	}
	return answerAt(at, calls, answers, func(calls []runtime.Call, answers []runtime.Answer) error {
		return e.decideAndRecover(ctx, calls, answers, how, bounds.OutdatedTries)
	})
}

// inHalves decides the calls at these indexes, each half of them by itself, and so on where that waits for a lock.
func (e *Engine) inHalves(ctx context.Context, at []int, calls []runtime.Call, answers []runtime.Answer) error {
	for parts := [][]int{at[:len(at)/2], at[len(at)/2:]}; len(parts) > 0; parts = parts[1:] {
		err := e.decideAt(ctx, parts[0], calls, answers, manner{bounded: true})
		if err != nil && !fault.LockTimeout(err) {
			return err
		}
		rest := slices.DeleteFunc(slices.Clone(parts[0]), func(i int) bool { return answers[i].Answered() })
		if n := len(rest); n > 1 {
			parts = append(parts, rest[:n/2], rest[n/2:])
		}
	}
	return nil
}

// needsAny reports whether a call is about one of the rows, and whether each key of those has other rows.
func needsAny(c runtime.Call, rows []runtime.Row) (needs, other bool) {
	other = true
	for i := range c.Requests {
		q := &c.Requests[i]
		if q.Policy != nil && slices.ContainsFunc(rows, func(r runtime.Row) bool { return r.Name == q.Policy.Name && r.Key == q.Key }) {
			needs, other = true, other && q.Policy.Shards > 1
		}
	}
	return needs, other
}

// rowsOf returns the rows of the calls at these indexes, in order.
func rowsOf(calls []runtime.Call, at []int) (rows []runtime.Row) {
	for _, i := range at {
		for _, q := range calls[i].Requests {
			if q.Policy == nil {
				continue
			}
			for shard := range max(1, q.Policy.Shards) {
				rows = append(rows, runtime.Row{Name: q.Policy.Name, Key: q.Key, Shard: shard})
			}
		}
	}
	slices.SortFunc(rows, runtime.Row.Compare)
	return slices.Compact(rows)
}

// lockedRows returns which rows are locked by other transactions. The unknown ones are missing, unless another
// transaction has inserted them.
func (e *Engine) lockedRows(ctx context.Context, rows []runtime.Row) (locked, unknown []runtime.Row, err error) {
	x := e.prepared.Executor.Load()
	if e.server.Dialect.ReadFree == "" || x == nil {
		return nil, rows, nil
	}
	absent, err := e.absentRows(ctx, x, conn.ReadFree, rows)
	if err != nil || len(absent) == 0 {
		return nil, nil, err
	}
	var missing []runtime.Row
	if precise := e.server.Dialect.BoundWaits != ""; precise {
		missing, err = e.absentRows(ctx, x, conn.ReadUnlocked, absent)
		unknown = missing
	} else {
		missing, err = e.uninsertedRows(ctx, absent)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, r := range absent {
		if !slices.Contains(missing, r) {
			locked = append(locked, r)
		}
	}
	return locked, unknown, nil
}

// absentRows returns the rows that a statement does not read.
func (e *Engine) absentRows(ctx context.Context, x *conn.Executor, by conn.Statement, rows []runtime.Row) (absent []runtime.Row, err error) {
	err = e.server.Single(ctx, x, func(in conn.Session) error {
		l := table.NewRowLock(in, rows, runtime.DurabilityDefault)
		err := l.Read(ctx, by, rows)
		absent = l.Missing()
		return err
	})
	return absent, err
}

// uninsertedRows returns the rows that no transaction has inserted, on a database that shows uncommitted rows.
func (e *Engine) uninsertedRows(ctx context.Context, rows []runtime.Row) ([]runtime.Row, error) {
	tx, err := e.server.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	l := table.NewRowLock(e.server.In(tx), rows, runtime.DurabilityDefault)
	err = l.Read(ctx, conn.ReadUnlocked, rows)
	return l.Missing(), err
}

// Holder is group.Options.Holder.
func (e *Engine) Holder(ctx context.Context, row runtime.Row) (holder string, locked bool) {
	x := e.prepared.Executor.Load()
	if x == nil || e.server.Dialect.ReadFree == "" || !e.server.Gate.Enter() {
		return "", false
	}
	defer e.server.Gate.Open.Done()
	found, unknown, err := e.lockedRows(ctx, []runtime.Row{row})
	if err == nil && len(unknown) > 0 && x.Bounded != nil {
		// Only an insert shows whether another transaction has inserted the row.
		err = e.server.InTx(ctx, x.Bounded, runtime.DurabilityDefault, func(in conn.Session) error {
			arity, v := conn.Bind([]runtime.StoredRow{{Row: row}})
			_, err := in.Exec(ctx, conn.SeedRows, arity, v)
			return cmp.Or(err, conn.ErrRollback)
		})
		return "", fault.LockTimeout(err)
	}
	if err != nil || len(found) == 0 {
		return "", false
	}
	if e.server.Dialect.Holder == "" {
		return "", true
	}
	// Without the privilege for it, the transaction stays unknown.
	_ = e.server.Single(ctx, x, func(in conn.Session) error {
		arity, v := conn.Bind([]runtime.StoredRow{{Row: row}})
		found, err := in.Query(ctx, conn.FindHolder, arity, v)
		if err != nil {
			return err
		}
		defer found.Close()
		if found.Next() {
			return found.Scan(&holder)
		}
		return found.Err()
	})
	return holder, true
}
