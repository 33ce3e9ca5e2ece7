package sqlstore

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// rowTake is what calls take from one row, all of them or none. What several take adds up, for a row that has
// enough for all of them has enough for each in its turn. It is left with the same bits, too: to subtract
// whole tokens from a value is exact as long as enough are left.
type rowTake struct {
	RowTake
	policy *runtime.Policy
	// calls says where the calls stand, and asks what they ask.
	calls []int
	asks  []runtime.Ask
	// Most rows have one call, for which there is room.
	oneCall [1]int
	oneAsk  [1]runtime.Ask
	// plain says that nothing else is asked of the row.
	plain bool
	rule  runtime.Rule
}

// takes is what one statement takes, from rows of one limit in their order.
type takes []*rowTake

// newTakes returns what single statements can take for calls at the instant now, and where the calls stand
// that they cannot answer.
func newTakes(calls []runtime.Call, now int64) (limits []takes, rest []int) {
	if len(calls) == 1 && len(calls[0].Requests) == 1 {
		return newTake(calls[0], now)
	}
	covered := make([]bool, len(calls))
	for _, t := range gather(calls) {
		if !t.settle(now) {
			continue
		}
		limits = t.join(limits)
		for _, call := range t.calls {
			covered[call] = true
		}
	}
	for _, t := range limits {
		slices.SortFunc(t, func(a, b *rowTake) int { return a.Row.Compare(b.Row) })
	}
	for i, done := range covered {
		if !done {
			rest = append(rest, i)
		}
	}
	return limits, rest
}

// newTake is newTakes for one request, which most calls are.
func newTake(c runtime.Call, now int64) (limits []takes, rest []int) {
	q := c.Requests[0]
	if q.Validate() != nil {
		return nil, []int{0}
	}
	t := newRowTake(q)
	t.add(0, c, q)
	if !t.settle(now) {
		return nil, []int{0}
	}
	return []takes{{t}}, nil
}

func newRowTake(q runtime.Request) *rowTake {
	t := &rowTake{policy: q.Policy, plain: true}
	t.Row = runtime.Row{Name: q.Policy.Name, Key: q.Key}
	t.calls, t.asks = t.oneCall[:0], t.oneAsk[:0]
	return t
}

// gather returns what calls take from each row that they are about.
func gather(calls []runtime.Call) []*rowTake {
	var all []*rowTake
	rows := map[runtime.Row]*rowTake{}
	for i, c := range calls {
		for _, q := range c.Requests {
			if q.Validate() != nil {
				continue
			}
			row := runtime.Row{Name: q.Policy.Name, Key: q.Key}
			t := rows[row]
			if t == nil {
				t = newRowTake(q)
				rows[row] = t
				all = append(all, t)
			}
			t.add(i, c, q)
		}
	}
	return all
}

// add adds a request of a call. Several that reserve do not add up: their debt has a bound of its own.
func (t *rowTake) add(at int, c runtime.Call, q runtime.Request) {
	alone := len(c.Requests) == 1 && q.Policy.Shards <= 1
	likeTheFirst := len(t.asks) == 0 || *q.Policy == *t.policy && !q.Reserve && !t.asks[0].Reserve
	t.plain = t.plain && alone && likeTheFirst && q.Op == runtime.Take
	t.calls = append(t.calls, at)
	t.asks = append(t.asks, q.Ask)
}

// settle calculates the statement's numbers at the instant now. It returns false if it has no such form.
func (t *rowTake) settle(now int64) (ok bool) {
	if !t.plain {
		return false
	}
	t.rule = t.policy.Rule(t.Row.Key)
	sum := runtime.Ask{Reserve: t.asks[0].Reserve}
	for _, q := range t.asks {
		if _, ok := t.rule.Upsert(now, q); !ok {
			return false
		}
		if sum.Count += q.Count; sum.Count > 2*runtime.MaxTokens {
			return false
		}
	}
	t.Upsert, ok = t.rule.Upsert(now, sum)
	return ok
}

// join adds the row to the takes of its limit.
func (t *rowTake) join(limits []takes) []takes {
	for i, l := range limits {
		if *l[0].policy == *t.policy && l[0].Upsert.Debt == t.Upsert.Debt {
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

// find returns where a row stands.
func (t takes) find(row runtime.Row) (int, bool) {
	return slices.BinarySearchFunc(t, row, func(r *rowTake, row runtime.Row) int { return r.Row.Compare(row) })
}

// answer answers the calls, whose tokens have been taken at the instant now.
func (t *rowTake) answer(answers []runtime.Answer, now int64) {
	s := t.After
	for i, q := range slices.Backward(t.asks) {
		d := t.rule.Taken(s, now, q)
		d.Limit = t.policy.Name
		answers[t.calls[i]] = runtime.Answer{Decisions: []runtime.Decision{d}, At: now}
		s.Value += float64(q.Count)
	}
}
