package runtime

import (
	"unsafe"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/recent"
)

// Traits are what requests of a policy need beyond the rows of their keys, as a set. The zero Traits is a plain limit:
// a call of such limits goes to the store, and its answer to the caller.
type Traits uint8

const (
	// TraitOverrides: keys may have another policy in force, by an [Override].
	TraitOverrides Traits = 1 << iota
	// TraitMode: the Mode is not [ModeEnforce], so that requests may need no rows.
	TraitMode
	// TraitTimeout: the policy, or for an unlimited plan one of its other plans, has a Timeout.
	TraitTimeout
	// TraitLease: the policy has a [Lease].
	TraitLease
	// TraitLocal: decisions are remembered, for [FailLocal].
	TraitLocal
	// TraitJitter: the policy, or for an unlimited plan one of its other plans, has a Jitter.
	TraitJitter
	// TraitCalendar: the windows of a key depend on its time zone or anniversary.
	TraitCalendar
	// TraitSlots: the policy is [InFlight].
	TraitSlots
)

// Have reports whether the set has a trait, or one of several.
func (t Traits) Have(any Traits) bool { return t&any != 0 }

// firstSeen is what a policy was found to be when it was first used.
type firstSeen struct {
	traits Traits
	err    error
}

var seenPolicies recent.Table[*Policy, firstSeen]

// Traits returns the traits of a policy, and the error of Validate. Both are those of the first use of the policy, which
// must not be changed then; a copy of it is another policy.
func (p *Policy) Traits() (Traits, error) {
	if p == nil {
		return 0, p.Validate()
	}
	// A policy that is remembered keeps its address, so that no other policy has it.
	seen := seenPolicies.Of(p, arith.Mix(uint64(uintptr(unsafe.Pointer(p)))), (*Policy).examine)
	return seen.traits, seen.err
}

func (p *Policy) examine() (seen firstSeen) {
	if seen.err = p.Validate(); seen.err != nil {
		return seen
	}
	add := func(t Traits, has bool) {
		if has {
			seen.traits |= t
		}
	}
	counted := p.Counted()
	add(TraitOverrides, p.Overridable())
	add(TraitMode, p.Mode != ModeEnforce)
	add(TraitTimeout, counted.Timeout > 0)
	add(TraitLease, p.Lease != Lease{})
	add(TraitLocal, counted.OnError == FailLocal)
	add(TraitJitter, counted.Jitter > 0)
	add(TraitCalendar, counted.Calendar.PerKey())
	add(TraitSlots, p.Kind == InFlight)
	return seen
}
