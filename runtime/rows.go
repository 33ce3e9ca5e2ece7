package runtime

import (
	"cmp"
	"fmt"
	"slices"
)

// PeekRows returns what a Peek returns at an instant for the key to which the rows belong; these must be all of its rows,
// in their order. For a calendar that is PerKey, the windows of the key are not known: then the result is that of the
// last write, without what has accrued since. The error is [ErrInvalidPolicy].
func (p *Policy) PeekRows(rows []StoredRow, at int64) (Decision, error) {
	if err := p.Validate(); err != nil {
		return Decision{}, err
	}
	if len(rows) == 0 {
		return Decision{}, fmt.Errorf("%w: no rows", ErrInvalidCall)
	}
	key, peek := rows[0].Row.Key, Request{Op: Peek}
	last := slices.MaxFunc(rows, func(a, b StoredRow) int { return cmp.Compare(a.Row.Shard, b.Row.Shard) }).Row.Shard
	states := make([]State, max(last+1, p.Shards, 1))
	for _, r := range rows {
		if r.Row.Shard >= 0 {
			states[r.Row.Shard] = r.State
		}
	}
	if p.Calendar.PerKey() {
		for _, s := range states {
			at = min(at, s.TS)
		}
	}
	switch rule := p.Rule(key); {
	case p.Precise:
		_, d, err := rule.StepLog(states, at, peek)
		return d, err
	case p.Shards > 1:
		return p.StepShards(states[:p.Shards], key, at, peek, 0)
	default:
		_, d, err := rule.Step(states[0], at, peek)
		return d, err
	}
}
