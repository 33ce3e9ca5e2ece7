package spec

import (
	"math"
	"math/bits"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Within returns the most tokens that one key can use in an interval of length t, its first and last
// instant included, however unlucky its beginning. A reserved token is used when it is due, and reservations
// are of one token each; a larger one can add to it when it is due, and so can what is given back after others
// have reserved. The policy must be valid. It is at most [math.MaxInt64], which stands for more than can be counted.
//
// Token bucket: what had piled up, and what accrues. With nothing piled up, the interval can begin when a
// reserved token is due. With a lease, what is used was taken in the interval or in the lease's time before it: it
// is as if the interval were that much longer. In windows a lease makes no difference, for it ends with its window.
//
// Fixed window: all that had piled up just before the first window in the interval, and of each window as
// much as fits below capacity, or into the debt before it. First use: see [withinFirstUse]. Sliding window: see
// [withinSliding].
func Within(p *runtime.Policy, t time.Duration) int64 {
	period := int64(p.Period)
	switch {
	case p.Kind == runtime.SlidingWindow:
		return withinSliding(p, int64(t))
	case p.Kind == runtime.TokenBucket:
		return add(max(p.Capacity, 1), accrued(p, int64(t+p.Lease.For)))
	case p.Start.FirstUse():
		return withinFirstUse(p, int64(t))
	}
	piled, granted := p.Capacity, min(p.Rate, p.Capacity+p.MaxReserved)
	if int64(t)%period == 0 { // the interval can begin with a window and end with one
		piled = max(piled, granted)
	}
	return add(piled, times(granted, ceil(int64(t), period)))
}

// withinFirstUse is [Within] for windows that begin at first use. Between the starts of two windows tokens accrue as
// in a token bucket, and no window has more than capacity and debt. The interval can begin with a window that
// has all of the capacity; or when a window ends that was opened with one token, so that its others go then
// and what accrued in it goes next; or when one ends that was all reserved, so that what accrued in it is due,
// and up to a token more that had nearly accrued when it was opened.
func withinFirstUse(p *runtime.Policy, t int64) int64 {
	period, most := int64(p.Period), p.Capacity+p.MaxReserved
	fresh := p.Capacity
	if t >= period {
		fresh = add(fresh, min(times(most, t/period), accrued(p, t)))
	}
	due := accrued(p, t+period)
	if p.Reserves() && p.Capacity > 0 {
		due = accruedUp(p, t+period-1)
	}
	fresh = max(fresh, min(times(most, t/period+1), due))
	if t == 0 || p.Capacity == 0 {
		return fresh
	}
	opened := add(p.Capacity-1, min(times(most, ceil(t, period)), accrued(p, t+period-1)))
	return max(fresh, opened)
}

// withinSliding is [Within] for a sliding window. The interval begins at the last instant of a window that takes
// all of the rate; each window after it takes at its last instant what the one before leaves it, and the last
// window at the end of the interval.
func withinSliding(p *runtime.Policy, t int64) int64 {
	period := int64(p.Period)
	windows, last := (t+period-1)/period, (t+period-1)%period
	sum, before, used := p.Rate, int64(-1), p.Rate
	for i := int64(1); i < windows; i++ {
		next := left(p, used, period-1)
		if next == before || next == used { // from here on, two amounts take turns
			rest := windows - i
			sum = add(sum, add(times(next, (rest+1)/2), times(used, rest/2)))
			used = pick(rest%2 == 1, next, used)
			break
		}
		sum, before, used = add(sum, next), used, next
	}
	if windows == 0 {
		return sum
	}
	return add(sum, left(p, used, last))
}

// left returns what can be taken in a window in which elapsed has passed, if in the one before so much was used.
func left(p *runtime.Policy, used, elapsed int64) int64 {
	weight := 1 - float64(elapsed)/float64(p.Period)
	return whole(float64(p.Rate)-float64(float64(used)*weight), float64(used), p.Period)
}

func pick(first bool, a, b int64) int64 {
	if first {
		return a
	}
	return b
}

// whole returns the whole tokens in a sum that may fall short of what is taken by the runtime's allowance: a millionth
// of a token, but no more than what a microsecond grants at rate per period.
func whole(tokens, rate float64, period time.Duration) int64 {
	return int64(math.Floor(tokens + min(1e-6, float64(1000*rate)/float64(period))))
}

// accrued returns rate * t / period, in whole tokens, with the allowance.
func accrued(p *runtime.Policy, t int64) int64 {
	tokens, rest := accruedExactly(p, t)
	if period := uint64(p.Period); period-rest <= min(period/1_000_000, 1000*uint64(p.Rate)) {
		return add(tokens, 1)
	}
	return tokens
}

// accruedUp returns rate * t / period, rounded up.
func accruedUp(p *runtime.Policy, t int64) int64 {
	tokens, rest := accruedExactly(p, t)
	if rest > 0 {
		return add(tokens, 1)
	}
	return tokens
}

// accruedExactly returns rate * t / period in whole tokens, and what remains of the division.
func accruedExactly(p *runtime.Policy, t int64) (tokens int64, rest uint64) {
	high, low := bits.Mul64(uint64(p.Rate), uint64(t))
	if high >= uint64(p.Period) {
		return math.MaxInt64, 0
	}
	whole, rest := bits.Div64(high, low, uint64(p.Period))
	return int64(min(whole, math.MaxInt64)), rest
}

// ceil returns a/b, rounded up.
func ceil(a, b int64) int64 {
	if a%b == 0 {
		return a / b
	}
	return a/b + 1
}

// add and times stop at the largest number. They take no negative ones.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
