package decide

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// upsertStrategy takes from the rows of one statement, and sets After of those from which it has taken.
type upsertStrategy func(e *Engine, ctx context.Context, in conn.Session, t part) error

// take takes by upserts, each for the rows of one statement: if one fails, those before it have committed, and their calls
// are answered. Calls from whose row nothing is taken are denied, and left: only a read shows when their tokens are due.
func (e *Engine) take(ctx context.Context, p *plan) (err error) {
	for p.sent < len(p.rows) {
		t := p.part(p.sent)
		t.reset()
		if p.on.NeedsTx() {
			err = e.server.InTx(ctx, p.on, t[0].policy.Durability, func(in conn.Session) error { return p.upsert(e, ctx, in, t) })
		} else {
			err = p.upsert(e, ctx, p.on, t)
		}
		if err != nil {
			// A failed statement took nothing, whatever it has returned.
			return err
		}
		for i := range t {
			e.taken(p, &t[i])
		}
		p.sent += len(t)
	}
	return nil
}

// taken answers the calls about a row from which was taken, and keeps the state of a shard, or marks the calls as denied.
func (e *Engine) taken(p *plan, r *takeRow) {
	if !r.after.Exists {
		for _, q := range r.requests {
			p.deny(q.call)
		}
		return
	}
	e.hints.allowed(head(r.Row))
	if r.whole != nil {
		e.seen.keep(r.Row, r.after, false)
	}
	p.answer(r, p.calls, p.answers)
}

// takesOne reports whether there is one row to take from, which is what statements for one row are for.
func (p *plan) takesOne() bool { return len(p.rows) == 1 && p.sent == 0 }

func (p *plan) takesMany() bool { return p.sent < len(p.rows) && p.inFew(p.sent) }

// upsertReturning runs the dialect's Take, which selects the rows that it has written.
func (e *Engine) upsertReturning(ctx context.Context, in conn.Session, t part) error {
	s := t.statement()
	arity, v := t.bind(s)
	rows, err := in.Query(ctx, s, arity, v)
	if err != nil {
		return err
	}
	defer rows.Close()
	// The statement selects no names and no shards: all rows are of one limit, and of different keys.
	var key string
	var taken bool
	after := runtime.State{Exists: true}
	for next := 0; rows.Next(); next++ {
		if err := rows.Scan(&key, &after.Value, &after.TS, &after.Prev, &taken); err != nil {
			return err
		}
		if i, ok := t.find(key, next); ok && taken {
			t[i].after = after
			// The next row is most often the neighbor of this one, also after rows that were not taken from.
			next = i
		}
	}
	return rows.Err()
}

// upsertOneReturning runs the dialect's TakeOne.
func (e *Engine) upsertOneReturning(ctx context.Context, in conn.Session, t part) error {
	_, v := t.bind(conn.TakeOne)
	after := &t[0].after
	if x, ok := in.(*conn.Executor); ok && x.Raw {
		// If the server has closed an idle connection, nothing was sent, and package database/sql finds another one.
		sent, err := x.TakeRaw(ctx, v, after)
		if sent || !errors.Is(err, driver.ErrBadConn) {
			return err
		}
	}
	rows, err := in.Query(ctx, conn.TakeOne, conn.OneRow, v)
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		if err := rows.Scan(&after.Value, &after.TS, &after.Prev, &after.Exists); err != nil {
			return err
		}
	}
	return rows.Err()
}

// upsertInsertID runs the dialect's TakeInsertID for one row, and decodes its result.
func (e *Engine) upsertInsertID(ctx context.Context, in conn.Session, t part) error {
	_, v := t.bind(conn.TakeInsertID)
	result, err := in.Exec(ctx, conn.TakeInsertID, conn.OneRow, v)
	if err != nil {
		return err
	}
	affected, err := result.RowsAffected()
	if err != nil {
		return err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return err
	}
	t[0].after, err = dialect.DecodeInsertID(&t[0].upsert, affected, id)
	return err
}

// upsertThenSelect runs the dialect's TakeKeys or Take, and selects the result on the same connection. If selecting the
// result fails, the tokens have been taken, and the error is one after which the store does not take again.
func (e *Engine) upsertThenSelect(ctx context.Context, in conn.Session, t part) error {
	if len(t) == 1 {
		return e.upsertInsertID(ctx, in, t)
	}
	s := t.statement()
	if s == conn.TakeRows && t.alike() {
		s = conn.TakeKeys
	}
	_, v := t.bind(s)
	return e.pinned(ctx, in, s, v, func(affected int64, taken func() ([]byte, error)) error {
		result, err := taken()
		if err != nil {
			return err
		}
		upserts := make([]*meter.Upsert, len(t))
		for i := range t {
			upserts[i] = &t[i].upsert
		}
		states, err := dialect.DecodeTaken(upserts, affected, result)
		if err != nil {
			// A version of the server may evaluate variables in another order. Later calls do without them.
			e.lost.Store(true)
		}
		for i, s := range states {
			t[i].after = s
		}
		return err
	})
}

// pinned runs a statement for many rows, and then a function that may select its result on the same connection.
func (e *Engine) pinned(
	ctx context.Context, in conn.Session, s conn.Statement, v *conn.Values, then func(affected int64, taken func() ([]byte, error)) error,
) error {
	text := e.server.Place().Queries[s][conn.ManyRows].Literal(v)
	return in.Pinned(ctx, func(tx conn.Runner) error {
		var result sql.Result
		err := in.InTime(ctx, text, func(text string) (err error) {
			result, err = tx.ExecContext(ctx, text)
			return conn.Unsent(err)
		})
		if err != nil {
			return err
		}
		affected, err := result.RowsAffected()
		if err != nil {
			return err
		}
		return then(affected, func() (taken []byte, err error) {
			err = tx.QueryRowContext(ctx, e.server.Dialect.Taken).Scan(&taken)
			return taken, err
		})
	})
}

// statement returns the statement that takes from the rows.
func (t part) statement() conn.Statement {
	if t[0].policy.Shards > 1 {
		return conn.TakeShards
	}
	for i := range t {
		if !sameNumbers(t[i].upsert, t[0].upsert) {
			return conn.TakeEach
		}
	}
	return conn.TakeRows
}

// sameNumbers reports whether two takes differ in no more than what TakeRows has for each row.
func sameNumbers(a, b meter.Upsert) bool {
	a.Count, a.T = b.Count, b.T
	return a == b
}

// alike reports whether the takes from all rows are the same.
func (t part) alike() bool {
	for i := range t {
		if t[i].upsert != t[0].upsert {
			return false
		}
	}
	return true
}

// bind returns the arity of a statement that takes, and the values of its parameters.
func (t part) bind(s conn.Statement) (conn.Arity, *conn.Values) {
	rows := make([]runtime.StoredRow, len(t))
	for i := range t {
		rows[i] = runtime.StoredRow{Row: t[i].Row, State: t[i].upsert.Inserted()}
	}
	arity, v := conn.BindTake(rows, &t[0].upsert)
	if s == conn.TakeEach {
		v.Takes = make([]meter.Upsert, len(t))
		for i := range t {
			v.Takes[i] = t[i].upsert
		}
	}
	v.Of[conn.ParamDurability] = int(t[0].policy.Durability)
	return arity, v
}
