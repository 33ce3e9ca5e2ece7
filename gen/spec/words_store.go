package spec

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func (l *Limit) leaseInWords() string {
	lease := l.Policy.Lease
	switch lease.Tokens {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("A process takes 1 token at a time, and spends it from its memory within %s.", Duration(lease.For))
	}
	return fmt.Sprintf("A process takes %s tokens at a time, and spends them from its memory within %s.", words.Number(lease.Tokens), Duration(lease.For))
}

// leaseBoundInWords says what holds though tokens are spent later than they were taken.
func (l *Limit) leaseBoundInWords() string {
	p := &l.Policy
	switch {
	case p.Lease.Tokens == 0:
		return ""
	case p.Kind != runtime.TokenBucket:
		return "A block ends with its window, so that no window has more for it."
	}
	ahead := ""
	switch {
	case p.MaxReserved == runtime.Unbounded:
		ahead = ", and what is reserved"
	case p.Reserves():
		ahead = fmt.Sprintf(", or %s + %s*t/%s if that is more", words.Number(p.Capacity+p.MaxReserved), words.Number(p.Rate), Duration(p.Period))
	}
	return fmt.Sprintf("At most %s + %s*(t + %s)/%s can be used in any time t%s.", words.Number(p.Capacity), words.Number(p.Rate), Duration(p.Lease.For), Duration(p.Period), ahead)
}

func (l *Limit) denyCacheInWords() string {
	if l.Policy.DenyCache == 0 {
		return ""
	}
	return fmt.Sprintf("A process remembers a denial for at most %s.", Duration(l.Policy.DenyCache))
}

func (l *Limit) durabilityInWords() string {
	switch l.Policy.Durability {
	case runtime.DurabilityRelaxed:
		return "A crash of the database's machine may lose the counts of the last moments."
	case runtime.DurabilityFull:
		return "A decision waits until the database's disk has the counts."
	}
	return ""
}
