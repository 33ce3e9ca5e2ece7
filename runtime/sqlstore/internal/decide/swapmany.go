package decide

import (
	"context"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// swapMany decides calls about one row each without a transaction, as compareAndSwap does: one statement writes each of their rows that is
// still what it was. First from the states last seen, if only this process has probably written these rows, and then those that
// are left from states that it reads. It leaves the calls whose row another transaction has written meanwhile, or must be inserted
// or deleted, and all calls about the row of one that it leaves.
func (e *Engine) swapMany(ctx context.Context, p *plan) error {
	for _, remember := range [...]bool{true, false} {
		at := ofOneRow(p)
		if len(at) == 0 {
			return nil
		}
		err := answerAt(at, p.calls, p.answers, func(calls []runtime.Call, answers []runtime.Answer) error {
			return e.swapRows(ctx, p.on, calls, answers, remember)
		})
		if err != nil {
			return err
		}
		p.findRest()
	}
	return nil
}

func (e *Engine) triesSwapMany(p *plan) bool {
	return len(p.rest) > 1 && e.server.Dialect.SwapMany != "" && !e.lost.Load() && !(p.on.Resends && !p.on.Splits) && !e.triesSwap(p)
}

// ofOneRow returns the indexes of the calls without an answer that have one request for one row, but not those for rows of other calls.
func ofOneRow(p *plan) []int {
	at := make([]int, 0, len(p.rest))
	var others map[runtime.Row]bool
	for _, i := range p.rest {
		if all := p.calls[i].Requests; len(all) == 1 && all[0].Validate() == nil && all[0].UsesRows() && all[0].Policy.Shards <= 1 {
			at = append(at, i)
			continue
		}
		for j := range p.calls[i].Requests {
			if q := &p.calls[i].Requests[j]; q.Policy != nil {
				if others == nil {
					others = map[runtime.Row]bool{}
				}
				others[rowOf(q)] = true
			}
		}
	}
	if others == nil {
		return at
	}
	return slices.DeleteFunc(at, func(i int) bool { return others[rowOf(&p.calls[i].Requests[0])] })
}

func rowOf(q *runtime.Request) runtime.Row { return runtime.Row{Name: q.Policy.Name, Key: q.Key} }

// swapRows answers calls about one row each, from states that it reads or has seen, if these could be written.
func (e *Engine) swapRows(ctx context.Context, x *conn.Executor, calls []runtime.Call, answers []runtime.Answer, remember bool) error {
	b := batch.New(calls)
	rows := b.Rows()
	states, decided := make([]runtime.State, len(rows)), make([]bool, len(rows))
	var unseen []runtime.Row
	for i, r := range rows {
		// A row that is only remembered shows whether to take, and not whether to deny.
		if seen := e.seen.find(r); remember && seen != nil && seen.own {
			states[i] = seen.state
		} else {
			unseen, decided[i] = append(unseen, r), true
		}
	}
	now, err := e.server.Now(ctx, e.server.DB)
	if err != nil {
		return err
	}
	if len(unseen) > 0 {
		found, _, err := e.readUnlocked(ctx, x, unseen)
		if err != nil {
			return err
		}
		e.seen.read(unseen, found)
		for i := range states {
			if decided[i] {
				states[i], found = found[0], found[1:]
			}
		}
	}
	if !b.Run(now(), states) {
		return nil
	}
	var is, was []runtime.StoredRow
	for _, c := range b.Changes() {
		i, _ := slices.BinarySearchFunc(rows, c.Row, runtime.Row.Compare)
		if decided[i] = false; states[i].Exists && c.State.Exists {
			is, was = append(is, c), append(was, runtime.StoredRow{Row: c.Row, State: states[i]})
		}
	}
	if err := e.swapStates(ctx, x, calls, b, is, was, decided); err != nil {
		return err
	}
	all := b.Answers()
	for i := range calls {
		at, _ := slices.BinarySearchFunc(rows, rowOf(&calls[i].Requests[0]), runtime.Row.Compare)
		if decided[at] {
			answers[i] = all[i]
			e.learn(calls[i:i+1], answers[i:i+1])
		}
	}
	return nil
}

// swapStates writes the rows that are still what they were, and marks them as decided.
func (e *Engine) swapStates(
	ctx context.Context, x *conn.Executor, calls []runtime.Call, b *batch.Batch, is, was []runtime.StoredRow, decided []bool,
) error {
	if len(is) == 0 {
		return nil
	}
	v := conn.BindSwap(is, was)
	v.Of[conn.ParamDurability] = int(durabilityOf(calls))
	var results []int
	var w write
	err := e.server.Once(ctx, x, func(in conn.Session) (err error) {
		w.begin(ctx, e, calls, b.Answers())
		if e.server.Dialect.Taken != "" {
			results, err = e.swapThenSelect(ctx, in, v, len(is))
		} else {
			results, err = e.swapReturning(ctx, in, v, is)
		}
		return err
	})
	// After the commit, if the driver needs a transaction.
	if err = w.end(ctx, slices.Contains(results, swapped), err); err != nil {
		return err
	}
	var placeholders []runtime.StoredRow
	for i, c := range is {
		e.seen.swapped(c.Row, c.State, results[i] == swapped)
		at, _ := slices.BinarySearchFunc(b.Rows(), c.Row, runtime.Row.Compare)
		if decided[at] = results[i] == swapped; results[i] == inserted {
			placeholders = append(placeholders, table.Placeholder(c.Row))
		}
	}
	if len(placeholders) > 0 {
		// Those that stay after an error have no effect but to take up room until they are swept.
		_ = e.server.Once(ctx, x, func(in conn.Session) error {
			n, v := conn.Bind(placeholders)
			_, err := in.Exec(ctx, conn.DeleteUnchanged, n, v)
			return err
		})
	}
	return nil
}

// Results of the dialect's SwapMany.
const (
	swapped  = 1
	inserted = 2
)

// swapReturning runs the dialect's SwapMany, which selects the rows that it has written.
func (e *Engine) swapReturning(ctx context.Context, in conn.Session, v *conn.Values, is []runtime.StoredRow) ([]int, error) {
	found, err := in.Query(ctx, conn.SwapRows, conn.ManyRows, v)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	results := make([]int, len(is))
	for found.Next() {
		var r runtime.Row
		var result int
		if err := found.Scan(&r.Name, &r.Key, &r.Shard, &result); err != nil {
			return nil, err
		}
		if i, ok := slices.BinarySearchFunc(is, r, func(c runtime.StoredRow, r runtime.Row) int { return c.Row.Compare(r) }); ok {
			results[i] = result
		}
	}
	return results, found.Err()
}

// swapThenSelect runs the dialect's SwapMany, and selects which rows it has written, unless these are all.
func (e *Engine) swapThenSelect(ctx context.Context, in conn.Session, v *conn.Values, rows int) (results []int, err error) {
	err = e.pinned(ctx, in, conn.SwapRows, v, func(affected int64, taken func() ([]byte, error)) error {
		if affected == 2*int64(rows) {
			results = slices.Repeat([]int{swapped}, rows)
			return nil
		}
		each, err := taken()
		if err != nil {
			return err
		}
		if results, err = dialect.DecodeSwapped(rows, affected, each); err != nil {
			e.lost.Store(true)
		}
		return err
	})
	return results, err
}
