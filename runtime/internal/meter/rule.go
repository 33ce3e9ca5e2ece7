// Package meter is the arithmetic of limits: a [Rule] steps the stored [runtime.State] of a key from one request to the
// next. It is pure: time is an argument, in nanoseconds since 1970 UTC, and nothing is kept between two calls.
package meter

import (
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// algorithm is the arithmetic of a [Rule] of one [runtime.Kind]. Instants are in nanoseconds since 1970 UTC; numbers of
// tokens may have fractions.
type algorithm interface {
	// available returns the tokens of s at the instant now, and the allowance: by how much a request may exceed them.
	available(s runtime.State, now int64) (tokens, allowance float64)
	// accrue returns s as of the instant now, with all tokens that have accrued by then.
	accrue(s runtime.State, now int64) runtime.State
	// take returns s after count tokens were taken, whether it had them or not.
	take(s runtime.State, now int64, count float64) runtime.State
	// grant returns s, which exists, after count tokens were added to it, up to the capacity. Earlier requests can no
	// longer be refunded.
	grant(s runtime.State, now int64, count float64) runtime.State
	// refund returns s, which exists, as if q.Count fewer tokens had been taken by the request that q refunds. If s
	// does not show what that would be, more tokens are missing in the result, never fewer.
	refund(s runtime.State, now int64, q runtime.Request) runtime.State
	// reset returns the state of a full key, given that s exists. Earlier requests can no longer be refunded.
	reset(s runtime.State, now int64) runtime.State
	// due returns the first instant at which s has need tokens, and 0 or, if that is rounded, the interval between the
	// instants at which tokens are granted. It is called only if s lacks them now.
	due(s runtime.State, now int64, need float64) (at, interval int64)
	// full reports whether s, which exists and is not from the future, is full, so that its row is not needed.
	full(s runtime.State, now int64) bool
	// windowEnd returns the end of the window that contains the instant at, or the last instant if windows do not end.
	windowEnd(at int64) int64
	// accruesTo returns the instant up to which tokens have accrued at the instant now, and the lowest value from which
	// they do. It is false if the instant depends on the stored row, or the formula is not linear: then no single SQL
	// statement can decide (see [Upsert]).
	accruesTo(now int64) (at int64, lowest float64, ok bool)
}

// Rule is a [runtime.Policy] as it applies to one row: the numbers that [Rule.Step] calculates with.
type Rule struct {
	// Rate, Capacity and Debt are the policy's Rate, Full and MaxReserved in tokens, or a shard's share of them. Debt
	// is larger than any debt if the policy's MaxReserved is [runtime.Unbounded].
	Rate, Capacity, Debt float64
	// left is how many tokens the policy's Priority leaves, by which the Capacity is smaller.
	left float64
	// Period and Hold are the policy's, in nanoseconds.
	Period, Hold int64
	// Phase is the offset of the windows in a period, in nanoseconds from 0 to Period-1.
	Phase int64
	// calendar has the windows of the policy's Calendar. Phase is then 0.
	calendar calendarWindows
	// penalty is the policy's, or nil.
	penalty *runtime.Penalty
	// warn are the policy's thresholds, or nil.
	warn *runtime.Thresholds
	// next is the rule that applies from the instant ends on, when an override has ended, or nil. It has the mode of its
	// policy: one that lets all requests pass ends their waits.
	ends int64
	next *Rule
	// read is the row in flight that was read or made last, or nil.
	read *readHolders
	// The small fields are together, because each request of a batch has a rule.
	mode runtime.Mode
	// Kind is the policy's.
	Kind runtime.Kind
	// FirstUse says that windows begin at a request, not at Phase.
	FirstUse bool
	// Precise is the policy's.
	Precise bool
	// numberless is the rule of a plan without numbers.
	numberless bool
	totals     totals
}

// endless is a debt larger than any other. It is finite because not all databases store infinity.
const endless = 1e300

// RuleOf returns the rule for a key, all of its shards together. The policy must be valid.
func RuleOf(p *runtime.Policy, key string) Rule {
	if p.Inside().Unlimited() || p.Rate+p.Slots == 0 {
		return numberless(p)
	}
	r := Rule{
		Rate:     float64(p.Rate),
		Capacity: float64(p.Full()),
		Debt:     float64(p.MaxReserved),
		Period:   int64(p.Period),
		Hold:     int64(p.Hold),
		Kind:     p.Kind,
		FirstUse: p.Start.FirstUse(),
		Precise:  p.Precise,
	}
	if p.Priority.Leaves > 0 {
		r.left = float64(p.Capacity - p.Full())
	}
	// A debt of exactly MaxTokens would be a bound, which callers could reach.
	if p.MaxReserved == runtime.Unbounded {
		r.Debt = endless
	}
	if p.Penalizes() {
		r.penalty = &p.Penalty
	}
	if p.Warn[0] != 0 {
		r.warn = &p.Warn
	}
	switch {
	case p.Calendar.Unit != 0:
		r.calendar = windowsOf(p.Calendar)
	// A bucket and a log have no use for the hash, which is the most expensive part of a rule.
	case p.Kind.Windowed() && !p.Precise:
		r.Phase = phaseOf(p.Start, p.Name, key, r.Period)
	}
	if following, ends := p.Inside().Next(); following != nil {
		next := RuleOf(following, key)
		next.mode = following.Mode
		r.ends, r.next = ends, &next
	}
	return r
}

// numberless is the rule of a plan without numbers, for the rows that other plans have left. Slots are renewed if it has a
// hold.
func numberless(p *runtime.Policy) Rule {
	return Rule{
		Kind: p.Kind, Rate: runtime.MaxTokens, Capacity: runtime.MaxTokens, Period: 1, Hold: int64(p.Hold), Precise: p.Precise,
		numberless: p.Inside().Unlimited() || p.Hold == 0,
	}
}

// countsNothing reports whether a key is full whatever was used: by a plan without numbers. Slots stay held.
func (r *Rule) countsNothing() bool { return r.numberless && r.Kind != runtime.InFlight }

// phaseOf returns where in a period the windows of a key begin, in nanoseconds from 0 to period-1.
func phaseOf(s runtime.Start, name, key string, period int64) int64 {
	if s.FirstUse() {
		return 0
	}
	if offset, aligned := s.Offset(); aligned {
		return arith.Mod(int64(offset), period)
	}
	return int64(arith.Hash(name, key) % uint64(period))
}

// Shard returns the rule for shard i of n, counting from 0: its share of the tokens.
func (r Rule) Shard(i, n int) Rule {
	r.Rate = share(r.Rate, i, n)
	// What all classes of requests together have in a shard is the same for each of them.
	left := share(r.left, i, n)
	r.Capacity, r.left = share(r.Capacity+r.left, i, n)-left, left
	r.Debt = share(r.Debt, i, n)
	if n > 1 {
		r.totals = 10 // for MaxShards
	}
	if i < n-1 {
		r.warn = nil // see crossed
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

// For returns the rule with the zone and the anniversary of a request's key, if the policy's Calendar is PerKey.
// Otherwise it returns r.
func (r Rule) For(q runtime.Request) Rule {
	if r.calendar.zonePerKey && q.Zone != nil {
		r.calendar.zone = q.Zone
	}
	if r.calendar.anniversary && q.Anniversary.Valid() {
		r.calendar.beginOn(q.Anniversary)
	}
	if r.next != nil && (r.calendar.zonePerKey || r.calendar.anniversary) {
		next := r.next.For(q)
		r.next = &next
	}
	return r
}

// RuleFor returns the rule for a valid request.
func RuleFor(q *runtime.Request) Rule { return RuleOf(q.Policy, q.Key).For(*q) }

// windowStart returns the start of the window that contains the instant at.
func (r *Rule) windowStart(at int64) int64 {
	if r.calendar.exist() {
		return r.calendar.start(at)
	}
	return at - arith.Mod(at-r.Phase, r.Period)
}

// Boundless returns a rule of a kind by which every count can pass, for requests that no row decides.
func Boundless(k runtime.Kind) Rule { return Rule{Kind: k, Capacity: endless} }

// sweepAfter is how long a row is kept after it has become full, so that a clock that is set back by less still finds
// it.
const sweepAfter = time.Hour
