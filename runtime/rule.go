package runtime

import (
	"fmt"
	"math"
	"math/bits"
)

// algorithm is the arithmetic of one [Kind]. Instants are in nanoseconds since 1970 UTC; numbers of tokens may have
// fractions.
type algorithm interface {
	// problem returns what a policy must change for this kind, or "" if it is valid.
	problem(p *Policy) string
	// available returns the tokens of s at the instant now, and the allowance: by how much a request may exceed them.
	available(r *Rule, s State, now int64) (tokens, allowance float64)
	// accrue returns s as of the instant now, with all tokens that have accrued by then.
	accrue(r *Rule, s State, now int64) State
	// take returns s after count tokens were taken, whether it had them or not.
	take(r *Rule, s State, now int64, count float64) State
	// grant returns s, which exists, after count tokens were added to it, up to the capacity. Earlier requests can no
	// longer be refunded.
	grant(r *Rule, s State, now int64, count float64) State
	// refund returns s, which exists, as if q.Count fewer tokens had been taken by the request that q refunds. If s does not
	// show what that would be, more tokens are missing in the result, never fewer.
	refund(r *Rule, s State, now int64, q Request) State
	// reset returns the state of a full key, given that s exists. Earlier requests can no longer be refunded.
	reset(r *Rule, s State, now int64) State
	// due returns the first instant at which s has need tokens, up to rounding, and the interval between the instants
	// at which tokens are granted. It is called only if s lacks them now.
	due(r *Rule, s State, now int64, need float64) (at, interval int64)
	// full reports whether s, which exists and is not from the future, is full, so that its row is not needed.
	full(r *Rule, s State, now int64) bool
	// windowEnd returns the end of the window that contains the instant at, or the last instant if windows do not end.
	windowEnd(r *Rule, at int64) int64
	// accruesTo returns the instant up to which tokens have accrued at the instant now, and the lowest value from which
	// they do. It is false if the instant depends on the stored row, or the formula is not linear: then no single SQL
	// statement can decide (see [Upsert]).
	accruesTo(r *Rule, now int64) (at int64, lowest float64, ok bool)
}

// kinds has an entry for every [Kind]. If one is missing, the array is too short for its type and does not compile.
var kinds [endOfKinds]kind = [...]kind{
	TokenBucket:   {name: "token bucket", linear: true, windowed: false, algorithm: tokenBucket{}},
	FixedWindow:   {name: "fixed window", linear: true, windowed: true, algorithm: fixedWindow{}},
	SlidingWindow: {name: "sliding window", linear: false, windowed: true, precise: true, algorithm: slidingWindow{}},
}

// kind is an entry of the table: the name in limits.yaml, the properties in [Kind.Linear] and [Kind.Windowed], whether a
// policy of the kind can be Precise, and the arithmetic.
type kind struct {
	name                      string
	linear, windowed, precise bool
	algorithm                 algorithm
}

// algorithm returns the arithmetic of a kind. Functions with an error refuse an unknown kind with [ErrInvalidPolicy]
// before they get here. In the others it panics, because a kind must never behave like another one.
func (k Kind) algorithm() algorithm {
	if k < endOfKinds && kinds[k].algorithm != nil {
		return kinds[k].algorithm
	}
	panic(fmt.Sprintf("runtime: %v has no algorithm: add it to the table kinds in rule.go", k))
}

// Rule is a [Policy] as it applies to one row: the numbers that [Rule.Step] calculates with.
type Rule struct {
	// Rate, Capacity and Debt are the policy's Rate, Capacity and MaxReserved in tokens, or a shard's share of them. Debt
	// is larger than any debt if the policy's MaxReserved is [Unbounded].
	Rate, Capacity, Debt float64
	// Period is the policy's, in nanoseconds.
	Period int64
	// Phase is the offset of the windows in a period, in nanoseconds from 0 to Period-1.
	Phase int64
	// Kind is the policy's.
	Kind Kind
	// FirstUse says that windows begin at a request, not at Phase.
	FirstUse bool
	// calendar has the windows of the policy's Calendar. Phase is then 0.
	calendar calendarWindows
	// Precise is the policy's.
	Precise bool
	// unlimited is the rule of ModeUnlimited.
	unlimited bool
	// spare is by how many bits the totals of a shard begin smaller, so that their sum is exact.
	spare uint
	// next is the rule that applies from the instant ends on, when an override has ended, or nil. It has the mode of its
	// policy: one that lets all requests pass ends their waits.
	ends int64
	next *Rule
	mode Mode
}

// endless is a debt larger than any other. It is finite because not all databases store infinity.
const endless = 1e300

// Rule returns the rule for a key, all of its shards together. The policy must be valid.
func (p *Policy) Rule(key string) Rule {
	if p.Mode == ModeUnlimited {
		return unlimited(p)
	}
	r := Rule{

		Rate:     float64(p.Rate),
		Capacity: float64(p.Capacity),
		Debt:     float64(p.MaxReserved),
		Period:   int64(p.Period),
		Kind:     p.Kind,
		FirstUse: p.Start.FirstUse(),
		Precise:  p.Precise,
	}
	// A debt of exactly MaxTokens would be a bound, which callers could reach.
	if p.MaxReserved == Unbounded {
		r.Debt = endless
	}
	switch {
	case p.Calendar.Unit != 0:
		r.calendar = p.Calendar.windowsOf()
	// A bucket and a log have no use for the hash, which is the most expensive part of a rule.
	case p.Kind.Windowed() && !p.Precise:
		r.Phase = p.Start.phase(p.Name, key, r.Period)
	}
	if p.Overrides.next != nil {
		next := p.Overrides.next.Rule(key)
		next.mode = p.Overrides.next.Mode
		r.ends, r.next = p.Overrides.until, &next
	}
	return r
}

// phase returns where in a period the windows of a key begin, in nanoseconds from 0 to period-1.
func (s Start) phase(name, key string, period int64) int64 {
	switch s.mode {
	case startAligned:
		return floorMod(int64(s.offset), period)
	case startByKey:
		return int64(hash(name, key) % uint64(period))
	}
	return 0
}

// hash is FNV-1a over name, a zero byte and key, with the finalizer of MurmurHash3. It must never change: the phase
// that it yields is part of the meaning of stored rows.
func hash(name, key string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * prime
	}
	h *= prime // the zero byte: without it, "ab" and "c" would be "a" and "bc"
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	// The last bytes have changed few of the low bits, which a modulo by the period or the shards keeps.
	return mix(h)
}

// mix is the finalizer of MurmurHash3: each bit of h changes about half of the bits of the result.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Shard returns the rule for shard i of n, counting from 0: its share of the tokens.
func (r Rule) Shard(i, n int) Rule {
	r.Rate = share(r.Rate, i, n)
	r.Capacity = share(r.Capacity, i, n)
	r.Debt = share(r.Debt, i, n)
	if n > 1 {
		r.spare = 10 // for MaxShards
	}
	if r.next != nil {
		next := r.next.Shard(i, n)
		r.next = &next
	}
	return r
}

// share returns the part of total that belongs to shard i of n. The parts differ by at most one token and add up to
// total exactly. All are whole numbers except for the one that holds the fraction of total.
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

// Full reports whether s is full at the instant now, in nanoseconds since 1970 UTC, so that its row is not needed.
func (r *Rule) Full(s State, now int64) bool {
	if !s.Exists {
		return true
	}
	// On a clock that was set back, a new key would be full already, but this row accrues nothing until its TS.
	if r.Precise {
		return now >= s.TS && r.fullLog(s, now)
	}
	return now >= s.TS && r.Kind.algorithm().full(r, s, now)
}

// WindowEnd returns the start of the window after the one that contains the instant at, in nanoseconds since 1970 UTC.
// For kinds without windows, and for windows that start at first use, it is the last instant of an int64.
func (r *Rule) WindowEnd(at int64) int64 { return r.Kind.algorithm().windowEnd(r, at) }

// windowStart returns the start of the window that contains the instant at.
func (r *Rule) windowStart(at int64) int64 {
	if r.calendar.exist() {
		return r.calendar.start(at)
	}
	return at - floorMod(at-r.Phase, r.Period)
}

// enough reports whether s has need tokens at the instant at.
func (r *Rule) enough(s State, at int64, need float64) bool {
	tokens, allowance := r.Kind.algorithm().available(r, s, at)
	return tokens-need >= -allowance
}

// when returns the first instant, now or later, at which s has need tokens if no other request takes tokens. need must
// be at most the capacity. The instant is that of the exact sum, which does not use the allowance, rounded up to the
// nanosecond, and [Rule.enough] is true for it.
func (r *Rule) when(s State, now int64, need float64) int64 {
	if r.enough(s, now, need) {
		return now
	}
	return r.search(s, now, need)
}

// first returns the first instant, now or later, at which s has the tokens that need returns for the rule that applies then.
func (r *Rule) first(s State, now int64, need func(r *Rule) float64) int64 {
	if modes[r.mode].allows {
		return now
	}
	return r.earlier(s, now, r.when(s, now, need(r)), need)
}

// earlier is [Rule.first], given the instant by this rule alone.
func (r *Rule) earlier(s State, now, at int64, need func(r *Rule) float64) int64 {
	if r.next == nil || at < r.ends {
		return at
	}
	return r.next.first(s, max(now, r.ends), need)
}

// lifted returns the instant at which overrides have ended and a policy follows that lets all requests pass, or the last
// instant.
func (r *Rule) lifted() int64 {
	for ; r.next != nil; r = r.next {
		if modes[r.next.mode].allows {
			return r.ends
		}
	}
	return math.MaxInt64
}

// whole is the need of a full key.
func whole(r *Rule) float64 { return r.Capacity }

// noDebt is the need of tokens that were reserved. In ModeShadow they are not waited for.
func noDebt(r *Rule) float64 {
	if r.mode == ModeShadow {
		return math.Inf(-1)
	}
	return 0
}

// search is [Rule.when] for tokens that s lacks now.
func (r *Rule) search(s State, now int64, need float64) int64 {
	at, interval := r.Kind.algorithm().due(r, s, now, need)
	at = max(at, now+1)
	// The formula for due rounds, so it can be early: then step on, twice as far each time, until there is enough.
	fails := at - interval
	for step := interval; !r.enough(s, at, need) && at < math.MaxInt64; step *= 2 {
		fails, at = at, addSaturating(at, step)
	}
	// The last step may have gone too far: bisect between the last instant that failed and the first that passed.
	for at-fails > interval {
		if middle := fails + (at-fails)/interval/2*interval; r.enough(s, middle, need) {
			at = middle
		} else {
			fails = middle
		}
	}
	return at
}

// The linear formula, shared by the kinds that are [Kind.Linear]. They differ in T, the instant up to which tokens have
// accrued.

// accrueTo returns s with the tokens that have accrued up to the instant t:
//
//	value = min(0, value + max(0, t-ts) * rate / period), ts = max(ts, t)
//
// Since ts never moves back, a clock that jumps back and forth does not grant the time between twice.
func (r *Rule) accrueTo(s State, t int64) State {
	switch {
	case !s.Exists:
		return State{TS: t, Exists: true}
	case t <= s.TS:
		return State{Value: r.round(min(0, s.Value)), TS: s.TS, Prev: keptTotal(s.Prev), Exists: true}
	}
	return State{Value: r.round(min(0, s.Value+r.accrued(s.TS, t))), TS: t, Prev: keptTotal(s.Prev), Exists: true}
}

// round rounds a value to the precision that numbers near the capacity have. Whole tokens can then be subtracted without
// another rounding, so that several requests leave the same bits one by one as together.
func (r *Rule) round(value float64) float64 {
	twice := 2 * r.Capacity
	return float64(value+twice) - twice
}

// tokens returns the tokens of an accrued state: those of a full key, less the missing ones.
func (r *Rule) tokens(accrued State) float64 { return r.Capacity + accrued.Value }

// accrued returns rate * elapsed / period for the time between two instants, and for a calendar rate times its windows.
func (r *Rule) accrued(from, to int64) float64 {
	if r.calendar.exist() {
		return float64(float64(r.windows(from, to)) * r.Rate)
	}
	elapsed, period := uint64(to-from), uint64(r.Period)
	// Whole periods are counted as integers, so that n windows grant exactly n times the rate.
	whole := float64(elapsed/period) * r.Rate
	part := float64(elapsed%period) * r.Rate / float64(period)
	// The conversions keep the compiler from fusing multiply and add: SQL must calculate the same bits.
	return float64(whole) + float64(part)
}

// timeFor returns how long a number of tokens takes to accrue, rounded up. For whole tokens it is exact.
func (r *Rule) timeFor(tokens float64) int64 {
	whole, part := math.Modf(tokens)
	// Written so that NaN, which a damaged row may yield, takes this branch too.
	if !(whole < math.MaxInt64) {
		return math.MaxInt64
	}
	// tokens * period needs 128 bits: both may be as large as 10^17.
	high, low := bits.Mul64(uint64(whole), uint64(r.Period))
	rate := uint64(r.Rate)
	if high >= rate {
		return math.MaxInt64
	}
	time, rest := bits.Div64(high, low, rate)
	if time > math.MaxInt64 {
		return math.MaxInt64
	}
	return addSaturating(int64(time), nanoseconds((float64(rest)+part*float64(r.Period))/r.Rate))
}

// allowance returns how many tokens a request may lack and still pass: a millionth of a token, but no more than what
// accrues in a microsecond. Without it, a request made exactly when its token is due could be refused because of a
// rounding in the sixteenth digit. Rows store the exact difference, so that allowances do not add up.
func allowance(rate float64, period int64) float64 {
	return min(1e-6, float64(1000*rate)/float64(period))
}

// nanoseconds rounds up, and returns at most the longest duration.
func nanoseconds(f float64) int64 {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Ceil(f))
}

// addSaturating returns a+b for b >= 0, or the last instant if that overflows.
func addSaturating(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxInt64
}

// floorMod returns a modulo m, which is at least 0 for instants before 1970 too.
func floorMod(a, m int64) int64 {
	if r := a % m; r < 0 {
		return r + m
	} else {
		return r
	}
}
