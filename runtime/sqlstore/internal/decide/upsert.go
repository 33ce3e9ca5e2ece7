package decide

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// upsertStrategy takes from the rows of one statement, and sets After of those from which it has taken.
type upsertStrategy func(ctx context.Context, e *Engine, in conn.Session, t part) error

// take takes by upserts, each for the rows of one statement: if one fails, those before it have committed, and their calls are answered.
// Calls from whose row nothing is taken are denied, and left: only a read shows when their tokens are due.
func (e *Engine) take(ctx context.Context, p *plan) (err error) {
	for p.sent < len(p.rows) {
		t := p.part(p.sent)
		t.reset()
		if p.on.NeedsTx() {
			err = e.prepared.InTx(ctx, p.on, t.policy.Durability, func(in conn.Session) error { return p.upsert(ctx, e, in, t) })
		} else {
			err = p.upsert(ctx, e, p.on, t)
		}
		if err != nil {
			// A failed statement took nothing, whatever it has returned.
			return err
		}
		end := p.sent + len(t.rows)
		p.answer(p.sent, end, p.calls, p.answers)
		for ; p.sent < end; p.sent++ {
			e.taken(p, p.sent)
		}
	}
	return nil
}

// taken removes the denial hint of a key from whose row was taken, and keeps the state of a shard, or marks the calls.
func (e *Engine) taken(p *plan, row int) {
	r, of := &p.rows[row], &p.requests[row]
	if !r.After.Exists {
		for _, q := range of.all {
			p.deny(q.call)
		}
		return
	}
	e.hints.allowed(head(r.Row))
	if of.whole != nil {
		e.seen.keep(r.Row, r.After, false)
	}
}

// takesOne reports whether there is one row to take from, which is what statements for one row are for.
func (p *plan) takesOne() bool { return len(p.rows) == 1 && p.sent == 0 }

func (p *plan) takesMany() bool { return p.sent < len(p.rows) }

// upsertReturning runs the dialect's Take, which selects the rows that it has written.
func upsertReturning(ctx context.Context, _ *Engine, in conn.Session, t part) error {
	arity, v := t.bind()
	take := conn.TakeRows
	if t.policy.Shards > 1 {
		take = conn.TakeShards
	}
	rows, err := in.Query(ctx, take, arity, v)
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
			t.rows[i].After = after
			// The next row is most often the neighbor of this one, also after rows that were not taken from.
			next = i
		}
	}
	return rows.Err()
}

// upsertOneReturning runs the dialect's TakeOne.
func upsertOneReturning(ctx context.Context, _ *Engine, in conn.Session, t part) error {
	_, v := t.bind()
	after := &t.rows[0].After
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

// find returns the index of the row of a key.
func (t part) find(key string, expected int) (int, bool) {
	// Databases mostly return rows in the order in which they got them.
	if expected < len(t.rows) && t.rows[expected].Row.Key == key {
		return expected, true
	}
	return slices.BinarySearchFunc(t.rows, key, func(r meter.RowUpsert, key string) int { return strings.Compare(r.Row.Key, key) })
}

// upsertInsertID runs the dialect's TakeInsertID for one row, and decodes its result.
func upsertInsertID(ctx context.Context, _ *Engine, in conn.Session, t part) error {
	_, v := t.bind()
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
	t.rows[0].After, err = dialect.DecodeInsertID(&t.rows[0].Upsert, affected, id)
	return err
}

// upsertThenSelect runs the dialect's TakeKeys or Take, and selects the result on the same connection. If selecting the result fails,
// the tokens have been taken, and the error is one after which the store does not take again.
func upsertThenSelect(ctx context.Context, e *Engine, in conn.Session, t part) error {
	if len(t.rows) == 1 {
		return upsertInsertID(ctx, e, in, t)
	}
	_, v := t.bind()
	take := e.prepared.Place().Queries[t.statement()][conn.ManyRows].Literal(v)
	return in.Pinned(ctx, func(tx conn.Runner) error {
		var result sql.Result
		err := in.InTime(ctx, take, func(take string) (err error) {
			result, err = tx.ExecContext(ctx, take)
			return conn.Unsent(err)
		})
		if err != nil {
			return err
		}
		affected, err := result.RowsAffected()
		if err != nil {
			return err
		}
		var taken []byte
		if err := tx.QueryRowContext(ctx, e.prepared.Dialect.Taken).Scan(&taken); err != nil {
			return err
		}
		err = dialect.DecodeTaken(t.rows, affected, taken)
		if err != nil {
			// A version of the server may evaluate variables in another order. Later calls do without them.
			e.lost.Store(true)
		}
		return err
	})
}

// statement returns TakeKeys if the upserts of all rows are the same, and TakeRows otherwise.
func (t part) statement() conn.Statement {
	for i := range t.rows {
		if t.rows[i].Upsert.Count != t.rows[0].Upsert.Count || t.rows[i].Upsert.T != t.rows[0].Upsert.T {
			return conn.TakeRows
		}
	}
	return conn.TakeKeys
}

// bind returns the arity of a statement that takes, and the values of its parameters.
func (t part) bind() (conn.Arity, *conn.Values) {
	rows := make([]conn.Stored, len(t.rows))
	for i := range t.rows {
		r := &t.rows[i]
		rows[i] = conn.Stored{Row: r.Row, State: r.Upsert.Inserted()}
	}
	arity, v := conn.Bind(rows)
	t.bindUpsert(v)
	return arity, v
}

// bindUpsert sets the values that are the same for all rows.
func (t part) bindUpsert(v *conn.Values) {
	u := &t.rows[0].Upsert
	v.Of[conn.ParamCapacity] = u.Capacity
	v.Of[conn.ParamTwice] = 2 * u.Capacity
	v.Of[conn.ParamRate] = u.Rate
	v.Of[conn.ParamPeriod] = u.Period
	v.Of[conn.ParamDebt] = u.Debt
	v.Of[conn.ParamLowest] = u.Lowest
	v.Of[conn.ParamAllowance] = u.Allowance
	v.Of[conn.ParamUnit] = float64(meter.TotalUnit)
	v.Of[conn.ParamFresh] = u.Fresh
	v.Of[conn.ParamDurability] = int(t.policy.Durability)
}
