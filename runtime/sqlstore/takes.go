package sqlstore

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// takes is what is taken from rows, in the order of the limits and of the rows of each. One statement takes from the
// rows of one limit.
type takes []RowTake

// asked is a request of a call.
type asked struct {
	*runtime.Request
	// call says where the call stands.
	call int
	// alone says that the call has no other request.
	alone bool
}

// newTakes returns what single statements can take for calls at the instant now, and where the calls stand
// that they cannot answer.
func newTakes(calls []runtime.Call, now int64) (all takes, rest []int) {
	requests := gather(calls)
	covered := make([]bool, len(calls))
	all = make(takes, 0, countRows(requests))
	mixed := false
	for of := range byRow(requests) {
		r := RowTake{policy: of[0].Policy, asked: of}
		if !r.settle(now) {
			continue
		}
		all = append(all, r)
		mixed = mixed || r.Upsert.Debt != all[0].Upsert.Debt
		for _, q := range of {
			covered[q.call] = true
		}
	}
	for i, done := range covered {
		if !done {
			rest = append(rest, i)
		}
	}
	if mixed {
		all.partByDebt()
	}
	return all, rest
}

// partByDebt parts the rows of a limit that go into debt from the others: they are not of one statement.
func (t takes) partByDebt() {
	slices.SortFunc(t, func(a, b RowTake) int {
		byName := strings.Compare(a.Row.Name, b.Row.Name)
		return cmp.Or(byName, cmp.Compare(a.Upsert.Debt, b.Upsert.Debt), strings.Compare(a.Row.Key, b.Row.Key))
	})
}

// gather returns the requests that calls make of limits, in the order of the rows that they are about, and for each row
// in the order of the calls.
func gather(calls []runtime.Call) []asked {
	all := make([]asked, 0, len(calls))
	for i, c := range calls {
		for j := range c.Requests {
			if q := &c.Requests[j]; q.Policy != nil {
				all = append(all, asked{q, i, len(c.Requests) == 1})
			}
		}
	}
	slices.SortFunc(all, func(a, b asked) int { return cmp.Or(a.compareRow(b), a.call-b.call) })
	return all
}

// compareRow compares the rows that requests are about, as [runtime.Row.Compare] does.
func (q asked) compareRow(o asked) int {
	if q.Policy != o.Policy {
		if c := strings.Compare(q.Policy.Name, o.Policy.Name); c != 0 {
			return c
		}
	}
	return strings.Compare(q.Key, o.Key)
}

// byRow goes through requests in the order of their rows, row by row.
func byRow(all []asked) iter.Seq[[]asked] {
	return chunks(all, func(a, b *asked) bool { return a.compareRow(*b) == 0 })
}

// countRows returns of how many rows the requests are.
func countRows(all []asked) (n int) {
	for range byRow(all) {
		n++
	}
	return n
}

// byLimit goes through what one statement each can take.
func (t takes) byLimit() iter.Seq[takes] {
	return chunks(t, func(a, b *RowTake) bool { return samePolicy(a.policy, b.policy) && a.Upsert.Debt == b.Upsert.Debt })
}

// chunks goes through a list in pieces, each of neighbours that are alike.
func chunks[L ~[]T, T any](list L, alike func(a, b *T) bool) iter.Seq[L] {
	return func(yield func(L) bool) {
		for from, to := 0, 1; from < len(list); from, to = to, to+1 {
			for to < len(list) && alike(&list[from], &list[to]) {
				to++
			}
			if !yield(list[from:to:to]) {
				return
			}
		}
	}
}

// fresh returns the rows as they are to be inserted, if they are not there.
func (t takes) fresh() []stored {
	rows := make([]stored, len(t))
	for i := range t {
		r := &t[i]
		rows[i] = stored{r.Row, runtime.State{Value: r.Upsert.Fresh, TS: r.Upsert.T}}
	}
	return rows
}

// find returns where a row of one limit stands. It looks first where it is expected.
func (t takes) find(row runtime.Row, expected int) (int, bool) {
	if expected < len(t) && t[expected].Row == row {
		return expected, true
	}
	return slices.BinarySearchFunc(t, row, func(r RowTake, row runtime.Row) int { return r.Row.Compare(row) })
}
