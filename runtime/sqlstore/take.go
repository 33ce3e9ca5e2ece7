package sqlstore

import (
	"context"
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
