package runtime

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/recent"
)

// Priority is a class of the requests for a key, such as those of background jobs. All classes take from one count, and each
// leaves a part of the capacity to those that leave less: with n tokens of a capacity, it takes m only if n - m is at least
// that part. So to a class the limit is one whose capacity is smaller by what it leaves, and so are the tokens left, the
// delays and the counts that can never fit. The rate is that of all.
//
// The zero Priority is none, and every method of a limit returns [ErrInvalidPriority] for it.
type Priority struct {
	// Name is the class in limits.yaml.
	Name string
	// Leaves is what requests of the class leave, as a percentage of the capacity in force, from 0 to 99, rounded up to whole
	// tokens.
	Leaves int
}

// Priorities has the classes of a limit at their numbers, which begin with 1, so that the zero value of generated code is
// none.
type Priorities []Priority

// Of returns the class with a number, or the zero Priority.
func (s Priorities) Of(number int) Priority {
	if number < 1 || number >= len(s) {
		return Priority{}
	}
	return s[number]
}

// For returns the policy as it is for requests of the class, and the key. The parameters are the results of
// [PlanPolicies.For], [Numbers.For] or [Exceptions.For], and the results the arguments of limiter.Limiter.Limit and
// limiter.Limiter.Reservable.
func (c Priority) For(p *Policy, key Key) (*Policy, Key) {
	switch {
	case p == nil || key.err != nil:
		return p, key
	case c == Priority{}:
		return p, Key{err: fmt.Errorf("%w: the zero value is no class: pass one of the generated constants", ErrInvalidPriority)}
	}
	return p.prioritized(c), key
}

// classOf is a class of a policy.
type classOf struct {
	policy *Policy
	class  Priority
}

// recentClasses has the policies of recent requests: most policies that are equal have one address.
var recentClasses recent.Table[classOf, Policy]

func (p *Policy) prioritized(c Priority) *Policy {
	return recentClasses.Of(classOf{p, c}, classOf.made)
}

// made returns the policy of the class, and makes those that overrides can give the key of the class too.
func (of classOf) made() Policy {
	made := of.policy.changed(func(p *Policy) { p.Priority = of.class })
	if made.excepted != nil {
		made.excepted = made.excepted.prioritized(of.class)
	}
	return *made
}

// left returns how many tokens the class of the policy leaves.
func (p *Policy) left() int64 { return (p.Capacity*int64(p.Priority.Leaves) + 99) / 100 }

// problem returns what the priority of a policy must change, or "".
func (c Priority) problem(p *Policy) string {
	switch {
	case c.Leaves == 0:
		return ""
	case p.Kind == InFlight:
		return "slots have no priorities: those that are held are not free for others before they are released"
	case p.Precise:
		return "a precise sliding window has no priorities: leave Precise or Priority out"
	case p.Lease != Lease{}:
		return "a limit with priorities cannot be leased: a block that one class takes would be spent by another"
	case p.Penalizes():
		return "a limit with priorities cannot have a penalty: a class that leaves its part to others has done nothing wrong"
	case p.byCaller || p.override.entry != 0 || p.excepted != nil:
		return "" // with numbers that are too small for the class, its counts never fit
	case p.Full() < int64(max(1, p.Shards)):
		return fmt.Sprintf("the priority %s has %d tokens over %d shards, which leaves a shard without a token", c.Name, p.Full(),
			max(1, p.Shards))
	}
	return ""
}
