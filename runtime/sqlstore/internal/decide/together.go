package decide

import (
	"context"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// together is the takes of one call from several rows, in the order of the rows.
type together struct {
	rows []meter.RowUpsert
	of   []rowRequests
}

// newTogether returns nil if a call is not takes from different rows that upserts can decide.
func newTogether(c *runtime.Call, now int64) *together {
	n := len(c.Requests)
	if n < 2 || n > conn.MaxTogether {
		return nil
	}
	t := &together{make([]meter.RowUpsert, 0, n), make([]rowRequests, 0, n)}
	for _, q := range requestsByRow([]runtime.Call{*c}) {
		q.alone = true // its row has no other request
		r := rowRequests{policy: q.Policy, all: []request{q}}
		upsert, ok := r.upsert(now, nil)
		row := runtime.Row{Name: q.Policy.Name, Key: q.Key}
		if !ok || len(t.rows) > 0 && t.rows[len(t.rows)-1].Row == row {
			return nil
		}
		t.rows, t.of = append(t.rows, meter.RowUpsert{Row: row, Upsert: upsert}), append(t.of, r)
	}
	if len(t.rows) < n {
		return nil // one has no policy
	}
	return t
}

// takeTogether decides a call about several rows by one statement that takes from all of them, or by one that reads them if that takes
// nothing. It returns false if neither can.
func (e *Engine) takeTogether(ctx context.Context, x *conn.Executor, calls []runtime.Call, answers []runtime.Answer, now int64) (bool, error) {
	if e.Together == nil {
		return false, nil
	}
	t := newTogether(&calls[0], now)
	if t == nil {
		return false, nil
	}
	if !slices.ContainsFunc(t.rows, func(r meter.RowUpsert) bool { return e.hints.expect(r.Row) }) {
		taken, err := t.take(ctx, x, e.Together, durabilityOf(calls))
		if err != nil {
			return false, err
		}
		if taken {
			answers[0] = t.answer(&calls[0], now)
			e.learn(calls, answers)
			return true, nil
		}
	}
	left, err := e.unlocked(ctx, x, []int{0}, []bool{true}, calls, answers)
	return err == nil && len(left) == 0, err
}

// take runs the statement, and returns false if it has taken nothing.
func (t *together) take(ctx context.Context, x *conn.Executor, by *conn.Together, d runtime.Durability) (bool, error) {
	values := make([]*conn.Values, len(t.rows))
	for i := range t.rows {
		_, values[i] = part{t.of[i].policy, t.rows[i : i+1]}.bind()
		values[i].Of[conn.ParamDurability] = int(d)
	}
	taken, err := t.read(ctx, x, by, values)
	if fault.RefusedValue(err) {
		// Another call has taken the tokens of one row after those of another were found to be enough.
		return false, nil
	}
	return taken == len(t.rows), err
}

func (t *together) read(ctx context.Context, x *conn.Executor, by *conn.Together, values []*conn.Values) (taken int, err error) {
	rows, err := by.Query(ctx, x, values)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); taken++ {
		var i int
		var s runtime.State
		if err := rows.Scan(&i, &s.Value, &s.TS, &s.Prev, &s.Exists); err != nil {
			return 0, err
		}
		t.rows[i].After = s
	}
	return taken, rows.Err()
}

// answer returns the answer of a call that has taken from all rows.
func (t *together) answer(c *runtime.Call, now int64) runtime.Answer {
	decisions := make([]runtime.Decision, len(c.Requests))
	for i := range t.of {
		q := t.of[i].all[0]
		at := slices.IndexFunc(c.Requests, func(r runtime.Request) bool { return r.Key == q.Key && r.Policy == q.Policy })
		decisions[at] = t.of[i].taken(t.rows[i].After, now, q)
	}
	return runtime.Answer{Decisions: decisions, At: now}
}
