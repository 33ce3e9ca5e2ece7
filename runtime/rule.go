package runtime

import "math"

// Rule is a [Policy] as it applies to one row: the numbers that [Rule.Step] calculates with.
type Rule struct {
	// Rate, Capacity and Debt are the policy's rate, capacity and maxReserved in tokens, or a shard's
	// share of them. Debt is more than any debt if the policy's maxReserved is [Unbounded].
	Rate, Capacity, Debt float64
	// Period is the policy's, in nanoseconds.
	Period int64
	// Phase is where in a period the windows begin, in nanoseconds from 0 to Period-1.
	Phase int64
	// Kind is the policy's.
	Kind Kind
	// FirstUse says that windows begin at a request, not at Phase.
	FirstUse bool
}

// endless is a debt that is never met. Databases have it too, unlike infinity.
const endless = 1e300

// Rule returns the rule for a key, all of its shards together. The policy must be valid.
func (p *Policy) Rule(key string) Rule {
	r := Rule{
		Rate:     float64(p.Rate),
		Capacity: float64(p.Capacity),
		Debt:     float64(p.MaxReserved),
		Period:   int64(p.Period),
		Kind:     p.Kind,
		FirstUse: p.Start.FirstUse(),
	}
	if p.MaxReserved == Unbounded {
		r.Debt = endless
	}
	if p.Kind != TokenBucket {
		r.Phase = p.Start.phase(p.Name, key, r.Period)
	}
	return r
}

// Shard returns the rule for shard i of n, counting from 0: its share of the tokens.
func (r Rule) Shard(i, n int) Rule {
	r.Rate = share(r.Rate, i, n)
	r.Capacity = share(r.Capacity, i, n)
	r.Debt = share(r.Debt, i, n)
	return r
}

// share returns the part of total that belongs to shard i of n. The parts differ by at most one token and
// add up to total, in whole tokens but for the one part that holds the fraction.
func share(total float64, i, n int) float64 {
	if n <= 1 {
		return total
	}
	whole, fraction := math.Modf(total)
	part := math.Floor(whole / float64(n))
	switch rest := int(whole - part*float64(n)); {
	case i < rest:
		return part + 1
	case i == rest:
		return part + fraction
	}
	return part
}

// windowStart returns the start of the window that contains the instant at.
func (r *Rule) windowStart(at int64) int64 { return at - floorMod(at-r.Phase, r.Period) }

// WindowEnd returns the start of the window after the one that contains the instant at, in nanoseconds since
// 1970 UTC. Where windows do not end, or begin at first use, it is the last instant there is.
func (r *Rule) WindowEnd(at int64) int64 {
	if r.Kind == TokenBucket || r.FirstUse {
		return math.MaxInt64
	}
	return addSaturating(r.windowStart(at), r.Period)
}

// available returns the tokens of s at the instant now, and the instant T as of which they are counted:
//
//	avail = min(capacity, value + max(0, T-ts) * rate / period)
//
// where the whole periods in T-ts count as an integer. T is now for a token bucket and the start of the window that contains now for a fixed window, but never
// before ts: a clock that goes back neither takes nor gives tokens.
func (r *Rule) available(s State, now int64) (avail float64, t int64) {
	if r.Kind == SlidingWindow {
		w := r.slide(s, now)
		return r.Rate - w.used(now, r.Period), w.start
	}
	t = r.accruedTo(s, now)
	switch {
	case !s.Exists:
		return r.Capacity, t
	case t <= s.TS:
		return min(r.Capacity, s.Value), s.TS
	}
	return min(r.Capacity, s.Value+r.accrued(s.TS, t)), t
}

// accrued returns rate * elapsed / period for the time between two instants. Whole periods are counted as integers,
// so that n windows grant exactly n times the rate. SQL must give the same bits: the conversions keep the compiler
// from fusing the operations.
func (r *Rule) accrued(from, to int64) float64 {
	elapsed, period := uint64(to-from), uint64(r.Period)
	whole := float64(elapsed/period) * r.Rate
	part := float64(elapsed%period) * r.Rate / float64(period)
	return float64(whole) + float64(part)
}

// accruedTo returns the T of [Rule.available].
func (r *Rule) accruedTo(s State, now int64) int64 {
	switch {
	case r.Kind == TokenBucket:
		return now
	case !r.FirstUse:
		return r.windowStart(now)
	case s.Exists && now < addSaturating(s.TS, r.Period):
		return s.TS
	}
	return now
}

// Full reports whether s is worth no more than a key never seen, so that its row can be forgotten.
func (r *Rule) Full(s State, now int64) bool {
	if !s.Exists {
		return true
	}
	if now < s.TS {
		return false
	}
	if r.FirstUse && now < addSaturating(s.TS, r.Period) {
		return false
	}
	if r.Kind == SlidingWindow {
		w := r.slide(s, now)
		return w.current == 0 && w.previous == 0
	}
	avail, _ := r.available(s, now)
	return avail >= r.Capacity
}

// addSaturating returns a+b for b >= 0, or the last instant there is.
func addSaturating(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxInt64
}
