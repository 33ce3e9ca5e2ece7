package sqlstore

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

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
