package decide

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// swapMany decides calls about one row each without a transaction, as compareAndSwap does: one statement writes each of
// their rows that has not changed. It does not read rows that probably only this process writes, unless they were not what
// it has remembered or are not to change. It leaves the calls whose row another transaction has written meanwhile, or must
// be inserted or deleted, and all calls about the row of one that it leaves.
func (e *Engine) swapMany(ctx context.Context, p *plan) error {
	if e.races.skip() {
		return nil
	}
	again, err := e.swapRows(ctx, p, ofOneRow(p), true)
	if err == nil {
		_, err = e.swapRows(ctx, p, again, false)
	}
	if err != nil {
		return err
	}
	e.races.tried(!slices.ContainsFunc(p.rest, func(i int) bool { return !p.answers[i].Answered() }))
	return nil
}

func (e *Engine) triesSwapMany(p *plan) bool {
	return len(p.rest) > 1 && e.server.Dialect.SwapMany != "" && !e.lost.Load() &&
		!(p.on.Resends && !p.on.Splits) && !e.triesSwap(p)
}

// races counts batches that go without swapMany: while other processes write the same rows, or most rows must be inserted,
// it would be tried in vain.
type races struct{ left, last atomic.Int32 }

// mostSkipped is the most batches that are skipped between two tries.
const mostSkipped = 512

// skip reports whether to skip a batch.
func (r *races) skip() bool { return r.left.Load() > 0 && r.left.Add(-1) >= 0 }

// pausing reports whether several batches are skipped before the next try. States that are remembered now would be old then.
func (r *races) pausing() bool { return r.left.Load() > 1 }

// tried is called after a try. After one that left calls to a transaction, twice as many batches are skipped as before, and
// after another half as many.
func (r *races) tried(all bool) {
	last := r.last.Load()
	if all {
		last /= 2
	} else {
		last = min(max(1, 2*last), mostSkipped)
	}
	r.last.Store(last)
	r.left.Store(last)
}

// ofOneRow returns the indexes of the calls without an answer that have one request for one row, but not those for rows of
// other calls.
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

// swapRows answers calls about one row each, whose indexes it gets, from states that it remembers or reads, if these could
// be written. It returns those that it has not answered because a state was only remembered.
func (e *Engine) swapRows(ctx context.Context, p *plan, at []int, remember bool) (again []int, err error) {
	if len(at) == 0 {
		return nil, nil
	}
	calls := make([]runtime.Call, len(at))
	for i, index := range at {
		calls[i] = p.calls[index]
	}
	b := batch.New(calls)
	rows := b.Rows()
	states, read, unread := make([]runtime.State, len(rows)), make([]bool, len(rows)), []runtime.Row(nil)
	for i, r := range rows {
		if seen := e.seen.find(r); remember && seen != nil && seen.own {
			states[i] = seen.state
		} else {
			read[i], unread = true, append(unread, r)
		}
	}
	now, err := e.server.Now(ctx, e.server.DB)
	if err != nil {
		return nil, err
	}
	if len(unread) > 0 {
		found, _, err := e.readUnlocked(ctx, p.on, unread)
		if err != nil {
			return nil, err
		}
		e.seen.read(unread, found)
		for i := range states {
			if read[i] {
				states[i], found = found[0], found[1:]
			}
		}
	}
	b.Run(now(), states)
	// Rows that do not change: a state that is only remembered shows whether to take, and not whether to deny.
	decided := slices.Clone(read)
	var is, was []runtime.StoredRow
	for _, c := range b.Changes() {
		i, _ := slices.BinarySearchFunc(rows, c.Row, runtime.Row.Compare)
		if decided[i] = false; states[i].Exists && c.State.Exists {
			is, was = append(is, c), append(was, runtime.StoredRow{Row: c.Row, State: states[i]})
		}
	}
	if err := e.swapStates(ctx, p.on, calls, b, is, was, decided); err != nil {
		return nil, err
	}
	answers := b.Answers()
	for i, index := range at {
		row, _ := slices.BinarySearchFunc(rows, rowOf(&calls[i].Requests[0]), runtime.Row.Compare)
		switch {
		case decided[row]:
			p.answers[index] = answers[i]
			e.learn(calls[i:i+1], answers[i:i+1])
		case !read[row]:
			again = append(again, index)
		}
	}
	return again, nil
}

// swapStates writes the rows that have not changed, and marks them as decided.
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
