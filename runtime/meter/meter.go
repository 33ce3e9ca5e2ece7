// Package meter is the arithmetic of limits, for the generator, which reviews and simulates them. It may change with each
// version: nothing but the generator of the same version may import it.
package meter

import (
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
)

// Rule is a policy as it applies to one row: the numbers with which [Rule.Step] decides.
type Rule = meter.Rule

// RuleOf returns the rule for a key, all of its shards together. The policy must be valid.
func RuleOf(p *runtime.Policy, key string) Rule { return meter.RuleOf(p, key) }

// StepShards is [Rule.Step] for a key with at least two shards: it executes a request on the states of all of them, and
// changes the states. The shards of a take are chosen by the seed.
func StepShards(p *runtime.Policy, states []runtime.State, key string, now int64, q runtime.Request, seed uint64) (runtime.Decision, error) {
	return meter.StepShards(p, states, key, now, q, seed)
}

// Decided returns d, the decision of an enforced limit on a request at the instant now, as the policy's mode changes
// it.
func Decided(q *runtime.Request, d runtime.Decision, now int64) runtime.Decision {
	return meter.Decided(q, d, now)
}
