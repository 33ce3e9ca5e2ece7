package sqlstore

import (
	"cmp"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

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

// RowTake is what calls take from a row, all of them or none. What several take adds up, for a row that has
// enough for all of them has enough for each in its turn. It is left with the same bits, too: to subtract
// whole tokens from a value is exact as long as enough are left.
type RowTake struct {
	Row    runtime.Row
	Upsert runtime.Upsert
	// After is the state in which the row was left. If it is not Exists, nothing was taken.
	After runtime.State

	policy *runtime.Policy
	rule   runtime.Rule
	// asked is what is asked of the row, in the order of the calls.
	asked []asked
}

// settle calculates the statement's numbers at the instant now. It returns false if what is asked has no such form.
func (t *RowTake) settle(now int64) (ok bool) {
	first := t.asked[0]
	if first.Validate() != nil || t.policy.Shards > 1 {
		return false
	}
	t.Row = runtime.Row{Name: t.policy.Name, Key: first.Key}
	t.rule = t.policy.Rule(first.Key)
	sum := runtime.Request{Reserve: first.Reserve}
	for i, q := range t.asked {
		if !t.plain(q) {
			return false
		}
		if i == 0 || *q.Request != *t.asked[i-1].Request {
			if _, ok := t.rule.Upsert(now, *q.Request); !ok {
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
func (t *RowTake) plain(q asked) bool {
	return q.alone && q.Op == runtime.Take && (!q.Reserve || len(t.asked) == 1) && samePolicy(q.Policy, t.policy)
}

func samePolicy(a, b *runtime.Policy) bool { return a == b || *a == *b }

// answer answers the calls, whose tokens have been taken at the instant now. The decisions have room for one of each
// call.
func (t *RowTake) answer(answers []runtime.Answer, decisions []runtime.Decision, now int64) {
	s := t.After
	for _, q := range slices.Backward(t.asked) {
		d := decisions[q.call : q.call+1 : q.call+1]
		d[0] = t.rule.Taken(s, now, *q.Request)
		d[0].Limit = t.policy.Name
		answers[q.call] = runtime.Answer{Decisions: d, At: now}
		s.Value += float64(q.Count)
	}
}

// streaks remembers of rows how often in a row they had too little, to look at them first: a statement that takes
// in vain is a round trip for nothing. It has a fixed size, and of rows that share a place it remembers the one that
// was denied last. It is never more than a guess: either way the answer is the same.
type streaks struct {
	seed maphash.Seed
	// places hold most of a row's hash, and in their last byte the length of its streak.
	places [256]atomic.Uint64
}

// longStreak is how many denials are followed by another more likely than not.
const longStreak = 2

func newStreaks() *streaks { return &streaks{seed: maphash.MakeSeed()} }

// find returns the place of a row, its hash as it stands there, and the length of its streak.
func (s *streaks) find(r runtime.Row) (place *atomic.Uint64, hash, length uint64) {
	h := maphash.Comparable(s.seed, r)
	place = &s.places[h%uint64(len(s.places))]
	if there := place.Load(); there&^0xff == h&^0xff {
		length = there & 0xff
	}
	return place, h &^ 0xff, length
}

// expects reports whether the row is likely to have too little.
func (s *streaks) expects(r runtime.Row) bool {
	_, _, length := s.find(r)
	return length >= longStreak
}

// denied notes that a row had too little.
func (s *streaks) denied(r runtime.Row) {
	place, hash, length := s.find(r)
	place.Store(hash | min(length+1, longStreak))
}

// ended notes that a row had enough, or that to look at it first was of no use.
func (s *streaks) ended(r runtime.Row) {
	if place, _, length := s.find(r); length > 0 {
		place.Store(0)
	}
}
