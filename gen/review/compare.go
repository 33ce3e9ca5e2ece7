package review

import (
	"math/bits"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// looseness returns Loosened if the new rule lets more tokens through in some interval, Tightened if it lets
// fewer through in some, or both. Beside the usual intervals it looks at the shortest, and at the long run.
func looseness(old, new *runtime.Policy) (classes []Class) {
	more, fewer := longRun(old, new)
	for _, t := range []time.Duration{0, 1, time.Second, time.Minute, time.Hour, 24 * time.Hour, old.Period, new.Period} {
		was, is := Within(old, t), Within(new, t)
		more, fewer = more || is > was, fewer || is < was
	}
	more, fewer = more || new.Capacity > old.Capacity, fewer || new.Capacity < old.Capacity
	if more {
		classes = append(classes, Loosened)
	}
	if fewer {
		classes = append(classes, Tightened)
	}
	return classes
}

// longRun compares the rates per time.
func longRun(old, new *runtime.Policy) (more, fewer bool) {
	high, low := bits.Mul64(uint64(grant(new)), uint64(old.Period))
	highWas, lowWas := bits.Mul64(uint64(grant(old)), uint64(new.Period))
	switch {
	case high != highWas:
		return high > highWas, high < highWas
	default:
		return low > lowWas, low < lowWas
	}
}

// grant is how many tokens a rule grants in a period in the long run.
func grant(p *runtime.Policy) int64 {
	if p.Kind == runtime.FixedWindow {
		return min(p.Rate, p.Capacity+p.MaxReserved)
	}
	return p.Rate
}
