package decide

import (
	"cmp"
	"context"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// together is the takes of calls from several rows, in the order of the rows.
type together struct {
	calls []runtime.Call
	now   int64
	rows  []meter.RowUpsert
	of    []rowRequests
	// takes reports for each of the calls whether its takes are among them.
	takes []bool
}

// newTogether returns the takes of the calls that are takes from different rows from which upserts can take.
func (e *Engine) newTogether(calls []runtime.Call, now int64) *together {
	requests := requestsByRow(calls)
	n := countRows(requests)
	t := &together{calls, now, make([]meter.RowUpsert, 0, n), make([]rowRequests, 0, n), make([]bool, len(calls))}
	for i := range calls {
		t.takes[i] = true
		for j := range calls[i].Requests {
			t.takes[i] = t.takes[i] && calls[i].Requests[j].Policy != nil
		}
	}
	for i := range requests {
		requests[i].alone = true // either all of the others are taken too, or none
	}
	for of := range byRow(requests) {
		t.of = append(t.of, rowRequests{policy: of[0].Policy, all: of})
		r := &t.of[len(t.rows)]
		upsert, ok := r.upsert(now, nil)
		ok = ok && !e.hints.expect(r.row())
		t.rows = append(t.rows, meter.RowUpsert{Row: r.row(), Upsert: upsert})
		for i, q := range of {
			// Two takes of one call from a row are decided as their sum.
			if !ok || i > 0 && of[i-1].call == q.call {
				t.takes[q.call] = false
			}
		}
	}
	t.leaveOut()
	return t
}

// leaveOut removes the rows of calls that are left out, and with them the calls about these rows: the calls of a row stay in their order.
func (t *together) leaveOut() {
	left := func(q request) bool { return !t.takes[q.call] }
	for again := true; again; {
		again = false
		for _, r := range t.of {
			if !slices.ContainsFunc(r.all, left) {
				continue
			}
			for _, q := range r.all {
				again, t.takes[q.call] = again || t.takes[q.call], false
			}
		}
	}
	kept := 0
	for i, r := range t.of {
		if !left(r.all[0]) {
			t.rows[kept], t.of[kept] = t.rows[i], r
			kept++
		}
	}
	t.rows, t.of = t.rows[:kept], t.of[:kept]
}

// takeTogether decides a lone call about several rows by one statement that takes from all of them, or by one that reads them if that
// takes nothing. It returns false if neither can.
func (e *Engine) takeTogether(ctx context.Context, x *conn.Executor, calls []runtime.Call, answers []runtime.Answer, now int64) (bool, error) {
	if n := len(calls[0].Requests); x.Together == nil || n < 2 || n > conn.MaxTogether {
		return false, nil
	}
	if t := e.newTogether(calls, now); len(t.rows) == len(calls[0].Requests) {
		var parts []part
		for i := range t.rows {
			parts = append(parts, part{t.of[i].policy, t.rows[i : i+1]})
		}
		taken, err := e.takeParts(ctx, x, conn.OneRow, parts, durabilityOf(calls))
		if err != nil {
			return false, err
		}
		if taken {
			t.answer(answers)
			e.learn(calls, answers)
			return true, nil
		}
	} else if !e.changesNothing(calls[0]) {
		return false, nil
	}
	err := e.unlocked(ctx, x, []int{0}, []bool{true}, calls, answers)
	return err == nil && answers[0].Answered(), err
}

// undoneRest is how many batches go without takeAll after one whose statement was undone.
const undoneRest = 16

// takeAll takes for the calls of a batch about several rows by one statement, from all of these or none, and leaves the others without an
// answer. With 64 callers of two limits each, that is 0.8 of the processor time of the locked transaction.
func (e *Engine) takeAll(ctx context.Context, x *conn.Executor, calls []runtime.Call, answers []runtime.Answer) error {
	if x.Together == nil || x.NeedsTx() {
		return nil
	}
	if e.undone.Load() > 0 {
		e.undone.Add(-1)
		return nil
	}
	now, err := e.Now(ctx, e.DB)
	if err != nil {
		return err
	}
	t := e.newTogether(calls, now())
	parts := t.parts()
	if len(parts) == 0 || len(parts) > conn.MaxTogether {
		return nil
	}
	taken := false
	err = x.Retry(ctx, func() (err error) {
		taken, err = e.takeParts(ctx, x, conn.ManyRows, parts, durabilityOf(calls))
		return err
	})
	if fault.LockTimeout(err) {
		return err
	}
	if err != nil || !taken {
		e.undone.Store(undoneRest)
		return err
	}
	t.answer(answers)
	e.learn(calls, answers)
	return nil
}

// parts returns the rows of each limit, or nil if the rows of one have different numbers: a statement locks rows in their order.
func (t *together) parts() (parts []part) {
	for from, to := 0, 1; from < len(t.rows); from, to = to, to+1 {
		for to < len(t.rows) && t.rows[to].Row.Name == t.rows[from].Row.Name {
			if !t.of[to].policy.Equal(t.of[from].policy) || !sameNumbers(&t.rows[to].Upsert, &t.rows[from].Upsert) {
				return nil
			}
			to++
		}
		parts = append(parts, part{t.of[from].policy, t.rows[from:to]})
	}
	return parts
}

// takeParts runs the statement, and returns false if it has taken nothing.
func (e *Engine) takeParts(ctx context.Context, x *conn.Executor, arity conn.Arity, parts []part, d runtime.Durability) (taken bool, err error) {
	values, missing := make([]*conn.Values, len(parts)), 0
	for i, p := range parts {
		p.reset()
		_, values[i] = p.bind()
		values[i].Of[conn.ParamDurability], values[i].Of[conn.ParamCount] = int(d), len(p.rows)
		missing += len(p.rows)
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
				parts[i].rows[at].After, next = after, at+1
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

// answer sets the answers of the calls that have taken.
func (t *together) answer(answers []runtime.Answer) {
	for i, c := range t.calls {
		if t.takes[i] {
			answers[i] = runtime.Answer{Decisions: make([]runtime.Decision, len(c.Requests)), At: t.now}
		}
	}
	for i := range t.of {
		s := t.rows[i].After
		// Backwards from the state after all of them: each decision reports the state after its own request.
		for _, q := range slices.Backward(t.of[i].all) {
			for j := range t.calls[q.call].Requests {
				if q.Request == &t.calls[q.call].Requests[j] {
					answers[q.call].Decisions[j] = t.of[i].taken(s, t.now, q)
				}
			}
			s = meter.Before(s, q.Count)
		}
	}
}
