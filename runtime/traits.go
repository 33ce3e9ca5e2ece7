package runtime

import (
	"unsafe"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/recent"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/trait"
)

// firstSeen is what a policy was found to be when it was first used.
type firstSeen struct {
	traits trait.Set
	err    error
}

var seenPolicies recent.Table[*Policy, firstSeen]

// seen returns the traits of a policy, and the error of Validate. Both are those of the first use of the policy, which
// must not be changed then; a copy of it is another policy.
func (p *Policy) seen() (trait.Set, error) {
	if p == nil {
		return 0, p.Validate()
	}
	// A policy that is remembered keeps its address, so that no other policy has it.
	seen := seenPolicies.At(p, arith.Mix(uint64(uintptr(unsafe.Pointer(p)))), (*Policy).examine)
	return seen.traits, seen.err
}

func (p *Policy) examine() (seen firstSeen) {
	if seen.err = p.Validate(); seen.err != nil {
		return seen
	}
	add := func(t trait.Set, has bool) {
		if has {
			seen.traits |= t
		}
	}
	counted := p.counted()
	add(trait.Overrides, p.Overridable())
	add(trait.Mode, p.Mode != ModeEnforce || p.zero())
	add(trait.Timeout, counted.Timeout > 0)
	add(trait.Lease, p.Lease != Lease{})
	add(trait.Local, counted.OnError == FailLocal)
	add(trait.Jitter, counted.Jitter > 0)
	add(trait.Calendar, counted.Calendar.PerKey())
	add(trait.Slots, p.Kind == InFlight)
	return seen
}
