// Package storetest is the contract of [runtime.Store] in executable form: an implementation that passes [Run] is a
// store. Each clause is a subtest, and its failure prints the rule that was broken.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, clock func() time.Time) runtime.Store { ... })
//	}
package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Open returns an empty store with the given clock. It closes its resources in t.Cleanup.
type Open func(t *testing.T, clock func() time.Time) runtime.Store

// Run tests a store against every clause of the contract.
func Run(t *testing.T, open Open) {
	t.Run("Kinds", validKinds)
	for _, c := range slices.Concat(
		limits(), zeros(), clocks(), operations(), split(), leases(), denials(), numbers(), penalties(), warnings(), modes(), calendars(), logs(), slots(),
		calls(), transactions(), batches(), keys(), concurrent(), concurrentCalls(), overrides(), erasures(), rows(), registrations(), comparisons(),
	) {
		t.Run(c.name, func(t *testing.T) {
			// An empty store and a new clock for each clause, so that a failure does not depend on other clauses.
			clock := NewClock()
			s := &subject{T: t, ctx: t.Context(), clock: clock, store: open(t, clock.Now), rule: c.rule}
			for _, p := range c.policies {
				s.play(p, c.script)
				if c.check != nil {
					c.check(s, p)
				}
			}
		})
	}
}

// validKinds fails for a kind without a policy that the clauses can use.
func validKinds(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		for _, p := range []*runtime.Policy{basic(kind), shards(kind)} {
			if err := p.Validate(); err != nil {
				t.Errorf("no store can be tested with kind %v: %v\nA kind needs an algorithm and an entry in the table kinds in "+
					"runtime/kind.go. If it refuses the policies of basic and shards in runtime/storetest/policies.go, adapt them.", kind, err)
			}
		}
	}
}
