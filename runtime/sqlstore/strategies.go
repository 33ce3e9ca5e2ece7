package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// The strategies, in the order in which decide tries them. All give the same answers, bit for bit: storetest, the
// package internal/agree and the live tests compare them with runtime.Batch. Ratios of processor times are from
// runtime/bench/README.md, with 1 caller and 1,000 keys unless they say otherwise.
//
//	strategy          round trips  stays because
//	upsertByDriver    1 (SQLite)   less than a bare upsert by package database/sql; RETURNING costs half as much again in
//	                               SQLite, and 64 callers are a third faster than with a statement per row
//	upsertReturning,
//	upsertOneReturning 1           Postgres and MariaDB: 0.87 and 0.74 of the bare upsert, and on Postgres with 64 callers a
//	                               thirtieth of the cost of SELECT FOR UPDATE, a transaction of four statements
//	upsertInsertID    1 (MySQL)    0.90 of MySQL's bare upsert; MySQL has no RETURNING
//	upsertThenSelect  2 (MySQL)    several rows of a limit; the locked transaction has 5 round trips
//	compareAndSwap    1 or 2       sliding windows, other methods and denials without a transaction
//	locked            4 or more    the only one that serves everything: several rows, all or none, first uses, shards,
//	                               and precise limits: a take has five round trips (begin, the first row, the rows that
//	                               may have expired, the write, commit), whatever the rate

// upsertStrategy takes from the rows of one statement, and sets After of those from which it has taken.
type upsertStrategy func(ctx context.Context, in session, t part) error

// upsertByDriver uses [Options.Upserter]. It needs no session: the Upserter has its own connection.
func (s *Store) upsertByDriver(ctx context.Context, _ session, t part) error {
	return s.upserter.Upsert(ctx, t.rows)
}

// upsertReturning runs the dialect's Take, which selects the rows that it has written.
func upsertReturning(ctx context.Context, in session, t part) error {
	arity, v := t.bind()
	rows, err := in.query(ctx, takeRows, arity, v)
	if err != nil {
		return err
	}
	defer rows.Close()
	// The statement selects no names: all rows are of one limit.
	row, taken := t.rows[0].Row, false
	after := runtime.State{Exists: true}
	for next := 0; rows.Next(); next++ {
		if err := rows.Scan(&row.Key, &after.Value, &after.TS, &after.Prev, &taken); err != nil {
			return err
		}
		if i, ok := t.find(row, next); ok && taken {
			t.rows[i].After = after
			// The next row is most often the neighbor of this one, also after rows that were not taken from.
			next = i
		}
	}
	return rows.Err()
}

// upsertOneReturning runs the dialect's TakeOne.
func upsertOneReturning(ctx context.Context, in session, t part) error {
	_, v := t.bind()
	after := &t.rows[0].After
	if x, ok := in.(*executor); ok && x.raw {
		// If the server has closed an idle connection, nothing was sent, and package database/sql finds another one.
		sent, err := x.takeRaw(ctx, v, after)
		if sent || !errors.Is(err, driver.ErrBadConn) {
			return err
		}
	}
	rows, err := in.query(ctx, takeOne, oneRow, v)
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

// find returns the index of a row.
func (t part) find(row runtime.Row, expected int) (int, bool) {
	// Databases mostly return rows in the order in which they got them.
	if expected < len(t.rows) && t.rows[expected].Row == row {
		return expected, true
	}
	return slices.BinarySearchFunc(t.rows, row, func(r RowUpsert, row runtime.Row) int { return r.Row.Compare(row) })
}

// upsertInsertID runs the dialect's TakeInsertID for one row, and decodes its result.
func upsertInsertID(ctx context.Context, in session, t part) error {
	_, v := t.bind()
	result, err := in.exec(ctx, takeInsertID, oneRow, v)
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
	t.rows[0].After, err = decodeInsertID(&t.rows[0].Upsert, affected, id)
	return err
}

// upsertThenSelect runs the dialect's TakeKeys or Take, and selects the result on the same connection. If that fails, the
// tokens have been taken, and the error is one after which the store does not take again.
func (s *Store) upsertThenSelect(ctx context.Context, in session, t part) error {
	if len(t.rows) == 1 {
		return upsertInsertID(ctx, in, t)
	}
	_, v := t.bind()
	take := s.queries[t.statement()][manyRows].literal(v)
	return in.pinned(ctx, func(tx runtime.Tx) error {
		result, err := tx.ExecContext(ctx, take)
		if err != nil {
			return unsent(err)
		}
		affected, err := result.RowsAffected()
		if err != nil {
			return err
		}
		var taken []byte
		if err := tx.QueryRowContext(ctx, s.dialect.Taken).Scan(&taken); err != nil {
			return err
		}
		err = t.decodeTaken(affected, taken)
		if err != nil {
			// A version of the server may evaluate variables in another order. Later calls do without them.
			s.takenLost.Store(true)
		}
		return err
	})
}

// statement returns takeKeys if the upserts of all rows are the same, and takeRows otherwise.
func (t part) statement() statement {
	for i := range t.rows {
		if t.rows[i].Upsert.Count != t.rows[0].Upsert.Count || t.rows[i].Upsert.T != t.rows[0].Upsert.T {
			return takeRows
		}
	}
	return takeKeys
}

// bind returns the arity of a statement that takes, and the values of its parameters.
func (t part) bind() (arity, *values) {
	rows := make([]stored, len(t.rows))
	for i := range t.rows {
		r := &t.rows[i]
		rows[i] = stored{r.Row, r.Upsert.Inserted()}
	}
	arity, v := bind(rows)
	t.bindUpsert(v)
	return arity, v
}

// bindUpsert sets the values that are the same for all rows.
func (t part) bindUpsert(v *values) {
	u := &t.rows[0].Upsert
	v.of[paramCapacity] = u.Capacity
	v.of[paramTwice] = 2 * u.Capacity
	v.of[paramRate] = u.Rate
	v.of[paramPeriod] = u.Period
	v.of[paramDebt] = u.Debt
	v.of[paramLowest] = u.Lowest
	v.of[paramAllowance] = u.Allowance
	v.of[paramUnit] = float64(runtime.TotalUnit)
	v.of[paramFresh] = u.Fresh
	v.of[paramDurability] = int(t.policy.Durability)
}

// compareAndSwap decides calls about one row without a transaction: it reads the row, decides in Go, and writes the row
// if it has not changed. It reports false if it could not: the calls are about several rows, the row must be inserted or
// deleted, another transaction has changed it meanwhile, or the driver might send the write twice.
func (s *Store) compareAndSwap(ctx context.Context, x *executor, calls []runtime.Call, answers []runtime.Answer) (done bool, err error) {
	b := runtime.NewBatch(calls)
	if len(b.Rows()) != 1 || s.dialect.CompareAndSwap == "" || hasLog(calls) {
		return false, nil
	}
	err = retry(ctx, func() error {
		now, err := s.now(ctx, s.db)
		if err != nil {
			return err
		}
		return s.single(ctx, x, func(in session) (err error) {
			done, err = s.swap(ctx, x, in, now, b, durabilityOf(calls))
			return err
		})
	})
	done = done && err == nil
	if done {
		copy(answers, b.Answers())
	}
	// The answer to a denial decides where the next take from this row begins: see upsertStrategy.
	if row := b.Rows()[0]; done && deniesTake(calls, answers) {
		s.hints.denied(row)
	} else {
		s.hints.allowed(row)
	}
	return done, err
}

// hasLog reports whether a call is about a precise limit, whose decisions need more rows than the first one.
func hasLog(calls []runtime.Call) bool {
	return slices.ContainsFunc(calls, func(c runtime.Call) bool {
		return slices.ContainsFunc(c.Requests, func(q runtime.Request) bool { return q.Policy != nil && q.Policy.Precise })
	})
}

// deniesTake reports whether a take among the calls was denied.
func deniesTake(calls []runtime.Call, answers []runtime.Answer) bool {
	for i, a := range answers {
		denied := !a.Allowed() || slices.ContainsFunc(a.Decisions, func(d runtime.Decision) bool { return d.Shadowed })
		if a.Err == nil && denied && slices.ContainsFunc(calls[i].Requests, isTake) {
			return true
		}
	}
	return false
}

func isTake(q runtime.Request) bool { return q.Op == runtime.Take || q.Op == runtime.TakeUpTo }

// swap runs a batch of one row, and returns false if its changes were not written.
func (s *Store) swap(
	ctx context.Context, x *executor, in session, now func() int64, b *runtime.Batch, d runtime.Durability,
) (bool, error) {
	l := newRowLock(in, b.Rows(), d)
	if err := l.read(ctx, readUnlocked, b.Rows()); err != nil {
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
	if !was.Exists || !is.Exists {
		// A missing row has no state to compare, and only a transaction that has locked a row may delete it.
		return false, nil
	}
	if x.resends && !x.splits {
		// The second of two equal writes would find the row changed by the first, and the call would be decided twice.
		// With a driver that splits statements this is a transaction, in which none is sent twice.
		return false, nil
	}
	arity, v := l.bind([]stored{{l.rows[0], is}})
	v.of[paramOldValue], v.of[paramOldTS], v.of[paramOldPrev] = was.Value, was.TS, was.Prev
	result, err := in.exec(ctx, swapRow, arity, v)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}
