package sim

import (
	"math/rand/v2"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// count is what a store would hold of one key, and what became of the requests for it.
type count struct {
	key   string
	rule  runtime.Rule
	state runtime.State
	// shards holds the states of a limit with shards, in place of state, and shares the rules of each but for
	// the phase, which is that of rule.
	shards []runtime.State
	shares []runtime.Rule
	// picks is how often shards were picked.
	picks uint64
	tally
}

func newCount(p *runtime.Policy, shares []runtime.Rule, key string) *count {
	c := &count{key: key, rule: p.Rule(key)}
	if len(shares) > 0 {
		c.shares, c.shards = shares, make([]runtime.State, len(shares))
	}
	return c
}

// sharesOf returns the rule of each shard of a limit, none if it has no shards.
func sharesOf(p *runtime.Policy) (shares []runtime.Rule) {
	if p.Shards > 1 {
		for i := range p.Shards {
			shares = append(shares, p.Rule("").Shard(i, p.Shards))
		}
	}
	return shares
}

// ask answers a question at an instant, in nanoseconds since 1970 UTC.
func (c *count) ask(p *runtime.Policy, now int64, q runtime.Ask) (runtime.Decision, error) {
	if c.shards != nil {
		return c.askShards(p, now, q)
	}
	next, d, err := c.rule.Step(c.state, now, q)
	c.state = next
	return d, err
}

// askShards answers as a store does, but for the shards that it picks, which are the same in every replay, and
// for what is left, which is not estimated from two of them.
func (c *count) askShards(p *runtime.Policy, now int64, q runtime.Ask) (runtime.Decision, error) {
	if _, d, err := c.rule.Step(runtime.State{}, now, q); err != nil {
		return d, err // without a name before it, as for a limit of one row
	}
	call := runtime.Call{Requests: []runtime.Request{{Ask: q, Policy: p, Key: c.key}}}
	c.picks++
	b := runtime.NewSeededBatch([]runtime.Call{call}, rand.NewPCG(0, c.picks).Uint64())
	for !b.Run(now, c.states(b.Rows())) {
	}
	for _, change := range b.Changes() {
		c.shards[change.Row.Shard] = change.State
	}
	answer := b.Answers()[0]
	if answer.Err != nil {
		return runtime.Decision{}, answer.Err
	}
	d := answer.Decisions[0]
	left := c.left(now)
	d.Value, d.Remaining = left.Value, left.Remaining
	return d, nil
}

// left returns what is left of all shards together.
func (c *count) left(now int64) runtime.Decision {
	peek := runtime.Ask{Op: runtime.Peek}
	sum := runtime.State{TS: now, Seen: true}
	for i, state := range c.shards {
		rule := c.shares[i]
		rule.Phase = c.rule.Phase
		_, d, _ := rule.Step(state, now, peek)
		sum.Value += d.Value
	}
	_, d, _ := c.rule.Step(sum, now, peek)
	return d
}

// states returns the states of some rows.
func (c *count) states(rows []runtime.Row) []runtime.State {
	states := make([]runtime.State, len(rows))
	for i, row := range rows {
		states[i] = c.shards[row.Shard]
	}
	return states
}
