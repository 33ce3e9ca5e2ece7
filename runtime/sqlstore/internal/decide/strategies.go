package decide

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// The strategies, in the order in which decide tries them. All give the same answers, bit for bit: storetest,
// package agree and the live tests compare them with [batch.Batch]. The tables of runtime/bench/README.md compare the upserts with
// bare ones, the floors, and with SELECT FOR UPDATE; ratios here are of processor times, unless they say otherwise.
//
//	strategy          round trips  stays because
//	Decider           0 (SQLite)   all batches: 64 callers cost 0.4 of compareAndSwap and of locked
//	upsertReturning,
//	upsertOneReturning 1           plain takes on Postgres and MariaDB, without a transaction of four statements
//	upsertInsertID    1 (MySQL)    the same on MySQL, which has no RETURNING
//	thenSelect        2 (MySQL)    several rows of a limit; the locked transaction has 5 round trips
//	compareAndSwap    1 or 2       sliding windows, precise limits, other methods and denials of one row without a transaction, and
//	                               lone calls of sharded limits whose shards were not seen lately
//	unlocked          1            calls of a batch that change nothing: checks and denials
//	together          1            calls of several limits on Postgres: lone ones at 0.6 of the time of the locked transaction and half of
//	                               its processor time in this process, and batches of 64 callers at 0.8 of its processor time
//	locked            4 or more    the only one that serves everything: several rows, all or none, first uses, debts of shards

// upsertStrategy takes from the rows of one statement, and sets After of those from which it has taken.
type upsertStrategy func(ctx context.Context, in conn.Session, t part) error

// upsertReturning runs the dialect's Take, which selects the rows that it has written.
func upsertReturning(ctx context.Context, in conn.Session, t part) error {
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
func upsertOneReturning(ctx context.Context, in conn.Session, t part) error {
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
func upsertInsertID(ctx context.Context, in conn.Session, t part) error {
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

// thenSelect runs the dialect's TakeKeys or Take, and selects the result on the same connection.
type thenSelect struct {
	on *conn.Server
	// lost is set once the server has lost a result.
	lost atomic.Bool
}

// upsert is an [upsertStrategy]. If selecting the result fails, the tokens have been taken, and the error is one after which
// the store does not take again.
func (s *thenSelect) upsert(ctx context.Context, in conn.Session, t part) error {
	if len(t.rows) == 1 {
		return upsertInsertID(ctx, in, t)
	}
	_, v := t.bind()
	take := s.on.Place().Queries[t.statement()][conn.ManyRows].Literal(v)
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
		if err := tx.QueryRowContext(ctx, s.on.Dialect.Taken).Scan(&taken); err != nil {
			return err
		}
		err = dialect.DecodeTaken(t.rows, affected, taken)
		if err != nil {
			// A version of the server may evaluate variables in another order. Later calls do without them.
			s.lost.Store(true)
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
