package decide

import (
	"cmp"
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// undoneRest is how many batches go without takeTogether after one whose statement was undone.
const undoneRest = 16

// takeTogether takes for calls about several rows by one statement, from all of these or none, and leaves the others without
// an answer. A single call for which it has taken nothing is read. With 64 callers of two limits each, that is 0.8 of the
// processor time of the locked transaction.
func (e *Engine) takeTogether(ctx context.Context, p *plan) error {
	if !p.lone && e.undone.Load() > 0 {
		e.undone.Add(-1)
		return nil
	}
	now, err := e.server.Now(ctx, e.server.DB)
	if err != nil {
		return err
	}
	denied := false
	err = p.decideRest(func(calls []runtime.Call, answers []runtime.Answer) error {
		t := newTakes(calls, now(), known{dialect: &e.server.Dialect, hints: e.hints, together: true})
		parts, arity := t.parts()
		if len(parts) == 0 || len(parts) > conn.MaxTogether {
			return nil
		}
		taken, err := e.takeParts(ctx, p.on, arity, parts, durabilityOf(calls))
		switch {
		case err != nil:
			return err
		case taken:
			for i := range t.rows {
				t.answer(&t.rows[i], calls, answers)
			}
			e.learn(calls, answers)
		}
		if denied = !taken; denied && !p.lone {
			e.undone.Store(undoneRest)
		}
		return nil
	})
	if err != nil || !denied || len(p.rest) != 1 {
		return err
	}
	// Most likely a limit denies the call, and a read shows it.
	p.deny(p.rest[0])
	return e.unlocked(ctx, p)
}

// parts returns the rows of each statement, in the order of the rows, in which all statements lock them.
func (t *takes) parts() (parts []part, arity conn.Arity) {
	arity = conn.OneRow
	for from := 0; from < len(t.rows); {
		part := t.part(from)
		if from += len(part); len(part) > 1 {
			arity = conn.ManyRows
		}
		parts = append(parts, part)
	}
	return parts, arity
}

// takeParts runs the statement, and returns false if it has taken nothing.
func (e *Engine) takeParts(ctx context.Context, x *conn.Executor, arity conn.Arity, parts []part, d runtime.Durability) (taken bool, err error) {
	values, missing := make([]*conn.Values, len(parts)), 0
	for i, p := range parts {
		p.reset()
		_, values[i] = p.bind(conn.TakeRows)
		values[i].Of[conn.ParamDurability], values[i].Of[conn.ParamCount] = int(d), len(p)
		missing += len(p)
	}
	rows, err := x.Together.Query(ctx, x.DB, arity, values)
	if err == nil {
		defer rows.Close()
		var i int
		var key string
		var after runtime.State
		for next := 0; err == nil && rows.Next(); missing-- {
			err = rows.Scan(&i, &key, &after.Value, &after.TS, &after.Prev, &after.Exists)
			if at, ok := parts[i].find(key, next); ok {
				parts[i][at].after, next = after, at+1
			}
		}
		err = cmp.Or(err, rows.Err())
	}
	if fault.RefusedValue(err) {
		// Another call took tokens from a row between the check of all rows and its lock.
		return false, nil
	}
	return missing == 0, err
}
