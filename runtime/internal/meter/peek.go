package meter

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// PeekRows returns what a Peek returns at an instant for the key to which the rows belong; these must be all of its
// rows, in their order. For a calendar that is PerKey, the windows of the key are not known: then the result is that of
// the last write, without what has accrued since. The error is [runtime.ErrInvalidPolicy].
func PeekRows(p *runtime.Policy, rows []runtime.StoredRow, at int64) (runtime.Decision, error) {
	if err := p.Validate(); err != nil {
		return runtime.Decision{}, err
	}
	if len(rows) == 0 {
		return runtime.Decision{}, fmt.Errorf("%w: no rows", runtime.ErrInvalidCall)
	}
	key, peek := rows[0].Row.Key, runtime.Request{Op: runtime.Peek}
	last := slices.MaxFunc(rows, func(a, b runtime.StoredRow) int { return cmp.Compare(a.Row.Shard, b.Row.Shard) }).Row.Shard
	states := make([]runtime.State, max(last+1, p.Shards, 1))
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
	if p.Shards > 1 {
		return StepShards(p, states[:p.Shards], key, at, peek, 0)
	}
	rule := RuleOf(p, key)
	_, d, err := rule.Step(states[0], at, peek)
	return d, err
}

// Scan reads the tokens of many keys, one after the other.
type Scan struct {
	// simple is the last policy that Left could read by, and rule the rule of the last key, which is here so that it is
	// allocated once.
	simple *runtime.Policy
	rule   Rule
}

// Left returns the Value of [PeekRows] at a fraction of its cost, without the instants at which tokens are due. It returns
// false if only PeekRows can read the rows: those of a key with shards, of a precise window, with a penalty or with a
// calendar that is PerKey, or by a policy that is not valid.
func (s *Scan) Left(p *runtime.Policy, rows []runtime.StoredRow, at int64) (tokens float64, ok bool) {
	if len(rows) != 1 || rows[0].Row.Shard != 0 || rows[0].State.Log != "" {
		return 0, false
	}
	if p != s.simple {
		if p.Validate() != nil || p.Shards > 1 || p.Precise || p.Calendar.PerKey() {
			return 0, false
		}
		s.simple = p
	}
	s.rule = RuleOf(p, rows[0].Row.Key)
	tokens, _ = s.rule.algorithm().available(rows[0].State, at)
	return tokens, true
}

// Holder is a holder of slots of a limit in flight.
type Holder struct {
	// Fence is the number of the holder, see [runtime.Decision].
	Fence int64
	// Slots is how many slots it holds, and Ends how long it still does unless it renews or releases them.
	Slots int64
	Ends  time.Duration
}

// Holders returns the holders of slots at an instant, in the order of their ends, for the rows of a key of a limit in
// flight. For other limits, and policies that are not valid, there are none.
func Holders(p *runtime.Policy, rows []runtime.StoredRow, at int64) (list []Holder) {
	if p.Kind != runtime.InFlight || p.Validate() != nil || len(rows) == 0 {
		return nil
	}
	rule := RuleOf(p, rows[0].Row.Key)
	slots := inFlight{&rule}
	_, bare := cutPenalty(rows[0].State)
	for _, of := range slots.heldAt(bare, at).all {
		list = append(list, Holder{of.fence, of.slots, arith.Between(at, of.end)})
	}
	return list
}

// LeftAfter returns the tokens that a key has some time after a denial by a policy, if no request has changed it since: the
// Value and the Remaining of the decision then. They are exact for a token bucket, and for a fixed window until the window
// of the denial ends. Otherwise, and with shards that fill up one by one, the decision does not say when tokens come back,
// and the tokens are as in the denial, never too many.
func LeftAfter(p *runtime.Policy, d *runtime.Decision, elapsed time.Duration) (value float64, remaining int64) {
	// A window that starts at first use, and has ended, accrues as a token bucket does.
	accrues := p.Kind == runtime.TokenBucket || p.Kind == runtime.FixedWindow && p.Start.FirstUse() && d.ResetAfter == 0
	if !accrues || p.Shards > 1 || elapsed <= 0 {
		return d.Value, d.Remaining
	}
	rule := RuleOf(p, "")
	value = min(rule.Capacity, d.Value+linear{&rule}.accrued(0, int64(elapsed)))
	if d.PenaltyFor > elapsed {
		return value, d.Remaining
	}
	return value, arith.Whole(value, allowance(rule.Rate, rule.Period))
}
