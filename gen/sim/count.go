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
	// shards holds the states of a limit with shards, in place of state.
	shards []runtime.State
	// picks is how often shards were picked.
	picks uint64
	tally
}

func newCount(p *runtime.Policy, key string) *count {
	c := &count{key: key, rule: p.Rule(key)}
	if p.Shards > 1 {
		c.shards = make([]runtime.State, p.Shards)
	}
	return c
}

// ask answers a question at an instant, in nanoseconds since 1970 UTC.
func (c *count) ask(p *runtime.Policy, now int64, q runtime.Request) (runtime.Decision, error) {
	if c.shards != nil {
		return c.askShards(p, now, q)
	}
	next, d, err := c.rule.Step(c.state, now, q)
	c.state = next
	return d, err
}

// askShards answers as a store does, but for the shards that it picks, which are the same in every replay, and
// for what is left, which is not estimated from two of them.
func (c *count) askShards(p *runtime.Policy, now int64, q runtime.Request) (runtime.Decision, error) {
	d, err := p.StepShards(c.shards, c.key, now, q, rand.NewPCG(0, c.picks+1).Uint64())
	if err == nil {
		c.picks++
	}
	return d, err
}
