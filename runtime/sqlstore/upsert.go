package sqlstore

import (
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Taker takes tokens, where a driver has a faster way than the dialect's Take. See [Options].
type Taker interface {
	// Take takes from rows of one limit, whose upserts differ in Count, Fresh and T, and notes how it has left
	// them. If there is an error, nothing was taken, and what is noted does not matter.
	Take(ctx context.Context, rows []RowTake) error
}

// take answers those of the calls that single statements can answer, and returns where the others stand. A
// statement is a transaction of its own, and one round trip, if the driver can be trusted with it.
func (s *Store) take(ctx context.Context, p *prepared, calls []runtime.Call, answers []runtime.Answer) (rest []int, err error) {
	clock, err := s.now(ctx, s.db)
	if err != nil {
		return nil, err
	}
	now := clock()
	all, rest := newTakes(calls, now)
	decisions := make([]runtime.Decision, len(calls))
	by := s.wayOf(all, rest)
	for t := range all.byLimit() {
		if err := retry(ctx, func() error { return s.takeOf(ctx, p, by, t) }); err != nil {
			return nil, err
		}
		for i := range t {
			r := &t[i]
			if r.After.Exists {
				r.answer(answers, decisions, now)
				continue
			}
			for _, q := range r.asked {
				rest = append(rest, q.call)
			}
		}
	}
	if by != nil && len(all) == 1 && all[0].After.Exists {
		s.streaks.ended(all[0].Row)
	}
	slices.Sort(rest)
	return rest, nil
}

// takeOf takes from rows of one limit, and notes how it has left them.
func (s *Store) takeOf(ctx context.Context, p *prepared, by way, t takes) error {
	for i := range t {
		t[i].After = runtime.State{}
	}
	switch {
	case s.taker != nil:
		return s.taker.Take(ctx, t)
	case by == nil:
		return nil
	case p.resends || p.splits: // in a transaction nothing is sent again, and all of it to one session
		return s.inTx(ctx, p, t[0].policy.Durability, func(se session) error { return by(t, ctx, se) })
	}
	return by(t, ctx, p)
}

// way is a way to take by one statement of the dialect.
type way func(takes, context.Context, session) error

// wayOf returns the way to take, or nil if there is none, or a statement is likely to take in vain. A taker has its own.
func (s *Store) wayOf(all takes, rest []int) way {
	single := len(rest) == 0 && len(all) == 1
	switch {
	case s.taker != nil, single && s.streaks.expects(all[0].Row):
		return nil
	case s.dialect.Take != "":
		return takes.run
	case s.dialect.TakeTold != "" && single:
		return takes.tell
	}
	return nil
}

// bind returns the form in which a statement takes, and the values of its parameters.
func (t takes) bind() (form, *values) {
	form, v := bind(t.fresh())
	u := t[0].Upsert
	v[paramCapacity], v[paramRate], v[paramPeriod] = u.Capacity, u.Rate, u.Period
	v[paramDebt], v[paramAllowance] = u.Debt, u.Allowance
	v[paramName], v[paramDurability] = t[0].Row.Name, int(t[0].policy.Durability)
	return form, v
}

// run runs the statement.
func (t takes) run(ctx context.Context, in session) error {
	form, v := t.bind()
	rows, err := in.query(ctx, takeRows, form, v)
	if err != nil {
		return err
	}
	defer rows.Close()
	row, taken := t[0].Row, false
	after := runtime.State{Exists: true}
	for next := 0; rows.Next(); next++ {
		if err := rows.Scan(&row.Key, &after.Value, &after.TS, &taken); err != nil {
			return err
		}
		if i, ok := t.find(row, next); ok && taken {
			t[i].After = after
			next = i
		}
	}
	return rows.Err()
}

// ToldInserted and ToldRefused are ids by which TakeTold in [Dialect] tells what it has done. They are no bits of a
// finite value, and no column that numbers its rows comes to them.
const (
	ToldInserted int64 = 0x7261746c67690000
	ToldRefused  int64 = 0x7261746c67690100
)

// untold is what to do if neither is told, nor a value.
const untold = "the server does not tell what a statement has taken, as if the table had a trigger or an AUTO_INCREMENT " +
	"column: remove it, or what stands between program and server and changes the id of the last insert"

// tell runs the statement that takes from one row and tells by numbers what it has done: see TakeTold in [Dialect].
func (t takes) tell(ctx context.Context, in session) error {
	form, v := t.bind()
	result, err := in.exec(ctx, tellRow, form, v)
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
	t[0].After, err = told(&t[0].Upsert, affected, id)
	return err
}

// told returns the state in which the statement has left the row, if it has taken. How many rows a driver says are
// affected if nothing is written is 0 or 1, as it is set up. What is left is at most what is left of a full row, and at
// least the debt that may be made, to within less than a token.
func told(u *runtime.Upsert, affected, id int64) (runtime.State, error) {
	value := math.Float64frombits(bits.ReverseBytes64(^uint64(id)))
	switch {
	case id == ToldRefused && affected <= 1:
		return runtime.State{}, nil
	case id == ToldInserted && affected == 1:
		return runtime.State{Value: u.Fresh, TS: u.T, Exists: true}, nil
	case affected == 2 && value <= u.Fresh && value > -u.Debt-1:
		return runtime.State{Value: value, TS: u.T, Exists: true}, nil
	}
	return runtime.State{}, &advised{untold, nil}
}

// glance answers calls that are about one row, without a transaction: it reads the row, and writes it if it is
// still what it was. It returns nil if it cannot: they are about more rows, the row is to be inserted or deleted,
// somebody else has changed it meanwhile, or a driver might send again what writes.
func (s *Store) glance(ctx context.Context, p *prepared, calls []runtime.Call) (answers []runtime.Answer, err error) {
	b := runtime.NewBatch(calls)
	if len(b.Rows()) != 1 || s.dialect.Swap == "" {
		return nil, nil
	}
	err = retry(ctx, func() error {
		now, err := s.now(ctx, s.db)
		if err != nil {
			return err
		}
		return s.single(ctx, p, func(in session) error {
			swapped, err := s.swap(ctx, p, in, now, b, durabilityOf(calls))
			answers = nil
			if swapped {
				answers = b.Answers()
			}
			return err
		})
	})
	if err != nil {
		answers = nil
	}
	if row := b.Rows()[0]; deniesTake(calls, answers) {
		s.streaks.denied(row)
	} else {
		s.streaks.ended(row)
	}
	return answers, err
}

// deniesTake reports whether a call was denied that takes.
func deniesTake(calls []runtime.Call, answers []runtime.Answer) bool {
	for i, a := range answers {
		if a.Err == nil && !a.Allowed() && calls[i].Requests[0].Op == runtime.Take {
			return true
		}
	}
	return false
}

// swap runs a batch of one row, and returns false if what it has changed was not written.
func (s *Store) swap(
	ctx context.Context, p *prepared, in session, now func() int64, b *runtime.Batch, d runtime.Durability,
) (bool, error) {
	l := newRowLock(in, b.Rows(), d)
	if err := l.read(ctx, lookRows, b.Rows()); err != nil {
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
	if !was.Exists || !is.Exists || p.resends && !p.splits { // what splits is in a transaction
		return false, nil
	}
	form, v := l.bind([]stored{{l.rows[0], is}})
	v[paramOldValue], v[paramOldTS], v[paramOldPrev] = was.Value, was.TS, was.Prev
	result, err := in.exec(ctx, swapRows, form, v)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}
