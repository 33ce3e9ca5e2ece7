package batch

import (
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/trait"
)

// One returns the row of the call if there is one call, for one request with one row, whose policy has its own numbers and
// mode for every key: [DecideOne] decides that. It is the most frequent batch, and needs nothing that calls share. Stores
// that need no rows locked decide it without a [Batch].
func One(calls []runtime.Call) (row runtime.Row, ok bool) {
	if len(calls) != 1 || len(calls[0].Requests) != 1 {
		return row, false
	}
	q := &calls[0].Requests[0]
	if q.Validate() != nil || q.Policy.Shards > 1 {
		return row, false
	}
	if traits, _ := q.Policy.Inside().Traits(); traits.Have(trait.Overrides | trait.Mode) {
		return row, false
	}
	return runtime.Row{Name: q.Policy.Name, Key: q.Key}, true
}

// DecideOne executes the call of [One] at the instant now on the state of its row, and returns the state after it. The rule
// is memory that is used again, and may have any value.
func DecideOne(rule *meter.Rule, calls []runtime.Call, now int64, s runtime.State) (runtime.State, []runtime.Answer) {
	q := &calls[0].Requests[0]
	*rule = meter.RuleFor(q)
	next, d, err := rule.Step(s, now, *q)
	if err != nil {
		return s, []runtime.Answer{{Err: errorOf(calls[0].Requests, 0, err), At: now}}
	}
	// One allocation in place of two.
	one := &struct {
		answers   [1]runtime.Answer
		decisions [1]runtime.Decision
	}{decisions: [1]runtime.Decision{meter.Decided(q, d, now)}}
	one.answers[0] = runtime.Answer{Decisions: one.decisions[:], At: now}
	return next, one.answers[:]
}
