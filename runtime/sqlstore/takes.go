package sqlstore

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// rowTake is what calls take from one row, all of them or none. What several take adds up, for a row that has
// enough for all of them has enough for each in its turn. It is left with the same bits, too: to subtract
// whole tokens from a value is exact as long as enough are left.
type rowTake struct {
	RowTake
	policy *runtime.Policy
	rule   runtime.Rule
	// asked is what is asked of the row, in the order of the calls.
	asked []asked
}

// asked is a request of a call.
type asked struct {
	*runtime.Request
	// call says where the call stands.
	call int
	// alone says that the call has no other request.
	alone bool
}

// takes is what one statement takes, from rows of one limit in their order.
type takes []*rowTake

// newTakes returns what single statements can take for calls at the instant now, and where the calls stand
// that they cannot answer.
func newTakes(calls []runtime.Call, now int64) (limits []takes, rest []int) {
	covered := make([]bool, len(calls))
	rows := gather(calls)
	for i := range rows {
		t := &rows[i]
		if !t.settle(now) {
			continue
		}
		limits = t.join(limits)
		for _, q := range t.asked {
			covered[q.call] = true
		}
	}
	for i, done := range covered {
		if !done {
			rest = append(rest, i)
		}
	}
	return limits, rest
}

// gather returns what is asked of each row of a limit without shards, in the order of the rows.
func gather(calls []runtime.Call) []rowTake {
	all := make([]asked, 0, len(calls))
	for i, c := range calls {
		for j := range c.Requests {
			if q := &c.Requests[j]; q.Policy != nil {
				all = append(all, asked{q, i, len(c.Requests) == 1})
			}
		}
	}
	slices.SortFunc(all, func(a, b asked) int { return cmp.Or(a.compareRow(b), a.call-b.call) })
	n := 0
	for range byRow(all) {
		n++
	}
	rows := make([]rowTake, 0, n)
	for asked := range byRow(all) {
		rows = append(rows, rowTake{policy: asked[0].Policy, asked: asked})
	}
	return rows
}

// byRow goes through what is asked, sorted by row, row by row.
func byRow(all []asked) iter.Seq[[]asked] {
	return func(yield func([]asked) bool) {
		for from, to := 0, 0; from < len(all); from = to {
			for to++; to < len(all) && all[to].compareRow(all[from]) == 0; to++ {
			}
			if !yield(all[from:to]) {
				return
			}
		}
	}
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

// settle calculates the statement's numbers at the instant now. It returns false if what is asked has no such form.
func (t *rowTake) settle(now int64) (ok bool) {
	first := t.asked[0]
	if first.Validate() != nil || t.policy.Shards > 1 {
		return false
	}
	t.Row = runtime.Row{Name: t.policy.Name, Key: first.Key}
	t.rule = t.policy.Rule(first.Key)
	sum := runtime.Ask{Reserve: first.Reserve}
	for i, q := range t.asked {
		if !t.plain(q) {
			return false
		}
		if i == 0 || q.Ask != t.asked[i-1].Ask {
			if _, ok := t.rule.Upsert(now, q.Ask); !ok {
				return false
			}
		}
		if sum.Count += q.Count; sum.Count > 2*runtime.MaxTokens {
			return false
		}
	}
	t.Upsert, ok = t.rule.Upsert(now, sum)
	return ok
}

// plain reports whether a request can be added to the others. Several that reserve do not add up: their debt has a
// bound of its own.
func (t *rowTake) plain(q asked) bool {
	alike := q.Policy == t.policy || *q.Policy == *t.policy
	return alike && q.alone && q.Op == runtime.Take && (!q.Reserve || len(t.asked) == 1)
}

// join adds the row to the takes of its limit.
func (t *rowTake) join(limits []takes) []takes {
	for i, l := range limits {
		if (l[0].policy == t.policy || *l[0].policy == *t.policy) && l[0].Upsert.Debt == t.Upsert.Debt {
			limits[i] = append(l, t)
			return limits
		}
	}
	return append(limits, takes{t})
}

func (t takes) rows() []*RowTake {
	rows := make([]*RowTake, len(t))
	for i, r := range t {
		rows[i] = &r.RowTake
	}
	return rows
}

// fresh returns the rows as they are to be inserted, if they are not there.
func (t takes) fresh() []stored {
	rows := make([]stored, len(t))
	for i, r := range t {
		rows[i] = stored{r.Row, runtime.State{Value: r.Upsert.Fresh, TS: r.Upsert.T}}
	}
	return rows
}

// find returns where a row stands. It looks first where it is expected.
func (t takes) find(row runtime.Row, expected int) (int, bool) {
	if expected < len(t) && t[expected].Row == row {
		return expected, true
	}
	return slices.BinarySearchFunc(t, row, func(r *rowTake, row runtime.Row) int { return r.Row.Compare(row) })
}

// answer answers the calls, whose tokens have been taken at the instant now. The decisions have room for one of each
// call.
func (t *rowTake) answer(answers []runtime.Answer, decisions []runtime.Decision, now int64) {
	s := t.After
	for _, q := range slices.Backward(t.asked) {
		d := decisions[q.call : q.call+1 : q.call+1]
		d[0] = t.rule.Taken(s, now, q.Ask)
		d[0].Limit = t.policy.Name
		answers[q.call] = runtime.Answer{Decisions: d, At: now}
		s.Value += float64(q.Count)
	}
}
