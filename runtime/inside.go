package runtime

import (
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/trait"
)

// Inside returns the methods of a policy that only the packages of this module use. They are no part of the API, and may
// change with each version.
func (p *Policy) Inside() inside { return inside{p} }

type inside struct{ p *Policy }

// Traits returns the traits of the policy, and the error of Validate. Both are those of the first use of the policy, which
// must not be changed then; a copy of it is another policy.
func (in inside) Traits() (trait.Set, error) { return in.p.seen() }

// Identity returns the owner of the policy's [Catalog], and the types of the key in it, as the Key of a [Registration];
// "" without a catalog.
func (in inside) Identity() (owner, keyTypes string) {
	if in.p == nil || in.p.identity == nil {
		return "", ""
	}
	return in.p.identity.owner, in.p.identity.key
}

// HashedWith returns the policy of a program whose keys are [Key.HashedWith] the secret. It returns the policy itself if no
// part of its key is hashed, or it is not from a [Catalog].
func (in inside) HashedWith(secret []byte) *Policy { return in.p.hashedWith(secret) }

// RelaxedTo returns the policy of a program with limiter.Mode.
func (in inside) RelaxedTo(m Mode) *Policy { return in.p.relaxedTo(m) }

// Equal reports whether two policies decide requests alike: they have the same values, and have been put in force by the
// same override.
func (in inside) Equal(o *Policy) bool { return in.p.equal(o) }

// Unlimited reports whether the policy belongs to an unlimited plan, also if the key is blocked.
func (in inside) Unlimited() bool { return in.p.unlimited() }

// Zero reports whether the policy has nothing to give, so that it denies every request.
func (in inside) Zero() bool { return in.p.zero() }

// Numberless reports whether the policy is Unlimited or Zero: rows of its keys are those that other plans have left.
func (in inside) Numberless() bool { return in.p.numberless() }

// CountsOnly reports whether the policy counts, and denies nothing: a fixed window of the most tokens.
func (in inside) CountsOnly() bool { return in.p.countsOnly() }

// Uncounted reports whether the tokens of keys with the policy are not counted: the limit is off, or the policy is without
// numbers.
func (in inside) Uncounted() bool { return in.p.uncounted() }

// Counted returns the policy, or for a plan without numbers one that has some, if one is known: fields that are the same for
// all plans are those of the limit there.
func (in inside) Counted() *Policy { return in.p.counted() }

// Used returns how many tokens are missing from the capacity if value are left, rounded up as Remaining is rounded down.
func (in inside) Used(value float64) int64 {
	// A debt can be larger than an int64.
	return max(0, in.p.Full()-int64(math.Floor(max(value, -1<<62)+1e-6)))
}

// Plan returns the policy if it is as wanted, and otherwise the first plan of its limit that is; nil without one. The other
// plans are known if the limit has overrides, which can give them to a key.
func (in inside) Plan(wanted func(*Policy) bool) *Policy { return in.p.plan(wanted) }

// Except returns the policy of a stored key with its exception, or the policy itself.
func (in inside) Except(key string) *Policy {
	if in.p == nil || in.p.exceptions == nil {
		return in.p
	}
	return in.p.exceptions.of(in.p, key)
}

// With returns the policy of a key with an exception that gives it numbers or a mode.
func (in inside) With(e Exception) *Policy {
	of := *(&Exceptions{policies: []*Policy{in.p}}).apply(in.p, &e)
	of.excepted = nil
	return &of
}

// Base returns the policy without the override that has put it in force; itself if none has.
func (in inside) Base() *Policy { return in.p.written() }

// Next returns the policy that follows when the override that has put this one in force ends, and that instant, in
// nanoseconds since 1970 UTC. It is nil if no end is known.
func (in inside) Next() (next *Policy, ends int64) { return in.p.override.next, in.p.override.until }

// At returns the policy that is in force at an instant in place of this one, which is in force now, and the instant at which
// another one follows it, or the last instant.
func (in inside) At(instant int64) (*Policy, int64) {
	p := in.p
	for ; p.override.next != nil; p = p.override.next {
		if instant < p.override.until {
			return p, p.override.until
		}
	}
	return p, math.MaxInt64
}

// BlockedFor returns how long requests are denied from now on whatever the tokens are: [Never] without an end, and 0 if
// the Mode is not ModeBlock.
func (in inside) BlockedFor(now int64) (after time.Duration) {
	for p := in.p; p != nil && p.Mode == ModeBlock; p = p.override.next {
		if p.override.until == 0 {
			return Never
		}
		// At least a nanosecond, because the block may have ended since the policy was found.
		after = time.Duration(max(1, p.override.until-now))
	}
	return after
}
