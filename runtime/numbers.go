package runtime

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"
)

// Numbers are those that a caller gives a limit together with the key, such as from the customer's contract or the number of
// seats, where [Policy.AtMost] allows it. They are in tokens; 0 is a number that the caller does not give.
//
// A key has one count whatever its numbers are: tokens that were used stay used when they change from one request to the next.
type Numbers struct {
	Rate, Capacity, MaxReserved int64
}

// For returns the policy with the numbers in place of its own, and the key. Each must be at most that of the policy's AtMost,
// and at least 1, or the number of shards; and those that AtMost has are required. Otherwise every method of the limit returns
// an error that wraps [ErrInvalidNumbers], and the store is not reached. So it is for an unlimited plan too, although that has
// no use for them.
//
// The parameters are the results of [PlanPolicies.For], and the results the arguments of limiter.Limiter.Limit,
// limiter.Limiter.Reservable and limiter.Limiter.ReserveOnly.
func (n Numbers) For(p *Policy, key Key) (*Policy, Key) {
	if p == nil || key.err != nil {
		return p, key
	}
	if p.Kind == InFlight {
		n.Rate = n.Capacity // callers give the slots
	}
	if err := n.check(p); err != nil {
		return p, Key{err: err}
	}
	return p.with(n), key
}

// check returns an error for numbers that a policy does not allow.
func (n Numbers) check(p *Policy) error {
	// Each shard needs a token.
	least := int64(max(1, p.Shards))
	for _, part := range [...]struct {
		name        string
		given, most int64
	}{
		{"rate", n.Rate, p.AtMost.Rate},
		{"capacity", n.Capacity, p.AtMost.Capacity},
		{"maxReserved", n.MaxReserved, p.AtMost.MaxReserved},
	} {
		switch {
		case p.Kind == InFlight && part.name == "rate": // the slots, which callers give as the capacity
		case part.most == 0 && part.given != 0:
			return fmt.Errorf("%w: the %s is that of the policy, and not given by callers", ErrInvalidNumbers, part.name)
		case part.most != 0 && (part.given < least || part.given > part.most):
			return fmt.Errorf("%w: %s %d is not between %d and %d, the most that limits.yaml allows", ErrInvalidNumbers, part.name, part.given, least, part.most)
		}
	}
	return nil
}

// numbersOf is the numbers of a caller of a policy.
type numbersOf struct {
	policy  *Policy
	numbers Numbers
}

// given is a policy with the numbers of a caller.
type given struct {
	numbersOf
	policy Policy
}

// recentNumbers has the policies of recent requests, at a place by a hash: nothing is allocated for numbers that return, and
// most policies that are equal have one address. Whatever has the same place replaces the one there, so it needs no lock, and at
// most some 2 MB.
var (
	recentNumbers [4096]atomic.Pointer[given]
	numbersSeed   = maphash.MakeSeed()
)

// with returns the policy with numbers that it allows.
func (p *Policy) with(n Numbers) *Policy {
	of := numbersOf{p, n}
	hash := maphash.Comparable(numbersSeed, of)
	place := &recentNumbers[hash%uint64(len(recentNumbers))]
	known := place.Load()
	if known != nil && known.numbersOf != of {
		// Two that are used in turn must not replace each other.
		place = &recentNumbers[(hash^1)%uint64(len(recentNumbers))]
		known = place.Load()
	}
	if known != nil && known.numbersOf == of {
		return &known.policy
	}
	made := &given{of, *p}
	made.policy.given = n
	if p.Mode != ModeUnlimited {
		made.policy.setNumbers(n)
	}
	place.Store(made)
	return &made.policy
}

// Most reports whether the policy has the most that callers can give, in place of the numbers of one of them.
func (p *Policy) Most() bool {
	return p.AtMost != (Numbers{}) && p.given == (Numbers{}) && p.Mode != ModeUnlimited
}

// setNumbers replaces the numbers of a policy that callers give. Those of another plan may be more than it allows.
func (p *Policy) setNumbers(n Numbers) {
	for _, part := range [...]struct {
		given, most int64
		into        *int64
	}{{n.Rate, p.AtMost.Rate, &p.Rate}, {n.Capacity, p.AtMost.Capacity, &p.Capacity}, {n.MaxReserved, p.AtMost.MaxReserved, &p.MaxReserved}} {
		if part.given != 0 && part.most != 0 {
			*part.into = min(part.given, part.most)
		}
	}
}

// problem returns what the bounds of the numbers of a policy must change, or "".
func (n *Numbers) problem(p *Policy) string {
	differ := func(most, own int64) bool { return most != 0 && most != own }
	switch {
	case *n == Numbers{}:
		return ""
	case n.Rate < 0 || n.Capacity < 0 || n.MaxReserved < 0 || n.Rate > MaxTokens || n.Capacity > MaxTokens || n.MaxReserved >= Unbounded:
		return fmt.Sprintf("AtMost %+v is not between 0 and %d", *n, int64(MaxTokens)-1)
	case p.Lease != Lease{}:
		return "a limit with numbers of its callers cannot be leased: a block taken by the numbers of one request would be spent by those of another"
	case !p.Kind.Linear() && n.Capacity != n.Rate:
		return fmt.Sprintf("the capacity of a %v is its rate: AtMost must have both", p.Kind)
	case p.given != Numbers{} || p.override.entry != 0:
		return "" // a caller or an operator has given others
	case differ(n.Rate, p.Rate) || differ(n.Capacity, p.Capacity) || differ(n.MaxReserved, p.MaxReserved):
		return fmt.Sprintf("the policy's own numbers, rate %d, capacity %d and maxReserved %d, must be those of AtMost, %+v", p.Rate, p.Capacity, p.MaxReserved, *n)
	case p.Kind == FixedWindow && n.Capacity+n.MaxReserved > 0 && p.Capacity+p.MaxReserved > p.Rate:
		return fmt.Sprintf("with numbers of its callers, the capacity and maxReserved of a fixed window must not be more than its rate, %d: "+
			"a window that ends with a smaller capacity forgets what was used beyond it, so that changing to it and back would grant tokens again", p.Rate)
	}
	return ""
}
