package runtime

import (
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/recent"
)

// Numbers are those that a caller gives a limit together with the key, such as from the customer's contract or the
// number of seats, where [Policy.AtMost] allows it. Rate, Capacity and MaxReserved are in tokens.
//
// With 0 as Rate, Capacity or Slots, every request is denied: see [Policy]. So a contract can have 0, and a number that is
// forgotten lets nothing pass; the denial says which it is. With 0 as MaxReserved, nothing is reserved before it has
// accrued, and a limit whose tokens can only be reserved denies every request.
//
// A key has one count whatever its numbers are: tokens that were used stay used when they change from one request to
// the next.
type Numbers struct {
	Rate, Capacity, MaxReserved, Slots int64
	// Unlimited, in place of numbers, lets every request pass, and counts none, as the plan of [ModeUnlimited] does. It is
	// allowed if it is set in the policy's AtMost.
	Unlimited bool
}

// numberNames has the names of the numbers, in the order of [Numbers.each].
var numberNames = [...]string{"rate", "capacity", "maxReserved", "slots"}

func (n Numbers) each() [4]int64 { return [...]int64{n.Rate, n.Capacity, n.MaxReserved, n.Slots} }

// Full returns the Capacity, or the Slots.
func (n Numbers) Full() int64 { return max(n.Capacity, n.Slots) }

// own returns the numbers of the policy.
func (p *Policy) own() Numbers {
	return Numbers{Rate: p.Rate, Capacity: p.Capacity, MaxReserved: p.MaxReserved, Slots: p.Slots}
}

// change replaces each number of the policy by the result of a function of its index and value.
func (p *Policy) change(replace func(i int, own int64) int64) {
	for i, n := range [...]*int64{&p.Rate, &p.Capacity, &p.MaxReserved, &p.Slots} {
		*n = replace(i, *n)
	}
}

// For returns the policy with the numbers in place of its own, and the key. Each must be at most that of the policy's
// AtMost, and 0 or at least the number of shards. Otherwise every method of the limit returns an error that wraps
// [ErrInvalidNumbers], and the store is not reached. So it is for an unlimited plan too, although that has no use for
// them.
//
// The parameters are the results of [PlanPolicies.For], and the results the arguments of limiter.Limiter.Limit,
// limiter.Limiter.Reservable and limiter.Limiter.ReserveOnly.
func (n Numbers) For(p *Policy, key Key) (*Policy, Key) {
	if p == nil || key.err != nil {
		return p, key
	}
	if err := n.check(p); err != nil {
		return p, Key{err: err}
	}
	return p.with(n), key
}

// check returns an error for numbers that a policy does not allow.
func (n Numbers) check(p *Policy) error {
	// Each shard needs a token.
	least, all := int64(max(1, p.Shards)), n.each()
	switch numbers := n != (Numbers{Unlimited: n.Unlimited}); {
	case n.Unlimited && !p.AtMost.Unlimited:
		return fmt.Errorf("%w: they are unlimited, which limits.yaml does not allow: give the rate {at most: unlimited} there",
			ErrInvalidNumbers)
	case n.Unlimited && numbers:
		return fmt.Errorf("%w: with Unlimited there are no numbers", ErrInvalidNumbers)
	}
	for i, most := range p.AtMost.each() {
		switch given, name := all[i], numberNames[i]; {
		case most == 0 && given != 0:
			return fmt.Errorf("%w: the %s is that of the policy, and not given by callers", ErrInvalidNumbers, name)
		case given != 0 && (given < least || given > most):
			return fmt.Errorf("%w: %s %d is not between %d and %d, the most that limits.yaml allows", ErrInvalidNumbers, name,
				given, least, most)
		}
	}
	return nil
}

// numbersOf is the numbers of a caller of a policy.
type numbersOf struct {
	policy  *Policy
	numbers Numbers
}

// recentNumbers has the policies of recent requests: most policies that are equal have one address. It takes at most
// some 2 MB.
var recentNumbers recent.Table[numbersOf, Policy]

// with returns the policy with numbers that it allows.
func (p *Policy) with(n Numbers) *Policy { return recentNumbers.Of(numbersOf{p, n}, numbersOf.made) }

// made returns the policy with the numbers.
func (of numbersOf) made() Policy {
	made := *of.policy
	made.given, made.byCaller = of.numbers, true
	switch {
	case made.Mode == ModeUnlimited || made.zero(): // those of the plan
	case !of.numbers.Unlimited:
		made.setNumbers(of.numbers)
	case made.Mode.Counts():
		made.Mode = ModeUnlimited
	}
	return made
}

// zeroOfCaller says which number of a caller is 0, so that one which was forgotten is seen; "" if that is not why the policy
// is zero.
func (p *Policy) zeroOfCaller() string {
	given := p.given.each()
	for i, most := range p.AtMost.each() {
		if p.byCaller && p.override.entry == 0 && most != 0 && given[i] == 0 {
			return fmt.Sprintf(": its caller gives the %s 0", numberNames[i])
		}
	}
	return ""
}

// Most reports whether the policy has the most that callers can give, in place of the numbers of one of them.
func (p *Policy) Most() bool {
	return p.AtMost != (Numbers{}) && !p.byCaller && !p.numberless()
}

// setNumbers replaces the numbers of a policy that callers give. Those of another plan may be more than it allows.
func (p *Policy) setNumbers(n Numbers) {
	given, most := n.each(), p.AtMost.each()
	p.change(func(i int, own int64) int64 {
		if most[i] == 0 {
			return own
		}
		return min(given[i], most[i])
	})
}

// problem returns what the bounds of the numbers of a policy must change, or "".
func (n *Numbers) problem(p *Policy) string {
	most, differs := n.each(), false
	for i, own := range p.own().each() {
		differs = differs || most[i] != 0 && most[i] != own
	}
	switch {
	case *n == Numbers{}:
		return ""
	case slices.Min(most[:]) < 0 || slices.Max(most[:]) > MaxTokens || n.MaxReserved == Unbounded:
		return fmt.Sprintf("AtMost %+v is not between 0 and %d", *n, int64(MaxTokens)-1)
	case n.Unlimited && n.Rate == 0:
		return "AtMost has Unlimited, and no Rate"
	case p.Lease != Lease{}:
		return "a limit with numbers of its callers cannot be leased: a block taken by the numbers of one request would be spent by those of another"
	case !p.Kind.Linear() && n.Capacity != n.Rate:
		return fmt.Sprintf("the capacity of a %v is its rate: AtMost must have both", p.Kind)
	case p.byCaller || p.override.entry != 0:
		return "" // a caller or an operator has given others
	case differs:
		return fmt.Sprintf("the policy's own numbers, %+v, must be those of AtMost, %+v", p.own(), *n)
	case p.Kind == FixedWindow && n.Capacity+n.MaxReserved > 0 && p.Capacity+p.MaxReserved > p.Rate:
		return fmt.Sprintf("with numbers of its callers, the capacity and maxReserved of a fixed window must not be more than its rate, %d: "+
			"a window that ends with a smaller capacity forgets what was used beyond it, so that changing to it and back would grant tokens again", p.Rate)
	}
	return ""
}
