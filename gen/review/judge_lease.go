package review

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// judgeLease looks at what is used later than it was taken, and at what a process holds and others are denied.
func judgeLease(j *judgement, p pair, _ []spec.Change) {
	was, is := p.old.Policy.Lease, p.new.Policy.Lease
	j.bounds(&p.old.Policy, p.under(func(policy *runtime.Policy) { policy.Lease = is }))
	if is.Tokens > was.Tokens || is.For > was.For {
		j.class(Tightened)
	}
	if is.Tokens < was.Tokens || is.For < was.For {
		j.class(Loosened)
	}
	if is.Tokens == 0 {
		j.note(Rule, "No process holds tokens any more: every request asks the store.")
		return
	}
	if p.new.Policy.Kind == runtime.TokenBucket {
		more := "no interval has more for it than for what can be reserved"
		if n := leasedMore(&p.new.Policy); n > 0 {
			more = fmt.Sprintf("up to %s more than without a lease in any interval", tokensInWords(n))
		}
		j.note(Rule, "What was taken may be used %s later: %s.", spec.Duration(is.For), more)
	} else {
		j.note(Rule, "A block ends with its window: no interval has more for it.")
	}
	j.note(Rule, "Each process holds up to %s of a key for up to %s, which others are denied; one that is killed takes them along.",
		tokensInWords(is.Tokens), spec.Duration(is.For))
}

// leasedMore returns how many tokens more can be used in some interval of a token bucket for its lease: what
// accrues in the lease's time, rounded up, beyond what can be reserved. It is at most [math.MaxInt64].
func leasedMore(p *runtime.Policy) int64 {
	high, low := bits.Mul64(uint64(p.Rate), uint64(p.Lease.For))
	if high >= uint64(p.Period) {
		return math.MaxInt64
	}
	tokens, rest := bits.Div64(high, low, uint64(p.Period))
	if rest > 0 {
		tokens++
	}
	return max(0, int64(min(tokens, math.MaxInt64))-p.MaxReserved)
}
